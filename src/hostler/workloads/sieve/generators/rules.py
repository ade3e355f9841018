"""How outputs restrict words: what a search may assume of the words behind a wanted output, in general terms.

An output is made of *picks*. A :class:`Rule` says how one pick cuts a number ``v`` out of the next words and when the
runtime throws it away and draws again; a :class:`Residue` or a :class:`Span` says which ``v`` give the wanted output.
Words fit an output exactly when every pick that is not drawn again meets its want: the tests compare that with what
the oracle makes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Words = Iterator[int]


@dataclass(frozen=True, slots=True)
class Part:
    """``bits`` bits of word number ``word`` of a pick (0: the first it takes), from bit ``shift`` upwards."""

    shift: int
    bits: int
    word: int = 0

    def cut(self, word: int) -> int:
        """These bits of ``word``."""
        return word >> self.shift & (1 << self.bits) - 1


@dataclass(frozen=True, slots=True)
class Above:
    """Drawn again when ``v > limit``."""

    limit: int

    def holds(self, v: int) -> bool:
        """Whether the runtime throws ``v`` away."""
        return v > self.limit


@dataclass(frozen=True, slots=True)
class LowProduct:
    """Drawn again when the lower ``bits`` bits of ``v * factor`` are below ``threshold`` (D. Lemire, 2019)."""

    factor: int
    bits: int
    threshold: int

    def holds(self, v: int) -> bool:
        """Whether the runtime throws ``v`` away."""
        return v * self.factor % (1 << self.bits) < self.threshold


Again: TypeAlias = Above | LowProduct


@dataclass(frozen=True, slots=True)
class Rule:
    """One pick from words of ``width`` bits: ``v`` is its ``parts`` side by side, the most significant first.

    A pick takes as many words as its parts name, and as many more each time ``again`` holds.
    """

    width: int
    parts: tuple[Part, ...]
    again: Again | None = None

    @property
    def words(self) -> int:
        """How many words a pick takes before it is drawn again."""
        return 1 + max((part.word for part in self.parts), default=-1)

    @property
    def bits(self) -> int:
        """How many bits ``v`` has."""
        return sum(part.bits for part in self.parts)

    @property
    def rejects(self) -> bool:
        """Whether some words make the runtime draw again."""
        if isinstance(self.again, Above):
            return self.again.limit < (1 << self.bits) - 1
        return self.again is not None and self.again.threshold > 0

    def value(self, words: Sequence[int]) -> int:
        """``v`` of as many words as a pick takes."""
        v = 0
        for part in self.parts:
            v = v << part.bits | part.cut(words[part.word])
        return v

    def pick(self, words: Words) -> int:
        """``v`` of the next words that are not thrown away."""
        while True:
            v = self.value([next(words) for _ in range(self.words)])
            if self.again is None or not self.again.holds(v):
                return v


@dataclass(frozen=True, slots=True)
class Residue:
    """``v`` modulo ``modulus`` is ``target``."""

    modulus: int
    target: int

    def holds(self, v: int) -> bool:
        """Whether ``v`` gives the wanted output."""
        return v % self.modulus == self.target


@dataclass(frozen=True, slots=True)
class Span:
    """``v`` lies in ``low..high``, both included; empty where ``high < low``."""

    low: int
    high: int

    def holds(self, v: int) -> bool:
        """Whether ``v`` gives the wanted output."""
        return self.low <= v <= self.high


Want: TypeAlias = Residue | Span


def exactly(v: int) -> Span:
    """Nothing but ``v`` itself."""
    return Span(v, v)


def span_of(rising: Callable[[int], int], value: int, count: int) -> Span:
    """The ``v`` in ``0..count-1`` with ``rising(v) == value``, for a function that never falls."""
    return Span(_first(rising, value, count), _first(rising, value + 1, count) - 1)


def _first(rising: Callable[[int], int], value: int, count: int) -> int:
    """The smallest ``v`` with ``rising(v) >= value``, or ``count`` if there is none."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if rising(middle) >= value:
            high = middle
        else:
            low = middle + 1
    return low
