"""From a state of MT19937 to the seeds that make it."""

from collections.abc import Iterator

from hostler.workloads.sieve.generators import mersenne
from hostler.workloads.sieve.generators.base import Generator
from hostler.workloads.sieve.generators.mersenne import MASK, N, State
from hostler.workloads.sieve.generators.xorshift import unright

GENRAND = 1812433253
FIRST, SECOND = 1664525, 1566083941
WORDS = 2
"""The words of a key: seeds are below 2^64."""

_BY_WORD = {"php-mt_rand", "php5-mt_rand", "numpy-randomstate", "ruby-random"}
_BY_ARRAY = {"python-random", "ruby-random"}


def invertible(generator: Generator) -> bool:
    """Whether :func:`seeds` knows this generator's seeding."""
    return generator.name in _BY_WORD | _BY_ARRAY


def seeds(generator: Generator, state: State) -> list[int]:
    """All seeds of a sweep after which the state before the first word is ``state``, ascending."""
    found = set(_guesses(generator, state))
    return sorted(seed for seed in found if seed < generator.seeds and generator.engine.seed(seed) == state)


def _guesses(generator: Generator, state: State) -> Iterator[int]:
    # Before a seeding is undone and made again, a few words of the state are looked at: there may be many states.
    if generator.name in _BY_WORD and _grown(state[1], 2) == state[2]:
        mixed = (state[1] - 1) * pow(GENRAND, -1, 1 << 32) & MASK
        seed = unright(mixed, 30)
        yield from range(seed, generator.seeds, 1 << 32) if generator.seeds <= 1 << 33 else (seed, seed + (1 << 32))
    if generator.name in _BY_ARRAY:
        yield from _keys(state)


def _grown(word: int, i: int) -> int:
    return GENRAND * (word ^ word >> 30) + i & MASK


def _keys(state: State) -> Iterator[int]:
    """Numbers whose words, as the key of ``init_by_array``, agree with the words that tell them."""
    added = _added(state)
    for length in range(1, WORDS + 1):
        key = [(added[i] - i % length) & MASK for i in range(len(added))]
        if all(key[i] == key[i % length] for i in range(len(key))):
            yield sum(key[i] << 32 * i for i in range(length))


def _added(state: State) -> list[int]:
    """What steps 2 to 7 of ``init_by_array`` added to a word: a word of the key, from the first on, and its number."""
    fresh = mersenne.init_genrand(19650218)
    middle = _before_second_pass(state)
    return [(middle[i] - (fresh[i] ^ (middle[i - 1] ^ middle[i - 1] >> 30) * FIRST)) & MASK for i in range(3, 9)]


def _before_second_pass(state: State) -> list[int]:
    """The first words that the second pass of ``init_by_array`` found; word 0 and word 1 are not told."""
    words = list(state[:9])
    words[1] = (state[1] + 1 & MASK) ^ _mixed(state[N - 1], SECOND)
    return [0, words[1], *(((words[i] + i) & MASK) ^ _mixed(words[i - 1], SECOND) for i in range(2, 9))]


def _mixed(word: int, factor: int) -> int:
    return (word ^ word >> 30) * factor & MASK
