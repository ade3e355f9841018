"""The words that lanes make, against those of the oracle's engines."""

import ctypes
import random
from itertools import islice
from typing import Any

import numpy as np
import pytest

from hostler.workloads.sieve.generators import GENERATORS, Generator, generator
from hostler.workloads.sieve.generators.base import stream
from hostler.workloads.sieve.kernels import layout
from hostler.workloads.sieve.kernels.engines import Filling, address, filling_of

from ..support import tiers

LCGS = [
    "lcg:16807,5,2147483647",
    "lcg:6364136223846793005,1442695040888963407,18446744073709551616,33",
    "lcg:123456789123,77,1000000000000001,3",
    "lcg:18446744073709551557,18446744073709551000,18446744073709551615",
    "lcg:4294967294,4294967290,4294967295,1",
]
NAMES = [*GENERATORS, *LCGS]
SINGLE = [name for name in NAMES if isinstance(generator(name).engine.seed(0), int)]
FILL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 4)


class Lanes:
    """A fill and its memory."""

    def __init__(self, name: str, items: list[int]) -> None:
        filling = filling_of(generator(name))
        assert isinstance(filling, Filling), filling
        self._fill = FILL(address(filling))
        self._high = items[0] >> 64
        self._items = np.array([item % (1 << 64) for item in items], np.uint64)
        self._memory = [
            np.zeros(layout.COUNTERS, np.int64),
            np.full((filling.rows, layout.LANES), 0xDEADBEEFDEADBEEF, np.uint64),
            np.zeros((layout.MOST_WORDS, layout.LANES), np.uint64),
            np.array(filling.constants or (0,), np.uint64),
        ]

    def words(self, mode: int, count: int) -> list[list[int]]:
        """The next ``count`` words of each lane."""
        addresses = [array.ctypes.data for array in self._memory]
        self._fill(self._items.ctypes.data, self._high, mode, count, *addresses)
        made: list[list[int]] = self._memory[2][:count].T.tolist()
        return made


def seeds_of(made_by: Generator, source: random.Random) -> list[int]:
    """As many seeds as there are lanes, from one stretch that a fill may be given: at borders, and anywhere."""
    filling = filling_of(made_by)
    assert isinstance(filling, Filling)
    stretch = min(1 << filling.span, made_by.seeds)
    start = source.randrange(max(1, made_by.seeds // stretch)) * stretch
    top = min(made_by.seeds, start + stretch) - 1
    borders = [start, start + 1, top, start + (top - start) // 2, start + min(top - start, 1 << 31)]
    return borders + [source.randint(start, top) for _ in range(layout.LANES - len(borders))]


@pytest.mark.parametrize("name", tiers(NAMES))
def test_seeds_give_the_words_of_the_oracle(name: str) -> None:
    made_by, source = generator(name), random.Random(name)
    for _ in range(2):
        seeds = seeds_of(made_by, source)
        lanes = Lanes(name, seeds)
        made = lanes.words(layout.SEEDS, 3)
        made = [some + more for some, more in zip(made, lanes.words(layout.ONWARD, 5), strict=True)]
        for lane in (0, 1, 2, 3, 4, *source.sample(range(5, layout.LANES), 5)):
            assert made[lane] == list(islice(made_by.words(seeds[lane]), 8)), seeds[lane]


@pytest.mark.parametrize("name", tiers(NAMES))
def test_words_far_from_the_seed_are_right(name: str) -> None:
    # Beyond the states' sizes, Go's 607 words and MT19937's 624 among them, and through some of V8's caches.
    made_by, source = generator(name), random.Random(name)
    seeds = seeds_of(made_by, source)
    lanes, mode, words = Lanes(name, seeds), layout.SEEDS, []
    while len(words) < 1400:
        words += [each[7] for each in zip(*lanes.words(mode, layout.MOST_WORDS), strict=True)]
        mode = layout.ONWARD
    assert words == list(islice(made_by.words(seeds[7]), len(words)))


@pytest.mark.parametrize("name", tiers(SINGLE))
def test_states_go_on_and_ends_go_back(name: str) -> None:
    made_by, source = generator(name), random.Random(name)
    engine = made_by.engine
    states = [engine.seed(source.randrange(made_by.seeds)) for _ in range(layout.LANES)]
    ends = Lanes(name, states)
    forward = Lanes(name, states).words(layout.STATES, 6)
    backward = [
        some + more for some, more in zip(ends.words(layout.ENDS, 2), ends.words(layout.BACKWARD, 4), strict=True)
    ]
    for state, after, before in zip(states, forward, backward, strict=True):
        assert after == list(islice(stream(engine, state), 6))
        if engine.back is not None:
            assert before == list(islice(_before(engine, state), 6))


def _before(engine: Any, state: int) -> Any:
    while True:
        before = engine.back(state)
        yield engine.word(before if engine.early else state)
        state = before


def test_what_has_no_lanes_says_why() -> None:
    assert "2^64" in str(filling_of(generator(f"lcg:5,1,{1 << 65}")))


def test_every_generator_has_lanes() -> None:
    assert all(isinstance(filling_of(made_by), Filling) for made_by in GENERATORS.values())
