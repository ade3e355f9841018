"""Points in time as people write them: `2026-12-31T18:00:00Z`, or Unix seconds."""

from __future__ import annotations

from datetime import datetime

LATEST = 253402300799
"""The last second of the year 9999, beyond which there are no dates."""

_EXAMPLE = "as 2026-12-31T18:00:00Z or 2026-12-31T19:00+01:00"


def parse_moment(written: object) -> float:
    """The Unix time that `written` (a number, or a date and time of ISO 8601 with its offset) stands for.

    Raises `ValueError` for anything else: a time without an offset is another one on every machine.
    """
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise ValueError(f"should be a date and time, {_EXAMPLE}, or Unix seconds")
    at = _moment(written) if isinstance(written, str) else float(written)
    if not 0 <= at <= LATEST:
        raise ValueError("lies outside the years 1970 to 9999")
    return at


def _moment(text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"should be a date and time, {_EXAMPLE}") from None
    if at.tzinfo is None:
        raise ValueError(f"has no offset from UTC; write it, {_EXAMPLE}")
    try:
        return at.timestamp()
    except OverflowError:
        raise ValueError("lies outside the years 1970 to 9999") from None
