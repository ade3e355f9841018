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


EQUIVALENT: tuple[Equivalent, ...] = ()
