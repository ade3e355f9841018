"""Generators whose words are linear over GF(2) in the bits of a state, as the methods see them.

A state is an integer here. Words are named by their time: the state's steps until its word is the one meant. V8 reads
a cache of words backwards, so that times do not follow positions, and the pattern repeats every 64 words only. The
words of xoshiro256** are scrambled: no bit of them is linear, but a whole word can be undone to one that is.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from hostler.workloads.sieve.generators import splitmix64, v8, xorshift, xorshift32, xoshiro
from hostler.workloads.sieve.generators.base import Generator
from hostler.workloads.sieve.generators.rules import Span, exactly
from hostler.workloads.sieve.methods.picks import Aim

MASK64 = (1 << 64) - 1
MASK32 = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Linear:
    """``step`` and ``back`` of states of ``bits`` bits, and the word of a state, linear in the bits of ``seen``.

    ``when`` gives the time of a word's position; after ``period`` positions it repeats, that much later.
    ``state`` is the engine's own state; ``seeds`` are the seeds of a state, at time 0. ``undone``, where there is one,
    makes the linear word of one that the engine gives.
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
    undone: Callable[[int], int] | None = None

    def aims(self, given: Iterable[Aim]) -> Iterator[Aim]:
        """What is wanted of linear words: all that is given, or only what tells a whole word that is to be undone."""
        for aim in given:
            if self.undone is None:
                yield aim
            elif (word := whole(aim)) is not None:
                yield replace(aim, want=exactly(self.undone(word)))


def whole(aim: Aim) -> int | None:
    """The one word that meets a pick, if there is one."""
    (part, *more), want = aim.rule.parts, aim.want
    told = not more and part.bits == aim.rule.width and isinstance(want, Span) and want.low == want.high
    return want.low if told and isinstance(want, Span) else None


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


def _four(state: int) -> tuple[int, ...]:
    return tuple(state >> 64 * i & MASK64 for i in range(4))


def _from_four(words: tuple[int, ...]) -> int:
    return sum(word << 64 * i for i, word in enumerate(words))


def _xoshiro_seeds(state: int) -> list[int]:
    words = _four(state)
    number = splitmix64.back(splitmix64.unword(words[0]))
    return [number] if xoshiro.seed(number) == words else []


def _lua_seeds(state: int) -> list[int]:
    words = _four(state)
    for _ in range(xoshiro.LUA_THROWN):
        words = xoshiro.back(words)
    return [words[0]] if words[1:] == (255, 0, 0) else []


def _star_star(seeds: Callable[[int], list[int]]) -> Linear:
    return Linear(
        256,
        lambda state: _from_four(xoshiro.step(_four(state))),
        lambda state: _from_four(xoshiro.back(_four(state))),
        lambda state: state >> 64 & MASK64,
        MASK64,
        _four,
        seeds,
        lambda position: position,
        undone=xoshiro.unstar_star,
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
    "xoshiro256starstar": _star_star(_xoshiro_seeds),
    "lua-random": _star_star(_lua_seeds),
}
