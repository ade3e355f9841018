"""The bound on what a test waits for."""

PATIENCE_S = 240.0
"""Reached only when what is awaited is broken: generous, because other processes may take the processors meanwhile."""
