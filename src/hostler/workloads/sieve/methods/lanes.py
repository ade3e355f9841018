"""Brute force on the processor: each item's words, many items side by side, until a draw does not fit.

Nothing about a generator is used but how to make its words, so this serves wherever nothing better is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import expm1
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.kernels import generic, layout, special, special_words
from hostler.workloads.sieve.kernels.engines import Filling, address, filling_of
from hostler.workloads.sieve.kernels.tables import Tables, make_tables
from hostler.workloads.sieve.methods import picks
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.plan import Plan, special_plans
from hostler.workloads.sieve.spec import Spec

MOST_HITS = 4096
MASK64 = (1 << 64) - 1

# Nanoseconds for an item on a core with AVX-512: at all, to cut a word into picks, the same where each lane goes on by
# itself, to test a pick.
ITEM_NS, CUT_NS, APART_NS, TEST_NS = 0.6, 0.5, 2.5, 0.2
DOUBT_NS, MOST_DOUBTFUL = 15.0, 0.6
FIXED_S = 0.001

# Of the special kernels, per item and for each word that lies before the first known draw.
SPECIAL_NS = {
    "php-early": (16.0, 0.05),
    "php-full": (40.0, 0.3),
    "python": (105.0, 0.3),
    "java": (0.2, 0.15),
    "xorshift32": (0.14, 0.0),
}
WALK_NS = 15.0
"""They walk an item word by word where one of these words is drawn again: for each word of the walk."""


class Lanes:
    """Tries each item."""

    name: ClassVar[str] = "lanes"

    def offer(self, spec: Spec) -> Offer | str:
        """What it offers for ``spec``; a text says, for people, why it does not apply."""
        engine = spec.generator.engine
        if spec.items != "seeds" and not isinstance(engine.seed(0), int):
            return f"the state of {spec.generator.name} is no single number: there are no intervals of states"
        if spec.items == "ends" and engine.back is None:
            return f"a step of {spec.generator.name} cannot be undone"
        filling, tables = filling_of(spec.generator), _tables(spec)
        if isinstance(filling, str) or isinstance(tables, str):
            return filling if isinstance(filling, str) else str(tables)
        nanoseconds, special = _nanoseconds(filling, tables), special_plans(spec)
        again = picks.again_chance(spec.calls[0])
        if special and (faster := sum(_special_nanoseconds(plan, again) for plan in special)) < nanoseconds:
            each = f", in each of {len(special)} alignments" if len(special) > 1 else ""
            return Offer(
                f"tries each seed in a kernel for {spec.generator.name} alone{each}",
                FIXED_S,
                1e9 / faster,
                lambda: SpecialFinder(special),
            )
        return Offer(
            f"tries each {spec.items[:-1]}: about {tables.words:.0f} words each until a draw does not fit",
            FIXED_S,
            1e9 / nanoseconds,
            lambda: LanesFinder(filling, tables),
            tables.missed,
        )


class SpecialFinder:
    """The special kernels, one alignment after the other."""

    def __init__(self, plans: list[Plan]) -> None:
        self._plans = [(special.compiled(plan.kernel), plan) for plan in plans]
        self._hits = np.zeros(MOST_HITS, np.uint64)

    def find(self, start: int, stop: int) -> list[int]:
        """The candidates among the items ``[start, stop)``, ascending, each once; raises :class:`TooManyHits`."""
        found: set[int] = set()
        for begin, end in _within(start, stop, 32):
            for kernel, plan in self._plans:
                count = kernel(begin, end - begin, plan.table, plan.rule, self._hits)
                found.update(self._hits[:count].tolist())
                if count > MOST_HITS or len(found) > MOST_HITS:
                    raise TooManyHits(_too_many(start, stop))
        return sorted(found)


class LanesFinder:
    """The generic search with its working memory."""

    def __init__(self, filling: Filling, tables: Tables) -> None:
        self._span = filling.span
        self._search = generic.search()
        lanes, most = layout.LANES, layout.MOST_WORDS
        self._hits = np.zeros(MOST_HITS, np.uint64)
        items, words = np.zeros(3 * lanes, np.uint64), np.zeros((most, lanes), np.uint64)
        counters, state = np.zeros(layout.COUNTERS, np.int64), np.zeros((filling.rows, lanes), np.uint64)
        constants = np.array(filling.constants or (0,), np.uint64)
        self._given = np.array([address(filling), *_at(items), 0, *_at(counters, state, words, constants)], np.uint64)
        sizes = [len(tables.rules), len(tables.parts), len(tables.tests), len(tables.least), len(tables.alignments)]
        self._arrays = [
            np.array([*sizes, tables.picks, tables.dropped + 1, MOST_HITS], np.int64),
            self._given,
            tables.scalars,
            tables.rules,
            tables.parts,
            tables.tests,
            tables.spans,
            tables.least,
            tables.alignments,
            items,
            words,
            np.zeros((tables.picks, lanes), np.uint64),
            np.zeros((generic.LANE_ROWS, lanes), np.uint64),
            np.zeros((generic.CURSOR_ROWS, lanes), np.int64),
            np.zeros(generic.PROGRESS, np.int64),
            np.zeros((3, tables.dropped + 1, lanes), np.uint64),
            self._hits,
        ]
        # They are used by address: they must live as long as this does.
        self._kept = (counters, state, constants)

    def find(self, start: int, stop: int) -> list[int]:
        """The candidates among the items ``[start, stop)``, ascending, each once; raises :class:`TooManyHits`."""
        found: list[int] = []
        for begin, end in _within(start, stop, self._span):
            found += self._find(begin, end)
            if len(found) > MOST_HITS:
                raise TooManyHits(_too_many(start, stop))
        return found

    def _find(self, start: int, stop: int) -> list[int]:
        self._given[generic.HIGH] = start >> 64
        found = self._search(start & MASK64, stop - start, *_at(*self._arrays))
        if found > MOST_HITS:
            raise TooManyHits(_too_many(start, stop))
        return sorted((start >> 64 << 64) + int(hit) for hit in self._hits[:found])


def _special_nanoseconds(plan: Plan, again: float) -> float:
    """What an item costs, where a word is drawn again ``again`` times on average."""
    first, each = SPECIAL_NS[plan.kernel]
    before = float(plan.rule[special_words.LAST])
    walked = -expm1(-again * (before + 1))
    return first + each * before + walked * (before + 1) * (1 + again) * WALK_NS


def _tables(spec: Spec) -> Tables | str:
    """The tables of a question, for what the items of its generator cost."""
    filling = filling_of(spec.generator)
    if isinstance(filling, str):
        return filling
    # An item in doubt is seeded a second time: that must not cost more than for all lanes to go on by themselves.
    return make_tables(spec, min(MOST_DOUBTFUL, DOUBT_NS / (DOUBT_NS + filling.ns[0])))


def _nanoseconds(filling: Filling, tables: Tables) -> float:
    first, each = filling.ns
    cut = APART_NS if tables.apart else CUT_NS
    again = tables.doubtful * (first + tables.words * (each + APART_NS))
    return ITEM_NS + first + tables.words * (each + cut) + tables.tested * TEST_NS + again


def _at(*arrays: npt.NDArray[Any]) -> list[int]:
    return [array.ctypes.data for array in arrays]


def _within(start: int, stop: int, bits: int) -> Iterator[tuple[int, int]]:
    """``[start, stop)`` cut at the multiples of ``2^bits``: between them only so many bits of an item change."""
    while start < stop:
        end = min(stop, ((start >> bits) + 1) << bits)
        yield start, end
        start = end


def _too_many(start: int, stop: int) -> str:
    return f"more than {MOST_HITS} items in [{start}, {stop}) reproduce the draws; give more known draws"
