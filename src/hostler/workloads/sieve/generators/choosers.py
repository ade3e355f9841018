"""How runtimes choose one of ``size`` numbers, ``0..size-1``: the mappings below ranges, choices and shuffles.

Each is a small frozen dataclass that knows the words it takes. ``take`` does it as the runtime does; ``rule`` and
``want`` say the same as a restriction of the words.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from hostler.workloads.sieve.generators.rules import (
    Above,
    LowProduct,
    Part,
    Residue,
    Rule,
    Want,
    Words,
    exactly,
    span_of,
)


class Chooser(ABC):
    """One way to choose an index below ``size``."""

    @property
    @abstractmethod
    def top(self) -> int:
        """The largest size it is defined for here."""

    @abstractmethod
    def take(self, words: Words, size: int) -> int:
        """The next index below ``size``."""

    @abstractmethod
    def rule(self, size: int) -> Rule:
        """The pick behind an index below ``size``."""

    @abstractmethod
    def want(self, size: int, index: int) -> Want:
        """What the pick must be for this index."""


@dataclass(frozen=True, slots=True)
class Remainder(Chooser):
    """``v % size`` of one part of a word, nothing thrown away: ``rand() % n``."""

    width: int
    part: Part

    @property
    def top(self) -> int:
        return 1 << self.part.bits

    def take(self, words: Words, size: int) -> int:
        return self.part.cut(next(words)) % size

    def rule(self, size: int) -> Rule:
        return Rule(self.width, (self.part,))

    def want(self, size: int, index: int) -> Want:
        return Residue(size, index)


@dataclass(frozen=True, slots=True)
class TopBits(Chooser):
    """The upper ``size.bit_length()`` bits of a 32-bit word, drawn again until they are below ``size``.

    CPython's ``_randbelow_with_getrandbits``: a power of two takes one bit more than it needs.
    """

    @property
    def top(self) -> int:
        return (1 << 32) - 1

    def take(self, words: Words, size: int) -> int:
        bits = size.bit_length()
        value = next(words) >> (32 - bits)
        while value >= size:
            value = next(words) >> (32 - bits)
        return value

    def rule(self, size: int) -> Rule:
        bits = size.bit_length()
        return Rule(32, (Part(32 - bits, bits),), Above(size - 1))

    def want(self, size: int, index: int) -> Want:
        return exactly(index)


@dataclass(frozen=True, slots=True)
class Masked(Chooser):
    """The lower bits of a word under the smallest mask that holds ``size - 1``, drawn again while above it.

    A size of 1 takes no word.
    """

    width: int = 32

    @property
    def top(self) -> int:
        return 1 << self.width

    def take(self, words: Words, size: int) -> int:
        largest = size - 1
        if largest == 0:
            return 0
        mask = (1 << largest.bit_length()) - 1
        while (value := next(words) & mask) > largest:
            pass
        return value

    def rule(self, size: int) -> Rule:
        bits = (size - 1).bit_length()
        return Rule(self.width, (Part(0, bits),) if bits else (), Above(size - 1))

    def want(self, size: int, index: int) -> Want:
        return exactly(index)


@dataclass(frozen=True, slots=True)
class FairRemainder(Chooser):
    """``v % size``, drawn again where ``v`` lies in the last, incomplete run of ``size`` values.

    ``part`` is the part of a word that is ``v``. Where ``size`` is a power of two, nothing is drawn again.
    """

    width: int
    part: Part

    @property
    def top(self) -> int:
        return 1 << self.part.bits

    def take(self, words: Words, size: int) -> int:
        ceiling = self.top - self.top % size - 1
        while (v := self.part.cut(next(words))) > ceiling:
            pass
        return v % size

    def rule(self, size: int) -> Rule:
        return Rule(self.width, (self.part,), Above(self.top - self.top % size - 1))

    def want(self, size: int, index: int) -> Want:
        return Residue(size, index)


@dataclass(frozen=True, slots=True)
class WideProduct(Chooser):
    """The upper half of ``v * size``, drawn again where the lower half shows an incomplete run (D. Lemire, 2019).

    ``part`` of a word is ``v``. With ``free_one``, a size of 1 takes no word, as in numpy.
    """

    width: int
    part: Part
    free_one: bool = False

    @property
    def top(self) -> int:
        return 1 << self.part.bits

    def take(self, words: Words, size: int) -> int:
        if self.free_one and size == 1:
            return 0
        product = self.part.cut(next(words)) * size
        while product % self.top < self.top % size:
            product = self.part.cut(next(words)) * size
        return product // self.top

    def rule(self, size: int) -> Rule:
        if self.free_one and size == 1:
            return Rule(self.width, ())
        return Rule(self.width, (self.part,), LowProduct(size, self.part.bits, self.top % size))

    def want(self, size: int, index: int) -> Want:
        if self.free_one and size == 1:
            return exactly(0)
        return span_of(lambda v: v * size // self.top, index, self.top)


@dataclass(frozen=True, slots=True)
class Floor(Chooser):
    """``floor(x * size)`` for a float ``x`` in [0, 1) made of ``parts``; every step rounds as a double does.

    ``x`` is ``v / 2^bits``, or ``v * unit`` where a runtime multiplies by a rounded constant. Sizes go up to ``most``.
    """

    width: int
    parts: tuple[Part, ...]
    unit: float = 0.0
    most: int = 1 << 32

    @property
    def top(self) -> int:
        return self.most

    def take(self, words: Words, size: int) -> int:
        taken = [next(words) for _ in range(1 + max(part.word for part in self.parts))]
        v = 0
        for part in self.parts:
            v = v * (1 << part.bits) + part.cut(taken[part.word])
        return self.index(v, size)

    def rule(self, size: int) -> Rule:
        return Rule(self.width, self.parts)

    def want(self, size: int, index: int) -> Want:
        return span_of(lambda v: self.index(v, size), index, 1 << self._bits)

    def index(self, v: int, size: int) -> int:
        """``floor(x * size)`` of the ``x`` made of ``v``."""
        x = v * self.unit if self.unit else v / (1 << self._bits)
        return int(x * float(size))

    @property
    def _bits(self) -> int:
        return sum(part.bits for part in self.parts)
