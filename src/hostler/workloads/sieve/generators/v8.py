"""V8's ``Math.random()`` (Chrome, Node.js, Deno): xorshift128+ behind a cache of 64 that is read backwards.

Reference: V8 ``src/numbers/math-random.cc`` (``RefillCache``) and ``src/base/utils/random-number-generator.h``
(``XorShift128``, ``MurmurHash3``, ``ToDouble``). The seed is that of ``--random-seed``, as the browser or ``node``
takes it on the command line; without one it is 64 random bits. What of the state becomes the float has changed:

- ``v8-random-2015`` (V8 4.9 to 7.0; Node.js 6 to 11): the lower 52 bits of the sum of both halves
- ``v8-random`` (V8 7.1 to 13.4; Node.js 12 to 23): the upper 52 bits of the first half
- ``v8-random-2025`` (V8 13.5 to 14.5, from commit e0609ce6; Node.js 24): the upper 53 bits of the first half
- ``v8-random-2026`` (from V8 14.6, commit 0596ead5; Node.js 26): the upper 53 bits of the sum

The oldest had a cache of 62, no hash of the seed, and a flaw, see :func:`old_step`; what is checked is V8 6.8 and 7.0.

A state is ``(s0, s1, left)``: the halves that belong to the last float, and how many of the cache are left.
"""

from typing import ClassVar, TypeAlias

from hostler.workloads.sieve.generators.base import Engine, Generator, Structure, by_kind
from hostler.workloads.sieve.generators.choosers import Chooser, Floor
from hostler.workloads.sieve.generators.mappings import Below, Bits, Float
from hostler.workloads.sieve.generators.rules import Part

MASK = (1 << 64) - 1
CACHE = 64
OLD_CACHE = 62
INFINITY, MANTISSA, NAN = 0x7FF0000000000000, 0x000FFFFFFFFFFFFF, 0x7FF8000000000000

State: TypeAlias = tuple[int, int, int]


def murmur3(number: int) -> int:
    """The 64-bit finaliser of MurmurHash3."""
    number = (number ^ number >> 33) * 0xFF51AFD7ED558CCD & MASK
    number = (number ^ number >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return number ^ number >> 33


def forward(s0: int, s1: int) -> tuple[int, int]:
    """One step of xorshift128+."""
    x = s0 ^ s0 << 23 & MASK
    x ^= x >> 17
    return s1, x ^ s1 ^ s1 >> 26


def backward(s0: int, s1: int) -> tuple[int, int]:
    """One step of xorshift128+ undone."""
    x = s1 ^ s0 ^ s0 >> 26
    x ^= x >> 17 ^ x >> 34 ^ x >> 51
    return x ^ x << 23 & MASK ^ x << 46 & MASK, s0


def seed(number: int) -> State:
    """The state before the first ``Math.random()`` with ``--random-seed=number``: an empty cache.

    Its halves are those that the last float of a cache before would have had.
    """
    return _emptied(murmur3(number), murmur3(~number & MASK), CACHE)


def step(state: State) -> State:
    """One ``Math.random()`` further: back within the cache, or to the top of the next one."""
    s0, s1, left = state
    if left:
        return (*backward(s0, s1), left - 1)
    return (*_moved(s0, s1, 2 * CACHE - 1), CACHE - 1)


def back(state: State) -> State:
    """One ``Math.random()`` back."""
    s0, s1, left = state
    if left < CACHE - 1:
        return (*forward(s0, s1), left + 1)
    return _emptied(s0, s1, 2 * CACHE)


def old_seed(number: int) -> State:
    """As :func:`seed`, before V8 7.1: both halves are the number itself."""
    return _emptied(number, number, OLD_CACHE)


def old_step(state: State) -> State:
    """As :func:`step`, before V8 7.1: between caches the halves were kept as doubles, where every NaN is the same."""
    s0, s1, left = state
    if left:
        return (*backward(s0, s1), left - 1)
    s0, s1 = map(_as_double, _moved(s0, s1, OLD_CACHE - 1))
    return (*_moved(s0, s1, OLD_CACHE), OLD_CACHE - 1)


def _emptied(s0: int, s1: int, steps: int) -> State:
    for _ in range(steps - 1):
        s0, s1 = backward(s0, s1)
    return s0, s1, 0


def _moved(s0: int, s1: int, steps: int) -> tuple[int, int]:
    for _ in range(steps):
        s0, s1 = forward(s0, s1)
    return s0, s1


def _as_double(half: int) -> int:
    return NAN if half & INFINITY == INFINITY and half & MANTISSA else half


def _first(state: State) -> int:
    return state[0]


def _sum(state: State) -> int:
    return (state[0] + state[1]) & MASK


class _Low52(Float):
    kind: ClassVar[str] = "float"
    width: ClassVar[int] = 64
    parts: ClassVar[tuple[Part, ...]] = (Part(0, 52),)


class _High52(_Low52):
    parts: ClassVar[tuple[Part, ...]] = (Part(12, 52),)


class _High53(_Low52):
    parts: ClassVar[tuple[Part, ...]] = (Part(11, 53),)


def _floor(of: type[Bits]) -> type[Below]:
    class FloorOf(Below):
        """``Math.floor(Math.random() * n)``."""

        kind: ClassVar[str] = "floor"
        chooser: ClassVar[Chooser] = Floor(64, of.parts)

    return FloorOf


ENGINE = Engine(64, seed, step, _first, back, Structure.GF2)
SUM = Engine(64, seed, step, _sum, back)
# A half that was NaN is lost: no way back.
OLD = Engine(64, old_seed, old_step, _sum, None)


def _generator(name: str, title: str, engine: Engine, of: type[Bits], *aliases: str) -> Generator:
    return Generator(
        name,
        f"V8 Math.random, {title}",
        1 << 64,
        engine,
        by_kind(of, _floor(of)),
        reference="V8 src/numbers/math-random.cc, src/base/utils/random-number-generator.h",
        aliases=aliases,
        seed_notes="--random-seed takes 1 to 2^31-1; without it 64 random bits",
    )


V8_RANDOM = _generator("v8-random", "7.1-13.4 (Node.js 12-23)", ENGINE, _High52, "v8", "node12", "node20")
V8_RANDOMS = (
    _generator("v8-random-2015", "to 7.0 (Node.js to 11)", OLD, _Low52, "node11"),
    _generator("v8-random-2025", "13.5-14.5 (Node.js 24)", ENGINE, _High53, "node24"),
    _generator("v8-random-2026", "14.6 on (Node.js 26)", SUM, _High53, "node26"),
)
