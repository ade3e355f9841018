"""Attempts on this machine."""

from hostler.backends.local.node import LocalNode

__all__ = ["LocalNode"]
