"""Quantities and texts for people: short, exact enough, and harmless on a terminal."""

from __future__ import annotations

UNKNOWN = "?"
"""What is shown where nothing is known; never 0."""

PREFIXES = ("", " k", " M", " G", " T", " P", " E")


def duration(seconds: float | None) -> str:
    """Seconds as `0.4 s`, `12 s`, `3m 20s`, `5h 07m` or `3d 4h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def quantity(amount: float | None, unit: str = "") -> str:
    """An amount with three figures and a decimal prefix: `131 M/s`; small counts exactly."""
    if amount is None:
        return UNKNOWN
    power = 0
    scaled = float(amount)
    while abs(scaled) >= 999.5 and power < len(PREFIXES) - 1:
        scaled /= 1000
        power += 1
    digits = f"{amount:.0f}" if power == 0 and float(amount).is_integer() else f"{scaled:.3g}"
    return f"{digits}{PREFIXES[power]}{unit}"


def share(part: int, whole: int) -> str:
    """A percentage that says 100 % only of the whole."""
    if part == whole:
        return "100 %"
    return f"{min(100 * part / whole, 99.9):.1f} %"


def card_memory(size: int) -> str:
    """The memory of a card as its maker and all of Hostler's pages count it, 2^30 bytes to a GB: `24 GB`."""
    return f"{gigabytes(size / 2**30)} GB"


def file_size(size: int) -> str:
    """A number of bytes for people: `512 B`, `3.1 GB`."""
    if size < 1000:
        return f"{size} B"
    units = iter(("kB", "MB", "GB", "TB"))
    value, unit = size / 1000, next(units)
    while value >= 999.5 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"


def printable(text: str, limit: int | None = None) -> str:
    """A text from anywhere, made harmless for a terminal: control characters as escapes, cut to `limit` with `…`."""
    safe = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return safe if limit is None or len(safe) <= limit else safe[: limit - 1] + "…"


def gigabytes(size: float) -> str:
    """A size of memory in GB, with one decimal: drivers count in MiB, and 23.9883 GB are 24."""
    return f"{round(size, 1):.15g}"
