"""Codes that log in once: the link which `hostler up` prints."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

LIFETIME_S = 1800.0
CODES_MAX = 16
"""Codes that are good at a time; the oldest makes room."""


class OneTimeCodes:
    """Issues codes and redeems each of them once, until it expires. They are kept as hashes, in memory alone."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns Unix seconds."""
        self._now = now
        self._ends_at: dict[str, float] = {}

    def issue(self) -> str:
        """A new code."""
        code = secrets.token_urlsafe(12)
        while len(self._ends_at) >= CODES_MAX:
            del self._ends_at[next(iter(self._ends_at))]
        self._ends_at[_hash(code)] = self._now() + LIFETIME_S
        return code

    def redeem(self, code: str) -> bool:
        """Whether a code is good; it is not any more then."""
        ends_at = self._ends_at.pop(_hash(code), None)
        return ends_at is not None and self._now() < ends_at


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()
