"""Tokens, and what was answered under keys."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from hostler.model.access import Scope
from hostler.model.record import entity, record


@record
class Token:
    """A token that was made, but for itself."""

    name: str
    sha256: str
    scope: Scope
    created_at: float
    expires_at: float | None
    owner: str | None = None
    """`None`: the user that the controller runs as."""

    def is_live(self, at: float) -> bool:
        """Whether it lets anybody in."""
        return self.expires_at is None or at < self.expires_at


@record
class Answered:
    """A request that was accepted under a key."""

    at: float
    fingerprint: str | None
    answer: Any
    weight: int
    """About how many words the answer has."""


@record
class Sharing:
    """How the jobs of one person concern another; as settings and operating system have it, so it is volatile."""

    user: str | None = None
    """The operating-system user that the controller runs as."""
    shared_jobs: bool | None = None
    """Whether each operator may change the jobs of others; `None`: as long as all tokens have one owner."""


@entity
class Access:
    """Who may come in, and what was answered to whom."""

    tokens: dict[str, Token] = field(default_factory=dict)
    """By hash, in order of creation; of those that have expired, none that was there when another was made."""
    answered: dict[str, Answered] = field(default_factory=dict)
    """By whom and under which key (`kept_as`), oldest first."""
    weight: int = 0
    """Of all answers together."""


def kept_as(who: str, key: str) -> str:
    """What an answer is kept under. No name holds a line break."""
    return f"{who}\n{key}"
