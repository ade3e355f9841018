"""Linear congruential generators: with any constants, MSVC's ``rand``, and minstd.

``lcg:A,C,M,SHIFT`` is ``x -> (A * x + C) mod M``; its number is ``x >> SHIFT``, and the seed is the first ``x``.

References: Microsoft's C runtime (``rand``: 214013, 2531011, bits 16 to 30); S. K. Park and K. W. Miller, "Random
number generators: good ones are hard to find", Communications of the ACM 31 (10), 1988, and 36 (7), 1993 (the
multiplier 48271); C++ ``std::minstd_rand0`` and ``std::minstd_rand``.
"""

from math import gcd

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators.base import WORD, Engine, Generator, Structure, need
from hostler.workloads.sieve.generators.mappings import plain

PREFIX = "lcg:"
MOST_BITS = 128
MERSENNE31 = (1 << 31) - 1


def engine(multiplier: int, increment: int, modulus: int, shift: int, bits: int) -> Engine:
    """The engine of ``x -> (multiplier * x + increment) mod modulus``, words ``x >> shift`` cut to ``bits`` bits.

    It has no step back where the multiplier has no inverse.
    """

    def step(state: int) -> int:
        return (multiplier * state + increment) % modulus

    def back(state: int) -> int:
        return (state - increment) * pow(multiplier, -1, modulus) % modulus

    power_of_two = modulus & (modulus - 1) == 0
    return Engine(
        bits,
        lambda seed: seed % modulus,
        step,
        lambda state: state >> shift & (1 << bits) - 1,
        back if gcd(multiplier, modulus) == 1 else None,
        Structure.POWER_OF_TWO_LCG if power_of_two else Structure.LCG,
        states=modulus,
    )


def lcg(multiplier: int, increment: int, modulus: int, shift: int = 0) -> Generator:
    """The generator ``lcg:MULTIPLIER,INCREMENT,MODULUS,SHIFT``; raises :class:`SpecError` on impossible constants."""
    need(1 < modulus <= 1 << MOST_BITS, f"lcg: the modulus {modulus} lies outside 2..2^{MOST_BITS}")
    need(0 < multiplier < modulus, f"lcg: the multiplier {multiplier} lies outside 1..modulus-1")
    need(0 <= increment < modulus, f"lcg: the increment {increment} lies outside 0..modulus-1")
    bits = (modulus - 1).bit_length() - shift
    need(shift >= 0 and bits > 0, f"lcg: the shift {shift} leaves nothing of a state below {modulus}")
    constants = {"multiplier": multiplier, "increment": increment, "modulus": modulus, "shift": shift}
    return Generator(
        PREFIX + ",".join(map(str, constants.values())),
        "linear congruential, constants given",
        modulus,
        engine(**constants, bits=bits),
        plain(bits),
        parameters=constants,
    )


def parse(name: str) -> Generator:
    """The generator of a name such as ``lcg:1103515245,12345,2147483648,16``; the shift may be left out."""
    try:
        constants = [int(text, 0) for text in name.removeprefix(PREFIX).split(",")]
    except ValueError:
        constants = []
    if len(constants) not in (3, 4):
        raise SpecError(
            f"generator {name!r}: write lcg:MULTIPLIER,INCREMENT,MODULUS or lcg:MULTIPLIER,INCREMENT,MODULUS,SHIFT"
        )
    return lcg(*constants)


def _minstd(name: str, multiplier: int, *aliases: str) -> Generator:
    return Generator(
        name,
        f"minimal standard, {multiplier}; C++ std::{name.replace('-', '_')}",
        MERSENNE31,
        # As in C++, a seed that is a multiple of the modulus counts as 1.
        _minstd_engine(multiplier),
        plain(31),
        reference="Park and Miller 1988, 1993; ISO C++ [rand.predef]",
        aliases=aliases,
        drawn=(0, WORD - 1),
        seed_notes="taken modulo 2^31-1; 0 is the same as 1",
        parameters={"multiplier": multiplier, "increment": 0, "modulus": MERSENNE31, "shift": 0},
    )


def _minstd_engine(multiplier: int) -> Engine:
    base = engine(multiplier, 0, MERSENNE31, 0, 31)
    return Engine(31, lambda seed: seed % MERSENNE31 or 1, base.step, base.word, base.back, base.structure,
                  states=base.states)  # fmt: skip


MSVC_RAND = Generator(
    "msvc-rand",
    "Microsoft C srand, rand",
    WORD,
    engine(214013, 2531011, WORD, 16, 15),
    plain(15),
    reference="Microsoft C runtime, rand.c",
    aliases=("msvc",),
    seed_notes="seeds that differ in the highest bit only draw alike",
    parameters={"multiplier": 214013, "increment": 2531011, "modulus": WORD, "shift": 16},
)
MINSTD_RAND0 = _minstd("minstd-rand0", 16807, "minstd0")
MINSTD_RAND = _minstd("minstd-rand", 48271, "minstd")
