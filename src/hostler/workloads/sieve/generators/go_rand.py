"""Go's ``math/rand`` (version 1) with a seed: ``rand.New(rand.NewSource(seed))``, ``rand.Seed(seed)``.

Reference: Go 1.19 ``src/math/rand/rng.go``, ``rand.go`` (``Int31n``, ``Int63n``, ``Float64``, ``Perm``,
``Shuffle``) and ``gen_cooked.go``, the program behind the table ``rngCooked``: an additive generator of 607 words,
seeded with 1 and stepped 7.8e12 times. :func:`cooked` makes that table anew, by arithmetic on polynomials instead
of steps. Seeds count modulo 2^31 - 1, and 0 is 89482311.

A state is the last 607 words of 64 bits, the oldest first: each is the sum of the one 607 before and the one 273
before.
"""

from functools import cache
from typing import ClassVar, TypeAlias

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators.base import Engine, Generator, Output, Picked, Structure, by_kind
from hostler.workloads.sieve.generators.choosers import Chooser, FairRemainder, WideProduct
from hostler.workloads.sieve.generators.mappings import Below, Bits
from hostler.workloads.sieve.generators.rules import Above, Part, Rule, Want, Words, span_of
from hostler.workloads.sieve.generators.shuffles import InsideOut, Shuffle

LENGTH, TAP = 607, 273
COOKING = 7_800_000_000_000
MINSTD = (1 << 31) - 1
MASK = (1 << 64) - 1
# Room for a coefficient of a product of two polynomials: 64 + 64 bits, and up to 607 of them added up.
SLOT = 144

State: TypeAlias = tuple[int, ...]


def seed(number: int) -> State:
    """The state after ``Seed(number)``."""
    x = number % MINSTD or 89482311
    words = [made ^ salt for made, salt in zip(_seeded(x, 40, 20), cooked(), strict=True)]
    return _in_order(words)


def step(state: State) -> State:
    """One ``Uint64`` further."""
    return (*state[1:], (state[0] + state[LENGTH - TAP]) & MASK)


def back(state: State) -> State:
    """One ``Uint64`` back."""
    return ((state[-1] - state[LENGTH - TAP - 1]) & MASK, *state[:-1])


def word(state: State) -> int:
    """``Uint64()``."""
    return state[-1]


@cache
def cooked() -> State:
    """Go's table ``rngCooked``: 607 words of 64 bits, by place. Takes about a second, once."""
    start = _in_order(_seeded(1, 20, 10))
    power = _power_of_x(COOKING)
    first = sum(factor * term for factor, term in zip(power, start, strict=True)) & MASK
    # The other 606 words come with one multiplication by x each: from one polynomial to the next.
    made = [first]
    for _ in range(LENGTH - 1):
        power = _times_x(power)
        made.append(sum(factor * term for factor, term in zip(power, start, strict=True)) & MASK)
    return tuple(made[_age(place, COOKING)] for place in range(LENGTH))


def _seeded(x: int, high: int, middle: int) -> list[int]:
    """607 words, each of three numbers of minstd after the first 20, as far apart as the shifts say."""
    for _ in range(20):
        x = 48271 * x % MINSTD
    words = []
    for _ in range(LENGTH):
        numbers = []
        for _ in range(3):
            x = 48271 * x % MINSTD
            numbers.append(x)
        words.append((numbers[0] << high ^ numbers[1] << middle ^ numbers[2]) & MASK)
    return words


def _age(place: int, steps: int) -> int:
    """How many words of the table are older than that at ``place`` after ``steps``: it is filled downwards from 333."""
    return (LENGTH - TAP - 1 - place - steps) % LENGTH


def _in_order(words: list[int]) -> State:
    """The words of Go's array, by place, from the oldest to the youngest."""
    by_age = sorted(range(LENGTH), key=lambda place: _age(place, 0))
    return tuple(words[place] for place in by_age)


def _power_of_x(exponent: int) -> list[int]:
    """``x^exponent`` modulo ``x^607 - x^334 - 1`` and 2^64: word ``exponent`` as a sum over the first 607 words."""
    result = [1] + [0] * (LENGTH - 1)
    for bit in bin(exponent)[2:]:
        result = _square(result)
        if bit == "1":
            result = _times_x(result)
    return result


def _square(terms: list[int]) -> list[int]:
    packed = sum(term << SLOT * i for i, term in enumerate(terms))
    square = packed * packed
    wide = [square >> SLOT * i & (1 << SLOT) - 1 for i in range(2 * LENGTH - 1)]
    for i in range(2 * LENGTH - 2, LENGTH - 1, -1):
        wide[i - TAP] += wide[i]
        wide[i - LENGTH] += wide[i]
    return [term & MASK for term in wide[:LENGTH]]


def _times_x(terms: list[int]) -> list[int]:
    moved = [terms[-1], *terms[:-1]]
    moved[LENGTH - TAP] = (moved[LENGTH - TAP] + terms[-1]) & MASK
    return moved


class Int63(Bits):
    """``Int63()``: the lower 63 bits of a word."""

    kind: ClassVar[str] = "int63"
    width: ClassVar[int] = 64
    parts: ClassVar[tuple[Part, ...]] = (Part(0, 63),)


class Uint64(Int63):
    """``Uint64()``."""

    kind: ClassVar[str] = "uint64"
    parts: ClassVar[tuple[Part, ...]] = (Part(0, 64),)


class Int31(Int63):
    """``Int31()``: bits 32 to 62."""

    kind: ClassVar[str] = "int31"
    parts: ClassVar[tuple[Part, ...]] = (Part(32, 31),)


class Uint32(Int63):
    """``Uint32()``: bits 31 to 62."""

    kind: ClassVar[str] = "uint32"
    parts: ClassVar[tuple[Part, ...]] = (Part(31, 32),)


class Float64(Picked):
    """``Float64()``: ``Int63()`` rounded to a double, over 2^63, as the integer ``float * 2^63``; 1 is drawn again.

    Not every such integer is the value of a double. A draw may also be given as the float itself.
    """

    kind: ClassVar[str] = "float64"

    @property
    def size(self) -> int:
        return 1 << 63

    @property
    def odds(self) -> int:
        return 1 << 53

    def take(self, words: Words) -> int:
        while (rounded := int(float(next(words) % self.size))) == self.size:
            pass
        return rounded

    def rule(self) -> Rule:
        # From 2^63 - 512 on, the nearest double is 2^63.
        return Rule(64, (Part(0, 63),), Above(self.size - 513))

    def want(self, draw: int) -> Want:
        return span_of(lambda v: int(float(v)), draw, self.size)

    def read(self, draw: object) -> int:
        if not isinstance(draw, float):
            return Output.read(self, draw)
        if not 0.0 <= draw < 1.0 or (scaled := draw * float(self.size)) != int(scaled):
            raise SpecError(f"{draw!r} is no output of Float64(): it must be a float k / 2^63 in [0, 1)")
        return int(scaled)


class _Below(Chooser):
    """``Intn``: 31 bits for sizes below 2^31, else 63; the remainder, fair."""

    @property
    def top(self) -> int:
        return (1 << 63) - 1

    def take(self, words: Words, size: int) -> int:
        return self._fair(size).take(words, size)

    def rule(self, size: int) -> Rule:
        return self._fair(size).rule(size)

    def want(self, size: int, index: int) -> Want:
        return self._fair(size).want(size, index)

    def _fair(self, size: int) -> FairRemainder:
        return FairRemainder(64, Part(32, 31) if size < 1 << 31 else Part(0, 63))


class Intn(Below):
    """``Intn(n)``: as ``Int31n`` below 2^31, as ``Int63n`` from there on."""

    kind: ClassVar[str] = "intn"
    chooser: ClassVar[Chooser] = _Below()


class Int63n(Below):
    """``Int63n(n)``."""

    kind: ClassVar[str] = "int63n"
    chooser: ClassVar[Chooser] = FairRemainder(64, Part(0, 63))


class Perm(InsideOut):
    """``Perm(n)``."""

    kind: ClassVar[str] = "perm"
    chooser: ClassVar[Chooser] = _Below()


class GoShuffle(Shuffle):
    """``Shuffle(n, swap)``."""

    chooser: ClassVar[Chooser] = WideProduct(64, Part(31, 32))


GO_RAND = Generator(
    "go-rand",
    "Go math/rand (v1) with a seed",
    MINSTD,
    Engine(64, seed, step, word, back, Structure.ADDITIVE),
    by_kind(Int63, Uint64, Int31, Uint32, Float64, Intn, Int63n, Perm, GoShuffle),
    reference="Go 1.19 src/math/rand/rng.go, rand.go, gen_cooked.go",
    aliases=("go", "golang"),
    drawn=(-(1 << 63), (1 << 63) - 1),
    seed_notes="taken modulo 2^31-1; 0 is the same as 89482311",
)
