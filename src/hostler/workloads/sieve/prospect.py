"""What a search will be worth, before it is made: how many wrong items survive, and how many draws would settle it.

Nothing here imports numpy; which method searches, and for how long, is what the command `plan` asks the methods.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from math import exp
from typing import Any

from hostler.workloads.sieve import callspec, chances, spec
from hostler.workloads.sieve.generators import Output
from hostler.workloads.sieve.spec import Spec

BELOW = 0.01
"""A search settles something where fewer wrong items than that are expected to survive."""
ORDERS = 64
"""So many orders are tried for one that is another."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """``expected`` wrong items of ``items`` survive; with ``needed`` known draws fewer than :data:`BELOW` would.

    ``same`` items make the same draws as one of them for ever, so that no number of draws tells them apart.

    ``needed`` is ``None`` where no number of draws would do, or where that is not worked out (missing outputs).
    """

    items: int
    known: int
    expected: float
    needed: int | None
    same: float = 0.0

    @property
    def settles(self) -> bool:
        """Whether a survivor means something."""
        return self.expected < BELOW


def prospect(search: Spec, items: int) -> Prospect:
    """What a search of so many items will be worth."""
    expected = exp(spec.log_chance(search)) * items
    needed = None if search.missing else chances.draws_needed(search, items, BELOW)
    same = chances.same_for_ever(search.generator, search.calls) * items
    return Prospect(items, search.known, expected, needed, same)


def told(search: Spec, found: Prospect) -> Iterator[str]:
    """The same in words, for people."""
    calls = callspec.native(search.generator, search.calls)
    yield f"{search.generator.name}, {calls}: {found.known} known draws, {found.items} {search.items}"
    yield f"expected by chance: {found.expected:.3g} survivors"
    if not found.settles:
        more = (
            "no number of draws would settle this" if found.needed is None else f"{found.needed} known draws would do"
        )
        yield f"WARNING: survivors of this search will mean little: {more}"
    if found.same >= 1:
        yield f"WARNING: about {found.same:.3g} {search.items} make the same draws for ever: no draw tells them apart"


def shuffled(params: Mapping[str, Any]) -> dict[str, Any]:
    """The same question of the same draws in another order, in which nothing but chance survives: a control.

    Draws change places with those of the same call; unknown ones stay where they are. Where there is no other order,
    as of one draw or of equal ones, chance makes them anew. What is drawn comes from the question's digest.
    """
    search, chance = spec.parse(params), random.Random(spec.digest(params))  # noqa: S311 - any order does
    groups: dict[Output, list[int]] = {}
    for place, draw in enumerate(search.draws):
        if draw is not None:
            groups.setdefault(search.call(place), []).append(place)
    draws = list(search.draws)
    for attempt in count():
        for call, places in groups.items():
            values = [search.draws[place] for place in places]
            if attempt < ORDERS:
                chance.shuffle(values)
            else:
                values = [call.lowest + chance.randrange(call.size) for _ in places]
            for place, value in zip(places, values, strict=True):
                draws[place] = value
        if tuple(draws) != search.draws:
            break
    return {**params, "draws": draws}
