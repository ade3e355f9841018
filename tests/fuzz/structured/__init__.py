"""Structured fuzzing: each leaf of what comes from outside replaced by extreme values, given to a real controller."""
