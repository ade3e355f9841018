"""One thing about a cluster or a partition of it, in words, and what to do about it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Health: TypeAlias = Literal["ok", "note", "warning", "error"]
"""`note`: worth knowing; `warning`: it works, and not as well or as often as it could; `error`: it does not."""


class Finding(NamedTuple):
    """One thing about one node, or about what all partitions of a cluster have in common."""

    node: str
    what: str
    """`login`, `commands`, `slurm`, `slurmctld`, `python`, `clock`, `accounting`, `limits`, `folder`, `partition`,
    `hosts`, `slots`, `submission`, `job`, `setup`, `shared`, `agent`, `gpu` or `clean-up`."""
    health: Health
    says: str
    fix: str = ""
    """What to do; empty where all is well."""


def of_error(node: str, what: str, error: Exception) -> Finding:
    """What an error says; the advice stands behind the first semicolon."""
    says, _, fix = str(error).partition("; ")
    return Finding(node, what, "error", says, fix or "see that it works by hand, then run this again")
