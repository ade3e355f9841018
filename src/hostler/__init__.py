"""Hostler keeps a motley fleet of GPUs busy with the most valuable work each can do, and never loses a result."""

__version__ = "0.1.0"
