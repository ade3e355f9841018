"""xoshiro256++ and xoshiro256**, and Lua's ``math.random``, which is the latter.

Reference: D. Blackman and S. Vigna, "Scrambled linear pseudorandom number generators", 2021 (prng.di.unimi.it).
Seeds are spread by splitmix64, as the authors advise. Lua 5.4 (``lmathlib.c``: ``setseed``, ``project``) seeds with
the integer, 255, 0, 0 and throws 16 words away.
"""

from typing import ClassVar, TypeAlias

from hostler.workloads.sieve.generators import splitmix64
from hostler.workloads.sieve.generators.base import Engine, Generator, Structure, by_kind
from hostler.workloads.sieve.generators.choosers import Chooser, Floor, Masked
from hostler.workloads.sieve.generators.mappings import Below, Bits, Float, Range, plain
from hostler.workloads.sieve.generators.rules import Part, Rule, Want, Words
from hostler.workloads.sieve.generators.xorshift import unleft

MASK = (1 << 64) - 1
UPPER53 = (Part(11, 53),)
UNFIVE, UNNINE = pow(5, -1, 1 << 64), pow(9, -1, 1 << 64)
LUA_THROWN = 16

State: TypeAlias = tuple[int, ...]


def seed(number: int) -> State:
    """Four words of splitmix64."""
    return splitmix64.first(number, 4)


def lua_seed(number: int) -> State:
    """The state after ``math.randomseed(number)``."""
    state: State = (number & MASK, 255, 0, 0)
    for _ in range(LUA_THROWN):
        state = step(state)
    return state


def step(state: State) -> State:
    """One word further; the words are computed before."""
    s0, s1, s2, s3 = state
    t = s1 << 17 & MASK
    s2, s3 = s2 ^ s0, s3 ^ s1
    return s0 ^ s3, s1 ^ s2, s2 ^ t, turned(s3, 45)


def back(state: State) -> State:
    """One word back."""
    a, b, c, d = state
    d = turned(d, 64 - 45)  # s3 ^ s1
    s0 = a ^ d
    # b = s1 ^ s2 ^ s0 and c = s2 ^ s0 ^ (s1 << 17), so that b ^ c = s1 ^ (s1 << 17).
    s1 = unleft(b ^ c, 17)
    return s0, s1, b ^ s1 ^ s0, d ^ s1


def plus_plus(state: State) -> int:
    """The word of xoshiro256++."""
    return (turned((state[0] + state[3]) & MASK, 23) + state[0]) & MASK


def star_star(state: State) -> int:
    """The word of xoshiro256**."""
    return turned(state[1] * 5 & MASK, 7) * 9 & MASK


def unstar_star(word: int) -> int:
    """The second word of the states whose word it is: :func:`star_star` undone."""
    return turned(word * UNNINE & MASK, 64 - 7) * UNFIVE & MASK


def turned(value: int, by: int) -> int:
    """``value`` turned left by ``by`` of 64 bits."""
    return (value << by | value >> (64 - by)) & MASK


class LuaInteger(Bits):
    """``math.random(0)``: a whole word as a signed integer."""

    kind: ClassVar[str] = "integer"
    width: ClassVar[int] = 64
    parts: ClassVar[tuple[Part, ...]] = (Part(0, 64),)
    is_signed: ClassVar[bool] = True


class LuaFloat(Float):
    """``math.random()``: the upper 53 bits."""

    kind: ClassVar[str] = "float"
    width: ClassVar[int] = 64
    parts: ClassVar[tuple[Part, ...]] = UPPER53


class _Project(Masked):
    """Lua's ``project``: as a mask, but a size that is a power of two, 1 included, takes its word once."""

    def take(self, words: Words, size: int) -> int:
        if size == 1:
            next(words)
            return 0
        return Masked.take(self, words, size)

    def rule(self, size: int) -> Rule:
        return Rule(64, (Part(0, 0),)) if size == 1 else Masked.rule(self, size)

    def want(self, size: int, index: int) -> Want:
        return Masked.want(self, size, index)


class LuaRange(Range):
    """``math.random(min, max)``."""

    chooser: ClassVar[Chooser] = _Project(64)


class LuaBelow(Below):
    """``math.random(n) - 1``."""

    chooser: ClassVar[Chooser] = _Project(64)


class LuaFloor(Below):
    """``math.floor(math.random() * n)``."""

    kind: ClassVar[str] = "floor"
    chooser: ClassVar[Chooser] = Floor(64, UPPER53)


def _xoshiro(name: str, title: str, engine: Engine, alias: str) -> Generator:
    return Generator(
        name,
        f"{title}, seeded by splitmix64",
        1 << 64,
        engine,
        plain(64),
        reference=f"Blackman and Vigna 2021; prng.di.unimi.it/{name}.c",
        aliases=(alias,),
        seed_notes="of splitmix64",
    )


XOSHIRO_PLUS_PLUS = _xoshiro(
    "xoshiro256plusplus",
    "xoshiro256++",
    Engine(64, seed, step, plus_plus, back, Structure.OTHER, early=True),
    "xoshiro256++",
)
XOSHIRO_STAR_STAR = _xoshiro(
    "xoshiro256starstar",
    "xoshiro256**",
    Engine(64, seed, step, star_star, back, Structure.GF2, early=True),
    "xoshiro256**",
)
LUA_RANDOM = Generator(
    "lua-random",
    "Lua 5.4 math.randomseed, math.random",
    1 << 64,
    Engine(64, lua_seed, step, star_star, back, Structure.GF2, early=True),
    by_kind(LuaInteger, LuaFloat, LuaBelow, LuaRange, LuaFloor),
    reference="Lua 5.4 lmathlib.c: setseed, project",
    aliases=("lua",),
    drawn=(-(1 << 63), (1 << 64) - 1),
    seed_notes="the integer modulo 2^64",
)
