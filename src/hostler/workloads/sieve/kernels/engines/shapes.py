"""The fills of generators whose state is one machine word, or four: what they do, but for seeding, step and word.

These are templates: each engine gives its own ``seed``, ``step``, ``back`` and ``word``, and whether a word is computed
before its step (``EARLY``). ``k`` are the engine's eight constants.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from hostler.workloads.sieve import compiled
from hostler.workloads.sieve.compiled import Part, Pointer, carray, inlined
from hostler.workloads.sieve.kernels.layout import BACKWARD, ENDS, FILL, LANES, SEEDS, STATES

u64 = np.uint64

Constants: TypeAlias = tuple[np.uint64, ...]
Four: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

EARLY = False


@dataclass(frozen=True)
class Filling:
    """A fill: its function or template, the constants it is given, and the rows of words that its state takes.

    Only the lower ``span`` bits of the items differ between lanes. ``ns`` is what an item costs before its first word
    and then for each word, in nanoseconds on a core with AVX-512: a guess that only orders methods and sizes chunks.
    """

    name: str
    function: Callable[..., None]
    constants: tuple[int, ...] = ()
    rows: int = 1
    span: int = 64
    ns: tuple[float, float] = (0.5, 0.5)
    parts: Mapping[str, Part] = field(default_factory=dict)


def address(filling: Filling) -> int:
    """Where the compiled fill is; it is compiled, or loaded from the cache, on first use."""
    if filling.name not in _COMPILED:
        _COMPILED[filling.name] = compiled.Callback(filling.function, filling.name, FILL, filling.parts)
    return _COMPILED[filling.name].address


_COMPILED: dict[str, compiled.Callback] = {}


@inlined
def seed(item: np.uint64, high: np.uint64, k: Constants) -> Any:
    """The state that an item seeds: by default the item itself."""
    return item


def step(x: Any, k: Constants) -> Any:
    """Stands in for an engine's step."""
    return x


def back(x: Any, k: Constants) -> Any:
    """Stands in for an engine's step back."""
    return x


def word(x: Any, k: Constants) -> np.uint64:
    """Stands in for an engine's word."""
    made: np.uint64 = x
    return made


def one(
    items: Pointer, high: np.uint64, mode: int, count: int, counters: Pointer, state: Pointer, words: Pointer,
    constants: Pointer,
) -> None:  # fmt: skip
    """A state of one word, which may be given instead of a seed, and which steps back."""
    item, x = carray(items, (LANES,), np.uint64), carray(state, (LANES,), np.uint64)
    made, c = carray(words, (count, LANES), np.uint64), carray(constants, (8,), np.uint64)
    k = (c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7])
    if mode == SEEDS:
        for lane in range(LANES):
            x[lane] = seed(item[lane], high, k)
    elif mode in (STATES, ENDS):
        for lane in range(LANES):
            x[lane] = item[lane]
    for i in range(count):
        if mode in (ENDS, BACKWARD):
            for lane in range(LANES):
                after, x[lane] = x[lane], back(x[lane], k)
                made[i, lane] = word(x[lane] if EARLY else after, k)
        elif EARLY:
            for lane in range(LANES):
                made[i, lane] = word(x[lane], k)
                x[lane] = step(x[lane], k)
        else:
            for lane in range(LANES):
                x[lane] = step(x[lane], k)
                made[i, lane] = word(x[lane], k)


def four(
    items: Pointer, high: np.uint64, mode: int, count: int, counters: Pointer, state: Pointer, words: Pointer,
    constants: Pointer,
) -> None:  # fmt: skip
    """A state of four words, from seeds."""
    item, x = carray(items, (LANES,), np.uint64), carray(state, (4, LANES), np.uint64)
    made, c = carray(words, (count, LANES), np.uint64), carray(constants, (8,), np.uint64)
    k = (c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7])
    if mode == SEEDS:
        for lane in range(LANES):
            x[0, lane], x[1, lane], x[2, lane], x[3, lane] = seed(item[lane], high, k)
    for i in range(count):
        for lane in range(LANES):
            here = (x[0, lane], x[1, lane], x[2, lane], x[3, lane])
            after = step(here, k)
            made[i, lane] = word(here if EARLY else after, k)
            x[0, lane], x[1, lane], x[2, lane], x[3, lane] = after


@inlined
def turned(x: np.uint64, by: np.uint64) -> np.uint64:
    """Turned left by ``by`` of 64 bits, 1 to 63."""
    return u64((x << by) | (x >> (u64(64) - by)))
