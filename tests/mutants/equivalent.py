"""Drawn mutants that change nothing anybody could notice, each with the argument why."""

from __future__ import annotations

from hostler.model.record import record


@record
class Equivalent:
    """A line that may be changed so."""

    file: str
    before: str
    after: str
    why: str


EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent(
        file="core/ledger.py",
        before="if start == stop:",
        after="if start >= stop:",
        why="intervals are checked before they are merged: none has its end before its start",
    ),
    Equivalent(
        file="core/ledger.py",
        before="return [part for part in rest if part[0] < part[1]]",
        after="return [part for part in rest if part[0] != part[1]]",
        why="what is taken out lies inside: no part has its end before its start",
    ),
)
