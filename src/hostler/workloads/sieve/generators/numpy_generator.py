"""NumPy's ``default_rng(seed)``: ``Generator`` over PCG64, and over SFC64.

Reference: numpy 2.4 ``bit_generator.pyx`` (``SeedSequence``), ``src/pcg64`` (PCG XSL RR 128/64 of M. O'Neill),
``src/sfc64`` (C. Doty-Humphrey's SFC64), ``distributions.c`` (``random_bounded_uint64_fill`` by D. Lemire's
method). An integer below 2^32 values is made of half a word, the lower half first; a float of a whole one. A draw
of one kind after the other is what is described here, as everywhere: a half word that is left waits for the next
integer.
"""

from itertools import cycle, islice
from typing import ClassVar, TypeAlias

from hostler.workloads.sieve.generators.base import ANY, Engine, Generator, Output, by_kind
from hostler.workloads.sieve.generators.choosers import Chooser, Floor, WideProduct
from hostler.workloads.sieve.generators.mappings import Below, Bits, Float, Range
from hostler.workloads.sieve.generators.mersenne import key_of
from hostler.workloads.sieve.generators.rules import Part, Words

MASK32, MASK64, MASK128 = (1 << 32) - 1, (1 << 64) - 1, (1 << 128) - 1
POOL = 4
PCG_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
PCG_INVERSE = pow(PCG_MULTIPLIER, -1, 1 << 128)

Pcg: TypeAlias = tuple[int, int]
Sfc: TypeAlias = tuple[int, int, int, int]
UPPER53 = (Part(11, 53),)
HALF = WideProduct(32, Part(0, 32), free_one=True)


class _Hash:
    """The hash of ``SeedSequence``, whose constant changes with every use."""

    def __init__(self, constant: int, multiplier: int) -> None:
        self._constant, self._multiplier = constant, multiplier

    def __call__(self, value: int) -> int:
        value ^= self._constant
        self._constant = self._constant * self._multiplier & MASK32
        value = value * self._constant & MASK32
        return value ^ value >> 16


def seed_words(entropy: int, count: int) -> list[int]:
    """``SeedSequence(entropy).generate_state(count, uint64)``."""
    pool = _pool(key_of(entropy))
    scramble = _Hash(0x8B51F9DD, 0x58F38DED)
    halves = [scramble(value) for value in islice(cycle(pool), 2 * count)]
    return [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]


def _pool(key: list[int]) -> list[int]:
    scramble = _Hash(0x43B0D7E5, 0x931E8875)
    pool = [scramble(key[i] if i < len(key) else 0) for i in range(POOL)]
    for source in range(POOL):
        for target in range(POOL):
            if source != target:
                pool[target] = _mix(pool[target], scramble(pool[source]))
    for word in key[POOL:]:
        for target in range(POOL):
            pool[target] = _mix(pool[target], scramble(word))
    return pool


def _mix(x: int, y: int) -> int:
    mixed = (0xCA01F9DD * x - 0x4973F715 * y) & MASK32
    return mixed ^ mixed >> 16


def pcg_seed(number: int) -> Pcg:
    """State and increment of ``PCG64(number)``."""
    high, low, sequence_high, sequence_low = seed_words(number, 4)
    increment = ((sequence_high << 64 | sequence_low) << 1 | 1) & MASK128
    state, _ = pcg_step((0, increment))
    return pcg_step(((state + (high << 64 | low)) & MASK128, increment))


def pcg_step(state: Pcg) -> Pcg:
    """One word further."""
    return (state[0] * PCG_MULTIPLIER + state[1]) & MASK128, state[1]


def pcg_back(state: Pcg) -> Pcg:
    """One word back."""
    return (state[0] - state[1]) * PCG_INVERSE & MASK128, state[1]


def pcg_word(state: Pcg) -> int:
    """XSL RR: both halves combined, turned right by the upper 6 bits."""
    high, low = state[0] >> 64, state[0] & MASK64
    return _turned_right(high ^ low, high >> 58)


def sfc_seed(number: int) -> Sfc:
    """The state of ``SFC64(number)``."""
    first, second, third = seed_words(number, 3)
    state: Sfc = (first, second, third, 1)
    for _ in range(12):
        state = sfc_step(state)
    return state


def sfc_step(state: Sfc) -> Sfc:
    """One word further; the word is computed on the way and stands in the new state as its third part."""
    a, b, c, counter = state
    made = (a + b + counter) & MASK64
    return b ^ b >> 11, (c + (c << 3)) & MASK64, (_turned_left(c, 24) + made) & MASK64, (counter + 1) & MASK64


def sfc_back(state: Sfc) -> Sfc:
    """One word back."""
    first, second, third, counter = state
    b = first ^ first >> 11 ^ first >> 22 ^ first >> 33 ^ first >> 44 ^ first >> 55
    c = second * pow(9, -1, 1 << 64) & MASK64
    before = (counter - 1) & MASK64
    return (third - _turned_left(c, 24) - b - before) & MASK64, b, c, before


def sfc_word(state: Sfc) -> int:
    """The word that the next step uses."""
    return (state[0] + state[1] + state[3]) & MASK64


def _turned_right(value: int, by: int) -> int:
    return (value >> by | value << (64 - by)) & MASK64


def _turned_left(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & MASK64


class _Halves(Output):
    def feed(self, words: Words) -> Words:
        """Each word as two of 32 bits, the lower half first."""
        return (half for word in words for half in (word & MASK32, word >> 32))


class Raw(Bits):
    """``bit_generator.random_raw()``."""

    kind: ClassVar[str] = "exact"
    width: ClassVar[int] = 64
    parts: ClassVar[tuple[Part, ...]] = (Part(0, 64),)


class Random(Float):
    """``random()``: the upper 53 bits."""

    kind: ClassVar[str] = "float"
    width: ClassVar[int] = 64
    parts: ClassVar[tuple[Part, ...]] = UPPER53


class Integers(_Halves, Below):
    """``integers(n)`` for up to 2^32 values: half a word each; also the index of ``choice``."""

    chooser: ClassVar[Chooser] = HALF


class IntegersRange(_Halves, Range):
    """``integers(min, max + 1)``."""

    chooser: ClassVar[Chooser] = HALF


class FloorOf(Below):
    """``int(random() * n)``."""

    kind: ClassVar[str] = "floor"
    chooser: ClassVar[Chooser] = Floor(64, UPPER53)


OUTPUTS = by_kind(Raw, Random, Integers, IntegersRange, FloorOf)

NUMPY_PCG64 = Generator(
    "numpy-pcg64",
    "NumPy default_rng(seed), PCG64",
    1 << 64,
    Engine(64, pcg_seed, pcg_step, pcg_word, pcg_back),
    OUTPUTS,
    reference="numpy 2.4 numpy/random/bit_generator.pyx, src/pcg64/pcg64.h",
    aliases=("numpy", "pcg64"),
    drawn=(0, ANY),
    seed_notes="larger seeds can be drawn, not swept",
)
NUMPY_SFC64 = Generator(
    "numpy-sfc64",
    "NumPy Generator(SFC64(seed))",
    1 << 64,
    Engine(64, sfc_seed, sfc_step, sfc_word, sfc_back, early=True),
    OUTPUTS,
    reference="numpy 2.4 numpy/random/bit_generator.pyx, src/sfc64/sfc64.h",
    aliases=("sfc64",),
    drawn=(0, ANY),
    seed_notes="larger seeds can be drawn, not swept",
)
