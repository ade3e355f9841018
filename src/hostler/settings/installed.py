"""What installed packages announce as entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from hostler.model.errors import SpecError


def load_installed(group: str, kind: str, name: str, otherwise: str) -> tuple[Any, str]:
    """What is installed under that name in a group of entry points, and where it was found (`module:object`).

    Raises `SpecError` naming those that are installed; `otherwise` says what to do without one of that `kind`.
    """
    found = {point.name: point for point in entry_points(group=group)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise SpecError(f"no {kind} {name!r} is installed (installed: {known}); {otherwise}")
    try:
        return found[name].load(), found[name].value
    except (ImportError, AttributeError) as error:
        raise SpecError(f"the {kind} {name!r} cannot be loaded ({error}); install its package anew") from error
