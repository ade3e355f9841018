"""Patterns of files in a folder. Imports nothing slow: each submission needs it."""

from __future__ import annotations


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern cannot name files of a folder; `None` where it can."""
    if not pattern:
        return "is empty; name files, as `out/*.pt`"
    if "\0" in pattern:
        return "contains a NUL byte, which no path can have"
    if pattern.startswith("/") or ".." in pattern.split("/"):
        return "leads out of the folder; name what is in it"
    return None
