"""Which OpenCL source an engine has, with which constants, and roughly what a seed costs there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from hostler.workloads.sieve.generators import Generator, go_rand, mersenne
from hostler.workloads.sieve.generators.base import WORD
from hostler.workloads.sieve.generators.java_random import MULTIPLIER as JAVA_MULTIPLIER

EARLY_STEPS = (4, 16, 64, 227)
"""How many words of MT19937 a program is made for: the next of these. Beyond them the whole state is kept."""


LINEAR_STEPS = (4, 16, 64)
"""How many words of glibc's are made without the words before them."""


@dataclass(frozen=True, slots=True)
class EngineCode:
    """Source files, in order, and the constants they are compiled with; ``tables`` are arrays of numbers.

    ``seeding`` and ``per_word`` are operations on 32 bits, roughly; ``big``: the state is not to be copied; ``limit``:
    how many words can be drawn, `None` without end.
    """

    files: tuple[str, ...]
    width: int
    constants: Mapping[str, int | str] = field(default_factory=dict)
    tables: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    seeding: int = 2
    per_word: int = 12
    big: bool = False
    limit: int | None = None


AS_STATES: Mapping[str, int | str] = {"SEED_XOR": "0ul", "ONE_BEFORE": 0, "ONE_AFTER": 0, "STATES": 1}
"""Constants with which an engine's seeding leaves a number as it is."""

Maker = Callable[[Generator, int], EngineCode | str]


def engine_code(generator: Generator, words: int, states: bool = False) -> EngineCode | str:
    """The code for a generator of which a seed draws up to ``words`` words; a text says why there is none.

    With ``states`` items are states before the first word, of an engine whose states are single integers.
    """
    maker = MAKERS.get(generator.name, _lcg if generator.name.startswith("lcg:") else None)
    if maker is None:
        return f"there is no OpenCL source for {generator.name}"
    code = maker(generator, words)
    if states and not isinstance(code, str):
        code = replace(code, constants={**code.constants, **AS_STATES})
    if not isinstance(code, str) and code.limit is not None and words > code.limit:
        return f"its program for {generator.name} makes {code.limit} words, and this takes up to {words}"
    return code


def _plain(file: str, seeding: int, per_word: int, generator: Generator, words: int, **constants: int) -> EngineCode:
    return EngineCode((file,), generator.engine.width, constants, seeding=seeding, per_word=per_word)


def _mersenne(seeding: int, generator: Generator, words: int, *, php_old: int = 0) -> EngineCode:
    early = next((step for step in EARLY_STEPS if words <= step), 0)
    start = {"START": ("uint", tuple(mersenne.init_genrand(19650218)))} if seeding else {}
    passes = {0: 400, 1: 1870, 2: 1870}[seeding] if early else {0: 900, 1: 2500, 2: 2500}[seeding]
    constants = {"SEEDING": seeding, "EARLY": early, "PHP_OLD": php_old}
    return EngineCode(("mersenne.cl",), 32, constants, start, 4 * passes, 24, big=True)


def _additive(degree: int, separation: int, generator: Generator, words: int) -> EngineCode:
    linear = next((step for step in LINEAR_STEPS if words <= step), 0)
    constants = {"DEGREE": degree, "SEPARATION": separation, "LINEAR": linear}
    if not linear:
        return EngineCode(("glibc.cl",), 32, constants, seeding=90 * degree, per_word=8, big=True)
    tables = {"FACTORS": ("uint", _factors(degree, separation, linear))}
    return EngineCode(("glibc.cl",), 32, constants, tables, seeding=10 * degree, per_word=3 * degree, big=True)


def _factors(degree: int, separation: int, words: int) -> tuple[int, ...]:
    """Each word as a sum of multiples of the table's: ``degree`` factors a word, modulo 2^32."""
    units = [[int(i == j) for j in range(degree)] for i in range(degree)]
    made = [*units[separation:], *units[:separation]]  # the oldest first
    while len(made) < 11 * degree + words:
        sums = zip(made[-degree], made[-separation], strict=True)
        made.append([(older + newer) % WORD for older, newer in sums])
    return tuple(factor for word in made[11 * degree :] for factor in word)


def _v8(generator: Generator, words: int, **constants: int) -> EngineCode:
    return EngineCode(("v8.cl",), 64, {"OLD": 0, "SUM": 0, "CACHE": 64, **constants}, seeding=1100, per_word=30)


def _go(generator: Generator, words: int) -> EngineCode:
    cooked, places = go_rand.cooked(), sorted(range(go_rand.LENGTH), key=_go_age)
    tables = {
        "POWERS": ("uint", tuple(pow(48271, 21 + 3 * place, go_rand.MINSTD) for place in places)),
        "COOKED": ("ulong", tuple(cooked[place] for place in places)),
    }
    return EngineCode(("go.cl",), 64, {}, tables, seeding=4, per_word=80, limit=go_rand.LENGTH)


def _go_age(place: int) -> int:
    """Go fills its table downwards from place 333: how many words are older than the one at ``place``."""
    return (go_rand.LENGTH - go_rand.TAP - 1 - place) % go_rand.LENGTH


def _xoshiro(generator: Generator, words: int, *, plus_plus: int = 0, lua: int = 0) -> EngineCode:
    constants = {"XOSHIRO": 1, "PLUS_PLUS": plus_plus, "LUA": lua}
    return EngineCode(("splitmix64.cl", "xoshiro.cl"), 64, constants, seeding=400 if lua else 120, per_word=24)


def _lcg(generator: Generator, words: int, *, xor: int = 0, before: int = 0, after: int = 0) -> EngineCode | str:
    given, width = generator.parameters, generator.engine.width
    modulus, multiplier = given["modulus"], given["multiplier"]
    power, narrow = modulus & (modulus - 1) == 0, modulus <= WORD
    if modulus > 1 << 64 or (not power and modulus >= 1 << 63):
        return "its program for linear congruential generators takes moduli below 2^63, and 2^63 and 2^64"
    constants: dict[str, int | str] = {
        "STATE": "uint" if narrow else "ulong",
        "MULTIPLIER": f"{multiplier}ul",
        "INCREMENT": f"{given['increment']}ul",
        "POWER": int(power),
        "WIDE": int(not power and not narrow),
        "SEED_XOR": f"{xor}ul",
        "ONE_BEFORE": before,
        "ONE_AFTER": after,
        "BASE": given["shift"],
        "WORD_MASK": f"{(1 << width) - 1}ul",
    }
    constants["KEEP" if power else "MODULUS"] = f"{modulus - 1 if power else modulus}ul"
    per_word = 8 if narrow and power else 12 if power else 24 if narrow else 1000
    return EngineCode(("lcg.cl",), width, constants, per_word=per_word)


def _glibc0(generator: Generator, words: int) -> EngineCode | str:
    # Its constants are not in the generator's parameters.
    constants: dict[str, int | str] = {
        "STATE": "uint", "MULTIPLIER": "1103515245ul", "INCREMENT": "12345ul", "POWER": 1, "WIDE": 0, "SEED_XOR": "0ul",
        "ONE_BEFORE": 1, "ONE_AFTER": 0, "BASE": 0, "WORD_MASK": "2147483647ul", "KEEP": "2147483647ul",
    }  # fmt: skip
    return EngineCode(("lcg.cl",), 31, constants, per_word=8)


def _pcg32(generator: Generator, words: int) -> EngineCode:
    constants: dict[str, int | str] = {"INCREMENT": f"{generator.parameters['increment']}ul", "STATES": 0}
    return EngineCode(("pcg32.cl",), 32, constants, seeding=12, per_word=20)


MAKERS: Mapping[str, Maker] = {
    "php-mt_rand": partial(_mersenne, 0),
    "php5-mt_rand": partial(_mersenne, 0, php_old=1),
    "numpy-randomstate": partial(_mersenne, 0),
    "python-random": partial(_mersenne, 1),
    "ruby-random": partial(_mersenne, 2),
    "java-random": partial(_lcg, xor=JAVA_MULTIPLIER),
    "msvc-rand": _lcg,
    "minstd-rand0": partial(_lcg, after=1),
    "minstd-rand": partial(_lcg, after=1),
    "glibc-type0": _glibc0,
    "glibc-rand": partial(_additive, 31, 3),
    "php5-rand": partial(_additive, 31, 3),
    "glibc-type1": partial(_additive, 7, 3),
    "glibc-type2": partial(_additive, 15, 1),
    "glibc-type4": partial(_additive, 63, 1),
    "dotnet-random": partial(_plain, "dotnet.cl", 2500, 10),
    "go-rand": _go,
    "v8-random": _v8,
    "v8-random-2015": partial(_v8, OLD=1, SUM=1, CACHE=62),
    "v8-random-2025": _v8,
    "v8-random-2026": partial(_v8, SUM=1),
    "lua-random": partial(_xoshiro, lua=1),
    "xoshiro256plusplus": partial(_xoshiro, plus_plus=1),
    "xoshiro256starstar": _xoshiro,
    "splitmix64": partial(_plain, "splitmix64.cl", 2, 24, XOSHIRO=0),
    "xorshift32": partial(_plain, "xorshift32.cl", 1, 6),
    "xorshift64": partial(_plain, "xorshift64.cl", 1, 12, STAR=0),
    "xorshift64star": partial(_plain, "xorshift64.cl", 1, 18, STAR=1),
    "xorshift128": partial(_plain, "xorshift128.cl", 1, 10),
    "pcg32": _pcg32,
    "pcg32-54": _pcg32,
    "philox4x32-10": partial(_plain, "philox.cl", 100, 24),
    "numpy-pcg64": partial(_plain, "numpy.cl", 220, 40, SFC=0),
    "numpy-sfc64": partial(_plain, "numpy.cl", 500, 24, SFC=1),
}
"""By the generator's name; ``lcg:...`` has its own."""
