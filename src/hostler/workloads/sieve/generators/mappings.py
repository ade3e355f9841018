"""The stock of outputs that generators share: bits, floats, bounded integers, bytes.

A generator's file subclasses them and fills in the class variables: which part of which words, which chooser. The
fields of an output are its arguments in JSON.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators.base import Output, Picked, need, signed
from hostler.workloads.sieve.generators.choosers import Chooser, Floor, Remainder
from hostler.workloads.sieve.generators.rules import Part, Rule, Want, Words, exactly


class Bits(Picked):
    """The bits of some words as they are; as a two's complement number if ``is_signed``. No arguments."""

    width: ClassVar[int] = 32
    parts: ClassVar[tuple[Part, ...]]
    is_signed: ClassVar[bool] = False

    @property
    def lowest(self) -> int:
        return -(self.size >> 1) if self.is_signed else 0

    @property
    def size(self) -> int:
        return 1 << sum(part.bits for part in self.parts)

    def take(self, words: Words) -> int:
        taken = [next(words) for _ in range(1 + max(part.word for part in self.parts))]
        v = 0
        for part in self.parts:
            v = v * (1 << part.bits) + part.cut(taken[part.word])
        return signed(v, self.size.bit_length() - 1) if self.is_signed else v

    def rule(self) -> Rule:
        return Rule(self.width, self.parts)

    def want(self, draw: int) -> Want:
        return exactly(draw % self.size)


class Float(Bits):
    """A float in [0, 1) as the integer ``float * 2^bits``; a draw may also be given as the float itself."""

    def read(self, draw: object) -> int:
        if isinstance(draw, float):
            return self._scaled(draw)
        return Output.read(self, draw)

    def _scaled(self, draw: float) -> int:
        scaled = draw * self.size
        if 0.0 <= draw < 1.0 and scaled == int(scaled):
            return int(scaled)
        raise SpecError(
            f"{draw!r} is no output of {self.kind}(): it must be k / 2^{self.size.bit_length() - 1} in [0, 1), "
            "with every digit kept"
        )


class Chosen(Picked):
    """``lowest..lowest+size-1`` by a chooser; subclasses have the arguments."""

    chooser: ClassVar[Chooser]

    @property
    @abstractmethod
    def size(self) -> int: ...

    def take(self, words: Words) -> int:
        return self.lowest + self.chooser.take(words, self.size)

    def rule(self) -> Rule:
        return self.chooser.rule(self.size)

    def want(self, draw: int) -> Want:
        return self.chooser.want(self.size, draw - self.lowest)


@dataclass(frozen=True)
class Below(Chosen):
    """``0..n-1``."""

    n: int

    kind: ClassVar[str] = "below"

    def __post_init__(self) -> None:
        need(0 < self.n <= self.chooser.top, f"{self.kind}: n {self.n} lies outside 1..{self.chooser.top}")

    @property
    def size(self) -> int:
        return self.n


@dataclass(frozen=True)
class Range(Chosen):
    """``min..max``, both ends included."""

    min: int
    max: int

    kind: ClassVar[str] = "range"
    outermost: ClassVar[int] = 1 << 63

    def __post_init__(self) -> None:
        need(self.min <= self.max, f"range: min {self.min} is above max {self.max}")
        need(self.size <= self.chooser.top, f"range: max - min must be below {self.chooser.top}")
        edge = self.outermost
        need(self.min >= -edge and self.max < edge, f"range: min and max must lie in {-edge}..{edge - 1}")

    @property
    def lowest(self) -> int:
        return self.min

    @property
    def size(self) -> int:
        return self.max - self.min + 1


@dataclass(frozen=True)
class Mod(Chosen):
    """A whole output modulo ``modulus``."""

    modulus: int

    kind: ClassVar[str] = "mod"

    def __post_init__(self) -> None:
        top = self.chooser.top - 1
        need(0 < self.modulus <= top, f"mod: modulus {self.modulus} lies outside 1..{top}")

    @property
    def size(self) -> int:
        return self.modulus


@dataclass(frozen=True)
class Cut(Picked):
    """``bits`` bits of a word, from bit ``shift`` (0: the lowest) upwards: high and low parts."""

    shift: int
    bits: int

    kind: ClassVar[str] = "bits"
    width: ClassVar[int] = 32

    def __post_init__(self) -> None:
        fits = self.shift >= 0 and self.bits > 0 and self.shift + self.bits <= self.width
        need(fits, f"bits: shift {self.shift} and bits {self.bits} do not lie within a word of {self.width} bits")

    @property
    def size(self) -> int:
        return 1 << self.bits

    def take(self, words: Words) -> int:
        return (next(words) >> self.shift) % self.size

    def rule(self) -> Rule:
        return Rule(self.width, (Part(self.shift, self.bits),))


@dataclass(frozen=True)
class Bytes(Output):
    """``n`` bytes, as the integer they are when the first is the most significant; shown and read in hexadecimal.

    Each word gives ``per_word`` bytes, the lowest first; the rest of the last word is thrown away.
    """

    n: int

    kind: ClassVar[str] = "bytes"
    width: ClassVar[int] = 32
    per_word: ClassVar[int] = 4
    top: ClassVar[int] = 64

    def __post_init__(self) -> None:
        need(0 < self.n <= self.top, f"bytes: n {self.n} lies outside 1..{self.top}")

    @property
    def lowest(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return 1 << (8 * self.n)

    def take(self, words: Words) -> int:
        made = bytearray()
        while len(made) < self.n:
            word = next(words)
            made += bytes(word >> 8 * i & 0xFF for i in range(self.per_word))
        return int.from_bytes(made[: self.n], "big")

    def rules(self) -> tuple[Rule, ...]:
        return tuple(Rule(self.width, (Part(0, 8 * taken),)) for taken in self._taken())

    def wants(self, draw: int) -> tuple[Want, ...]:
        text = draw.to_bytes(self.n, "big")
        starts = range(0, self.n, self.per_word)
        return tuple(exactly(int.from_bytes(text[i : i + self.per_word], "little")) for i in starts)

    def _taken(self) -> list[int]:
        return [min(self.per_word, self.n - start) for start in range(0, self.n, self.per_word)]

    def read(self, draw: object) -> int:
        if not isinstance(draw, str):
            return Output.read(self, draw)
        try:
            text = bytes.fromhex(draw)
        except ValueError:
            raise SpecError(f"{draw!r} is no hexadecimal text") from None
        need(len(text) == self.n, f"{draw!r} has {len(text)} bytes, not {self.n}")
        return int.from_bytes(text, "big")

    def show(self, draw: int) -> object:
        return draw.to_bytes(self.n, "big").hex()


def plain(bits: int, *, width: int | None = None, shift: int = 0) -> dict[str, type[Output]]:
    """The outputs of a bare generator whose number is ``bits`` bits of a word of ``width``, from ``shift`` upwards.

    ``exact``, ``mod``, ``bits`` (of the word), ``float`` (its upper bits, at most 53, over 2^bits), and ``floor``
    of that float times ``n``.
    """
    word, number = width or bits, Part(shift, bits)
    drop = max(0, bits - 53)
    upper = (Part(shift + drop, bits - drop),)

    class Exact(Bits):
        kind: ClassVar[str] = "exact"
        width: ClassVar[int] = word
        parts: ClassVar[tuple[Part, ...]] = (number,)

    class ModNumber(Mod):
        chooser: ClassVar[Chooser] = Remainder(word, number)

    class CutWord(Cut):
        width: ClassVar[int] = word

    class FloatOf(Float):
        kind: ClassVar[str] = "float"
        width: ClassVar[int] = word
        parts: ClassVar[tuple[Part, ...]] = upper

    class FloorOf(Below):
        kind: ClassVar[str] = "floor"
        chooser: ClassVar[Chooser] = Floor(word, upper)

    outputs: tuple[type[Output], ...] = (Exact, ModNumber, CutWord, FloatOf, FloorOf)
    return {output.kind: output for output in outputs}
