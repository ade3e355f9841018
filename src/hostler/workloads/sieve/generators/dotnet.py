"""The ``Random`` of .NET Framework, Mono and .NET Core, and of .NET with a seed: Knuth's subtractive generator.

Reference: .NET ``Random.cs`` / ``Random.CompatImpl.cs`` (``InternalSample``, ``Sample``, ``Next``), after Numerical
Recipes' ``ran3``, with the reference's own slip (the two taps are 21 apart, not 31). The seed's absolute value
counts, and that of the smallest integer is the largest. ``Next(a, b)`` over 2^31 - 1 values or more takes two
words, and is not here.

A state is the last 55 words, the oldest first; a word lies in 0..2^31-2.
"""

from typing import ClassVar, TypeAlias

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators.base import Engine, Generator, Output, Picked, Structure, by_kind
from hostler.workloads.sieve.generators.choosers import Chooser, Floor, Remainder
from hostler.workloads.sieve.generators.mappings import Below, Bytes, Mod, Range
from hostler.workloads.sieve.generators.rules import Part, Rule, Words

BIG = (1 << 31) - 1
NUMBER = (Part(0, 31),)
SAMPLE = Floor(31, NUMBER, unit=1.0 / BIG, most=BIG)

State: TypeAlias = tuple[int, ...]


def seed(number: int) -> State:
    """The state after ``new Random(number)``."""
    table = [0] * 56
    last = 161803398 - min(abs(number), BIG)
    table[55], following = last, 1
    for i in range(1, 55):
        place = 21 * i % 55
        table[place] = following
        following = _wrapped(last - following)
        last = table[place]
    for _ in range(4):
        for i in range(1, 56):
            table[i] = _wrapped(_int32(table[i] - table[1 + (i + 30) % 55]))
    return tuple(table[1:])


def step(state: State) -> State:
    """One ``InternalSample`` further."""
    made = state[0] - state[21]
    if made == BIG:
        made -= 1
    return (*state[1:], _wrapped(made))


def back(state: State) -> State:
    """One ``InternalSample`` back; exact for tables below 2^31-1, which seeding leaves but in freak cases."""
    return ((state[-1] + state[20]) % BIG, *state[:-1])


def word(state: State) -> int:
    """The number ``InternalSample`` returns."""
    return state[-1]


class Next(Picked):
    """``Next()``: 0..2^31-2."""

    kind: ClassVar[str] = "exact"

    @property
    def size(self) -> int:
        return BIG

    def take(self, words: Words) -> int:
        return next(words)

    def rule(self) -> Rule:
        return Rule(31, NUMBER)


class NextDouble(Next):
    """``NextDouble()`` as the integer ``NextDouble() * (2^31 - 1)``; a draw may also be given as the float itself."""

    kind: ClassVar[str] = "double"

    def read(self, draw: object) -> int:
        if not isinstance(draw, float):
            return Output.read(self, draw)
        number = round(draw * BIG) if 0.0 <= draw < 1.0 else -1
        if number < 0 or number * (1.0 / BIG) != draw:
            raise SpecError(f"{draw!r} is no output of NextDouble(): it must be k * (1 / (2^31 - 1)), every digit kept")
        return number


class NextBelow(Below):
    """``Next(n)``."""

    chooser: ClassVar[Chooser] = SAMPLE


class NextRange(Range):
    """``Next(min, max + 1)`` over fewer than 2^31 values."""

    chooser: ClassVar[Chooser] = SAMPLE
    outermost: ClassVar[int] = 1 << 31


class NextMod(Mod):
    """``Next() % modulus``."""

    chooser: ClassVar[Chooser] = Remainder(31, NUMBER[0])


class NextBytes(Bytes):
    """``NextBytes(new byte[n])``: the lowest 8 bits of a word each."""

    width: ClassVar[int] = 31
    per_word: ClassVar[int] = 1


def _wrapped(number: int) -> int:
    return number + BIG if number < 0 else number


def _int32(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


DOTNET_RANDOM = Generator(
    "dotnet-random",
    ".NET new Random(seed)",
    1 << 31,
    Engine(31, seed, step, word, back, Structure.ADDITIVE),
    by_kind(Next, NextDouble, NextBelow, NextRange, NextMod, NextBytes),
    reference=".NET System.Random, Random.CompatImpl.cs: CompatPrng",
    aliases=("dotnet", "csharp", "mono"),
    drawn=(-(1 << 31), BIG),
    seed_notes="a negative seed is its absolute value",
)
