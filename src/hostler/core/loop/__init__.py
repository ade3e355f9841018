"""The self-improvement loops as facts and decisions: what a config has come to, and what its stages do next."""
