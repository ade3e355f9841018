"""From a search as the controller tells of it to what its page shows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hostler.cli.survivors import Outcome
from hostler.report.searches import Sample, SearchTold, Survivor

if TYPE_CHECKING:
    from hostler.workloads.sieve.spec import Spec

SAMPLES = 120
MORE = 1.25
"""The curve of chance goes so much further than the draws that are known, or that are needed."""
LOWEST = -30.0
"""Below ten to this the curve of chance ends: nothing hangs on it any more."""


def reported(outcome: Outcome) -> SearchTold:
    """What the page shows of it."""
    from hostler.workloads.sieve import spec
    from hostler.workloads.sieve.prospect import prospect

    asked, sweep = spec.parse(outcome.params), outcome.sweep
    worth = prospect(asked, outcome.items)
    call = asked.calls[0]
    plain = len(asked.calls) == 1 and type(call.show(call.lowest)) is int
    return SearchTold(
        job=outcome.job,
        title=f"{outcome.generator}, {outcome.calls}",
        question=list(_question(outcome.params)),
        draws=asked.draws if plain else (),
        lowest=call.lowest,
        values=call.size,
        start=sweep["start"],
        stop=sweep["stop"],
        done=[(start, stop) for start, stop in outcome.done],
        expected=worth.expected,
        survivors=[_survivor(outcome, asked, hit) for hit in outcome.hits],
        control=_control(outcome),
        curve=list(_curve(asked, outcome.items, worth.needed)),
        known=worth.known,
    )


def _question(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in params.items():
        if name != "draws":
            yield name, value if isinstance(value, str) else json.dumps(value)


def _survivor(outcome: Outcome, asked: Spec, hit: Mapping[str, Any]) -> Survivor:
    place = [f"{name} {hit[name]}" for name in ("skip", "gap", "dropped") if name in hit]
    following = " ".join(json.dumps(draw) for draw in hit["next"])
    return Survivor(hit["at"], outcome.e_value(hit), hit.get("fitting", asked.known), ", ".join(place), following)


def _control(outcome: Outcome) -> tuple[int, float] | None:
    control = outcome.control
    return None if control is None else (control.hits, control.sweep["done"] / control.sweep["total"])


def _curve(asked: Spec, items: int, needed: int | None) -> Iterator[Sample]:
    """Chance by the number of known draws; nothing where that depends on which draws they are."""
    from hostler.workloads.sieve import statistics

    if len(asked.calls) > 1 or asked.missing:
        return
    most = math.ceil(MORE * max(asked.known, needed or 0, 2))
    for draws in _counts(most):
        question = statistics.Question(
            asked.calls[0].odds, draws, statistics.needed(draws, asked.share), asked.alignments_count
        )
        exponent = (math.log(items) + statistics.log_chance(question)) / math.log(10)
        if exponent > LOWEST or draws <= asked.known:
            yield Sample(draws, max(exponent, LOWEST))


def _counts(most: int) -> Sequence[int]:
    step = max(1, most // SAMPLES)
    return range(1, most + 1, step)
