"""What was proved, or not; and the exit status that tells scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

Health: TypeAlias = Literal["ok", "note", "unknown", "error"]
"""`note`: it works, and something is worth knowing; `unknown`: it could not be asked; `error`: it does not work."""
Check: TypeAlias = Literal["cluster", "version", "game", "store", "advice", "queue", "quota", "rbac"]

NOT_PROVED = 9
STATUSES: Mapping[Check, int] = {
    "cluster": 10,
    "version": 11,
    "game": 12,
    "store": 13,
    "advice": 14,
    "queue": 15,
    "quota": 16,
    "rbac": 17,
}
"""The exit status where a check fails."""


class Proof(NamedTuple):
    """One thing that was looked at."""

    check: Check
    code: str
    """What it came to, for scripts: `advice-refused`."""
    health: Health
    says: str
    fix: str = ""
    """What to do; empty where all is well."""


def ok(check: Check, says: str) -> Proof:
    """It works."""
    return Proof(check, f"{check}-ok", "ok", says)


def unknown(check: Check, says: str, fix: str) -> Proof:
    """It could not be asked."""
    return Proof(check, f"{check}-unknown", "unknown", says, fix)


def error(check: Check, code: str, says: str, fix: str) -> Proof:
    """It does not work."""
    return Proof(check, f"{check}-{code}", "error", says, fix)


def status_of(proofs: Iterable[Proof]) -> int:
    """Of the first check that fails, in the order of `STATUSES`; 9 where only something is unknown, else 0."""
    told = list(proofs)
    failed = [STATUSES[each.check] for each in told if each.health == "error"]
    if failed:
        return min(failed)
    return NOT_PROVED if any(each.health == "unknown" for each in told) else 0
