"""Generators whose words are linear over GF(2) in the bits of a state, as the methods see them.

A state is an integer here. Words are named by their time: the state's steps until its word is the one meant. V8 reads
a cache of words backwards, so that times do not follow positions, and the pattern repeats every 64 words only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hostler.workloads.sieve.generators import v8, xorshift, xorshift32
from hostler.workloads.sieve.generators.base import Generator

MASK64 = (1 << 64) - 1
MASK32 = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Linear:
    """``step`` and ``back`` of states of ``bits`` bits, and the word of a state, linear in the bits of ``seen``.

    ``when`` gives the time of a word's position; after ``period`` positions it repeats, that much later.
    ``state`` is the engine's own state; ``seeds`` are the seeds of a state, at time 0.
    """

    bits: int
    step: Callable[[int], int]
    back: Callable[[int], int]
    word: Callable[[int], int]
    seen: int
    state: Callable[[int], Any]
    seeds: Callable[[int], list[int]]
    when: Callable[[int], int] = lambda position: position + 1
    period: int = 1


def linear(generator: Generator) -> Linear | None:
    """How a generator's words are linear; ``None`` for others, and for MT19937, whose states are too large here."""
    return _KNOWN.get(generator.name)


def _itself(state: int) -> int:
    return state


def _only(state: int) -> list[int]:
    return [state]


def _packed(state: tuple[int, ...]) -> int:
    return sum(word << 32 * i for i, word in enumerate(state))


def _halves(state: int) -> tuple[int, int]:
    return state & MASK64, state >> 64


def _joined(halves: tuple[int, int]) -> int:
    return halves[0] | halves[1] << 64


def _v8_when(position: int) -> int:
    """From an empty cache the next one's top is 127 steps away, and read downwards."""
    return v8.CACHE * (position // v8.CACHE) + 2 * v8.CACHE - 1 - position % v8.CACHE


def _v8_seeds(state: int) -> list[int]:
    s0, s1 = _halves(state)
    for _ in range(v8.CACHE - 1):
        s0, s1 = v8.forward(s0, s1)
    number = _unmurmur3(s0)
    return [number] if v8.murmur3(~number & MASK64) == s1 else []


def _unmurmur3(number: int) -> int:
    for factor in (0xC4CEB9FE1A85EC53, 0xFF51AFD7ED558CCD):
        number = xorshift.unright(number, 33) * pow(factor, -1, 1 << 64) & MASK64
    return xorshift.unright(number, 33)


_V8 = Linear(
    128,
    lambda state: _joined(v8.forward(*_halves(state))),
    lambda state: _joined(v8.backward(*_halves(state))),
    lambda state: state & MASK64,
    MASK64,
    lambda state: (*_halves(state), 0),
    _v8_seeds,
    _v8_when,
    v8.CACHE,
)

_KNOWN = {
    "xorshift32": Linear(32, xorshift32.step, xorshift32.back, _itself, MASK32, _itself, _only),
    "xorshift64": Linear(64, xorshift.step64, xorshift.back64, _itself, MASK64, _itself, _only),
    # A product with an odd number keeps the lowest bit; carries make the others more than linear.
    "xorshift64star": Linear(
        64,
        xorshift.step_star,
        xorshift.back_star,
        lambda state: state * xorshift.STAR & MASK64,
        1,
        _itself,
        _only,
    ),
    "xorshift128": Linear(
        128,
        lambda state: _packed(xorshift.step128(xorshift.seed128(state))),
        lambda state: _packed(xorshift.back128(xorshift.seed128(state))),
        lambda state: state >> 96,
        MASK32,
        xorshift.seed128,
        _only,
    ),
    "v8-random": _V8,
    "v8-random-2025": _V8,
}
