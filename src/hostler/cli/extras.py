"""Extras of the package: what to install where an optional Python package is missing."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

FOR_DEVELOPERS = frozenset({"dev", "docs", "fuzz"})
_OPTIONAL = re.compile(r"([A-Za-z0-9_.-]+).*;.*\bextra == ['\"]([a-z0-9-]+)['\"]")


def missing_package(error: ModuleNotFoundError) -> str | None:
    """The message for a package of an extra that is not installed; `None` where no extra has it."""
    package = (error.name or "").partition(".")[0]
    extras = extras_of(package)
    if not package or not extras:
        return None
    return f"this needs the Python package {package}, which is not installed: `pip install 'hostler[{extras[0]}]'`"


def extras_of(package: str) -> list[str]:
    """The extras with this package, the one with the fewest packages first."""
    try:
        found = [match.groups() for each in requires("hostler") or () if (match := _OPTIONAL.match(each))]
    except PackageNotFoundError:
        return []
    sizes = [extra for _, extra in found]
    named = {extra for name, extra in found if _module(name) == _module(package) and extra not in FOR_DEVELOPERS}
    return sorted(named, key=lambda extra: (sizes.count(extra), extra))


def _module(name: str) -> str:
    return name.lower().replace("-", "_")
