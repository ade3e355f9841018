"""What became of each check, and whether `make gpu` has passed: pure, so that it is tested without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

LEAST_RUN = 5
"""Checks that must have run on a machine with a GPU: a run that skipped most of them proves nothing."""
Outcome: TypeAlias = Literal["ok", "failed", "skipped"]


class Result(NamedTuple):
    """One check. `detail` is what was seen, or why it failed or was skipped."""

    name: str
    outcome: Outcome
    detail: str
    seconds: float


class Verdict(NamedTuple):
    """The last line, and the exit status."""

    line: str
    status: int


def line_of(result: Result) -> str:
    """A check in one line."""
    detail = " ".join(result.detail.split())[:400]
    return f"{result.outcome:<8}{result.name}: {detail} ({result.seconds:.1f} s)"


def verdict(results: Sequence[Result]) -> Verdict:
    """Whether all checks of a machine with a GPU have passed: none has failed, and enough have run."""
    count = {outcome: sum(each.outcome == outcome for each in results) for outcome in ("ok", "failed", "skipped")}
    run = count["ok"] + count["failed"]
    line = f"gpu: {run} checks ran, {count['failed']} failed, {count['skipped']} skipped"
    if run < LEAST_RUN:
        return Verdict(f"{line}; at least {LEAST_RUN} must run on a machine with a GPU", 1)
    return Verdict(line, int(count["failed"] > 0))
