"""How the words of each generator are undone, many at once: what the method ``words`` finds states and seeds from.

What is found of a word is a *root*: a number of 64 bits that all further words follow from. It is the state that the
word was made of, and words before and after it follow by steps; or it is the seed, and words follow from the seeding.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from hostler.workloads.sieve.generators import pcg32, splitmix64, xorshift, xoshiro
from hostler.workloads.sieve.generators.base import Generator
from hostler.workloads.sieve.methods.affine import Map
from hostler.workloads.sieve.methods.choices import U64, Choices
from hostler.workloads.sieve.methods.lookup import Lookup
from hostler.workloads.sieve.methods.matrices import Matrix, inverse
from hostler.workloads.sieve.methods.near import Near

BLOCK = 1 << 13
"""Words that are undone together: what is made of them stays in a cache, and in memory that is not given back."""
WORD = 1 << 64
FEW = 4
"""Steps that are made one by one; more are made by a table."""
KEPT = 256
ENDLESS = 1 << 62


class Unmixer(ABC):
    """How the words of a generator are undone.

    ``takes`` words are undone together; which takes ``start_s`` CPU-seconds, and ``each_s`` for each combination of
    their choices. Times number words: from the seeding if ``from_seed``, otherwise from the (first) word undone.
    Words up to the time ``latest`` can be undone, words up to ``farthest`` are made to test roots, ``time_s`` each.
    """

    takes: ClassVar[int] = 1
    from_seed: ClassVar[bool] = False
    latest: ClassVar[int] = ENDLESS
    farthest: ClassVar[int] = ENDLESS
    start_s: ClassVar[float] = 5e-4
    each_s: ClassVar[float]
    time_s: ClassVar[float] = 0.0

    @abstractmethod
    def roots(self, choices: Sequence[Choices], times: Sequence[int]) -> Iterator[U64]:
        """All roots whose words at these times are among the choices, and not many others."""

    @abstractmethod
    def word(self, roots: U64, time: int) -> U64:
        """The words of these roots at this time."""

    def jump(self, steps: int) -> Callable[[int], int]:
        """So many steps of a root, undone ones if negative; only where roots are states."""
        raise NotImplementedError("roots are seeds")

    def seed(self, root: int) -> int:
        """The seed after which the first word is made of this state, or follows it: the state itself, mostly."""
        return root


def unmixer(generator: Generator) -> Unmixer | None:
    """How a generator's words are undone; ``None`` if nothing here does."""
    made = _KNOWN.get(generator.name)
    return made(generator) if made else None


def many(function: Callable[..., Any]) -> Callable[..., U64]:
    """A function of 64-bit words as one of many at once: integers and arrays have the operators it is made of."""
    return cast(Callable[..., U64], function)


def moved(step: Map, states: U64) -> U64:
    """The next states by a step modulo 2^64."""
    return states * np.uint64(step.factor) + np.uint64(step.term)


class _Counter(Unmixer):
    """splitmix64: a word tells its counter."""

    each_s: ClassVar[float] = 1.5e-8

    def __init__(self, generator: Generator) -> None:
        self._step = Map(1, splitmix64.GAMMA, WORD)

    def roots(self, choices: Sequence[Choices], times: Sequence[int]) -> Iterator[U64]:
        return map(many(splitmix64.unword), choices[0].blocks(BLOCK))

    def word(self, roots: U64, time: int) -> U64:
        return many(splitmix64.word)(moved(self._step.power(time), roots))

    def jump(self, steps: int) -> Callable[[int], int]:
        return self._step.power(steps)


class _Star(Unmixer):
    """xorshift64*: a word tells its state, whose steps are linear over GF(2)."""

    each_s: ClassVar[float] = 8e-9

    def __init__(self, generator: Generator) -> None:
        self._tables: dict[int, Lookup] = {}

    def roots(self, choices: Sequence[Choices], times: Sequence[int]) -> Iterator[U64]:
        return (words * np.uint64(xorshift.UNSTAR) for words in choices[0].blocks(BLOCK))

    def word(self, roots: U64, time: int) -> U64:
        if 0 <= time <= FEW:
            for _ in range(time):
                roots = many(xorshift.step_star)(roots)
        else:
            roots = self._table(time)(roots)
        return roots * np.uint64(xorshift.STAR)

    def jump(self, steps: int) -> Matrix:
        return Matrix.of(64, xorshift.step_star if steps >= 0 else xorshift.back_star).power(abs(steps))

    def _table(self, steps: int) -> Lookup:
        if steps not in self._tables:
            self._tables[steps] = Lookup(self.jump(steps).columns)
        return self._tables[steps]


class _Pcg(Unmixer):
    """pcg32: with how far a word was turned, 2^5 guesses, it tells the upper 37 bits of its state.

    Those of two words bound two states, one of which is a linear function of the other: :mod:`near` tells the few that
    there are.
    """

    takes: ClassVar[int] = 2
    each_s: ClassVar[float] = 1.5e-5

    def __init__(self, generator: Generator) -> None:
        constants = generator.parameters
        self._increment = constants["increment"]
        self._step = Map(constants["multiplier"], self._increment, WORD)

    def roots(self, choices: Sequence[Choices], times: Sequence[int]) -> Iterator[U64]:
        step = self._step.power(times[1])
        near = Near(step.factor, 64 - pcg32.UPPER)
        ends = np.concatenate([np.zeros(0, np.uint64), *map(_uppers, choices[1].blocks(BLOCK))])
        size = max(1, BLOCK // max(1, ends.size))
        for words in choices[0].blocks(BLOCK):
            starts = _uppers(words)
            for first in range(0, starts.size, size):
                yield _between(near, step, starts[first : first + size], ends)

    def word(self, roots: U64, time: int) -> U64:
        return many(pcg32.word)(moved(self._step.power(time), roots))

    def jump(self, steps: int) -> Callable[[int], int]:
        return self._step.power(steps)

    def seed(self, root: int) -> int:
        return (self._step.power(-1)(root) - self._increment) % WORD


def _uppers(words: U64) -> U64:
    """The upper bits of the states that have one of these words."""
    return many(pcg32.upper)(words, np.arange(32, dtype=np.uint64)[:, None]).ravel()


def _between(near: Near, step: Map, starts: U64, ends: U64) -> U64:
    """The states with these upper bits whose states a step on have those upper bits."""
    apart = (moved(step, starts)[:, None] - ends).ravel()
    places, lower = near.found(apart)
    made: U64 = starts[places // max(1, ends.size)] | lower
    return made


class _Lua(Unmixer):
    """Lua's ``math.random``: the state is an affine function over GF(2) of the seed, and so is what a word tells."""

    from_seed: ClassVar[bool] = True
    latest: ClassVar[int] = 100_000
    farthest: ClassVar[int] = 100_000
    start_s: ClassVar[float] = 1.2e-3
    each_s: ClassVar[float] = 7e-8
    time_s: ClassVar[float] = 1e-5

    def __init__(self, generator: Generator) -> None:
        seeds = np.append(np.uint64(1) << np.arange(64, dtype=np.uint64), np.uint64(0))
        self._state = cast(tuple[U64, ...], (seeds, np.full_like(seeds, 255), *np.zeros((2, 65), np.uint64)))
        for _ in range(xoshiro.LUA_THROWN):
            self._step()
        self._told: list[U64] = []
        self._tables: dict[int, tuple[Lookup, np.uint64]] = {}

    def roots(self, choices: Sequence[Choices], times: Sequence[int]) -> Iterator[U64]:
        told, constant = self._table(times[0])
        columns, kernel = inverse(self._columns(times[0]), 64)
        back, others = Lookup(columns), _sums(kernel)
        for words in choices[0].blocks(BLOCK):
            linear = many(xoshiro.unstar_star)(words) ^ constant
            seeds = back(linear)
            if kernel:
                seeds = seeds[told(seeds) == linear]
            yield (seeds[:, None] ^ others).ravel()

    def word(self, roots: U64, time: int) -> U64:
        told, constant = self._table(time)
        return _starred(told(roots) ^ constant)

    def _table(self, time: int) -> tuple[Lookup, np.uint64]:
        """What a word tells: the map of the seed's bits, and what is added."""
        if time not in self._tables:
            if len(self._tables) >= KEPT:
                self._tables.clear()
            self._tables[time] = Lookup(self._columns(time)), self._told[time][64]
        return self._tables[time]

    def _columns(self, time: int) -> list[int]:
        while len(self._told) <= time:
            self._told.append(self._state[1])
            self._step()
        columns: list[int] = (self._told[time][:64] ^ self._told[time][64]).tolist()
        return columns

    def _step(self) -> None:
        self._state = cast(Callable[[Any], tuple[U64, ...]], xoshiro.step)(self._state)


class _Xoshiro(Unmixer):
    """xoshiro256** after its seeding: what the first word tells is a word of splitmix64, and that tells the seed.

    Later words add several words of splitmix64 bit by bit, which nothing here takes apart.
    """

    from_seed: ClassVar[bool] = True
    latest: ClassVar[int] = 0
    farthest: ClassVar[int] = 1000
    each_s: ClassVar[float] = 8e-8

    def __init__(self, generator: Generator) -> None:
        self._step = Map(1, splitmix64.GAMMA, WORD)

    def roots(self, choices: Sequence[Choices], times: Sequence[int]) -> Iterator[U64]:
        back = self._step.power(-2)
        for words in choices[0].blocks(BLOCK):
            yield moved(back, many(splitmix64.unword)(many(xoshiro.unstar_star)(words)))

    def word(self, roots: U64, time: int) -> U64:
        state: Any = tuple(many(splitmix64.word)(moved(self._step.power(i), roots)) for i in range(1, 5))
        for _ in range(time):
            state = xoshiro.step(state)
        return many(xoshiro.star_star)(state)


def _starred(told: U64) -> U64:
    return many(xoshiro.star_star)((None, told, None, None))


def _sums(vectors: Sequence[int]) -> U64:
    """All sums of some of these vectors."""
    made = np.zeros(1, np.uint64)
    for vector in vectors:
        made = np.append(made, made ^ np.uint64(vector))
    return made


_KNOWN: dict[str, Callable[[Generator], Unmixer]] = {
    "splitmix64": _Counter,
    "xorshift64star": _Star,
    "pcg32": _Pcg,
    "pcg32-54": _Pcg,
    "lua-random": _Lua,
    "xoshiro256starstar": _Xoshiro,
}
