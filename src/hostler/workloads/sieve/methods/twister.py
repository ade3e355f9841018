"""``twister``: MT19937 from its outputs, by elimination over its 19,937 bits of state; then the seed.

Each bit of a word that a draw decides is a linear equation in the bits of the state at the beginning of the draws. When
the equations decide the state, it is taken back word by word, over all skips, to one that a seeding makes; that seeding
is undone. So neither the size of a skip nor that of the seed matters, only that there are enough draws: 624 whole
words, 1,248 that lack a bit, or about 7,000 remainders by a multiple of 8.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import ceil, inf
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.errors import SpecError, TooManyHits
from hostler.workloads.sieve.generators import mersenne
from hostler.workloads.sieve.generators.base import Generator, stream
from hostler.workloads.sieve.generators.mersenne import State
from hostler.workloads.sieve.methods import picks, twister_kernels
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.mersenne_seeds import invertible, seeds
from hostler.workloads.sieve.methods.solved import Solved
from hostler.workloads.sieve.methods.terms import Contradiction, Term, terms_of
from hostler.workloads.sieve.methods.twister_kernels import BITS, I64, U64, WIDE, N
from hostler.workloads.sieve.spec import Spec

COLUMNS = N * BITS
UNKNOWNS = 19937
MOST_EQUATIONS = 40_000
MOST_FREE = 8
MOST_WORDS = 4_000_000
CHUNK = 2048
WRITE_S = 4e-5
ELIMINATE_S = 2.5
BACK_S = 4e-6


@dataclass(frozen=True, slots=True)
class Recovered:
    """A state that makes all draws in the pattern of ``gap``: the 624 words before its first word, oldest first.

    Of the oldest word only the bits are known that later words depend on; the others are 0.
    """

    gap: int
    words: State


class Twister:
    """The method."""

    name: ClassVar[str] = "twister"

    def offer(self, spec: Spec) -> Offer | str:
        """As :class:`~hostler.workloads.sieve.methods.base.Method` says."""
        if not _is_twister(spec.generator):
            return f"{spec.generator.name} is no MT19937"
        if why := picks.simple(spec):
            return why
        if spec.items != "seeds" or not invertible(spec.generator):
            return "states of MT19937 are no numbers of a range; it finds seeds"
        if why := picks.often(spec):
            return f"{why}; state_from() finds the state if it did not"
        if picks.span(spec, spec.gap[1]) > MOST_WORDS:
            return f"the draws lie too far apart: {picks.span(spec, spec.gap[1])} words are more than {MOST_WORDS}"
        search = _first(spec)
        return search if isinstance(search, str) else _offered(spec, search)


def state_from(spec: Spec) -> list[Recovered]:
    """All states that make the draws of ``spec``, whatever the seed and the skip.

    Raises :class:`SpecError` where the method does not apply or the draws do not decide the state.
    """
    if not _is_twister(spec.generator):
        raise SpecError(f"generator: {spec.generator.name} is no MT19937")
    first = picks.simple(spec) or _first(spec)
    if isinstance(first, str):
        raise SpecError(f"draws: {first}")
    return [*first.recovered(), *_others(spec)]


def following(spec: Spec, recovered: Recovered, count: int) -> list[int]:
    """The next ``count`` outputs after the draws, call by call."""
    words = stream(spec.generator.engine, recovered.words)
    turns, made = len(spec.calls), []
    outputs = len(spec.draws) * (recovered.gap + 1) if turns == 1 else len(spec.draws)
    for number in range(outputs + count):
        output = spec.calls[number % turns].take(words)
        if number >= outputs:
            made.append(output)
    return made


def contradictions(spec: Spec) -> list[Contradiction] | None:
    """Contradictions for all alignments; ``None`` where there are solutions, or where equations do not apply."""
    if not _is_twister(spec.generator) or picks.simple(spec):
        return None
    found = []
    for gap in _gaps(spec):
        search = _Search(spec, gap)
        terms = search.contradiction()
        if terms is None:
            return None
        found.append(Contradiction(gap, 0, terms))
    return found


def random_state(generator: Generator, bits: Callable[[int], int]) -> State:
    """A state whose bits come from ``bits(count)``."""
    words = [bits(BITS) for _ in range(N)]
    return mersenne.php_state_of(words) if _old_php(generator) else mersenne.state_of(words)


def _is_twister(generator: Generator) -> bool:
    return generator.engine.step in (mersenne.step, mersenne.php_step)


def _old_php(generator: Generator) -> bool:
    return generator.engine.step is mersenne.php_step


def _gaps(spec: Spec) -> range:
    return range(spec.gap[0], spec.gap[1] + 1)


def _first(spec: Spec) -> "_Search | str":
    """The equations of the first gap, eliminated; or why there are too few of them."""
    decided = len(terms_of(spec, spec.gap[0]))
    unknowns = UNKNOWNS + _old_php(spec.generator)
    if decided >= unknowns - MOST_FREE:
        search = _Search(spec, spec.gap[0])
        if search.rank >= unknowns - MOST_FREE or search.excluded:
            return search
        decided = search.rank
    if decided == 0:
        return "the draws decide no bit of a word"
    more = ceil((unknowns - decided) * spec.known / len(terms_of(spec, spec.gap[0])))
    return (
        f"{spec.known} draws decide {decided} of the {unknowns} bits of the state at most; it takes {more} known draws "
        "more at least"
    )


def _others(spec: Spec) -> Iterator[Recovered]:
    for gap in _gaps(spec)[1:]:
        yield from _Search(spec, gap).recovered()


def _offered(spec: Spec, first: "_Search") -> Offer:
    skips = spec.skip[1] * picks.round_words(spec)
    each = ELIMINATE_S + 2 * WRITE_S * picks.span(spec, spec.gap[1]) + skips * BACK_S
    why = f"{len(first.terms)} linear equations decide the {first.unknowns} bits of the state, for all skips and seeds"
    found = list(first.recovered())
    return Offer(why, len(_gaps(spec)) * each, inf, lambda: Solved(lambda: _seeds(spec, found)))


def _seeds(spec: Spec, first: list[Recovered]) -> Iterator[int]:
    """The seeds of the states that make the draws."""
    # Something may have been drawn again before the draws: all states are looked at, and some before the first skip's.
    steps = spec.skip[1] * picks.round_words(spec) + picks.before(spec)
    for recovered in [*first, *_others(spec)]:
        state = recovered.words
        yield from seeds(spec.generator, state)
        for _ in range(steps):
            state = _back(spec.generator, state)
            yield from seeds(spec.generator, state)


def _back(generator: Generator, state: State) -> State:
    return mersenne.php_back(state) if _old_php(generator) else mersenne.back(state)


class _Search:
    """The equations of one gap, eliminated."""

    def __init__(self, spec: Spec, gap: int) -> None:
        self._spec, self._gap = spec, gap
        self._old_php = _old_php(spec.generator)
        # Words are made one after the other; a draw of several words may name the last one first.
        self.terms = sorted(terms_of(spec, gap), key=_place)
        self._used: list[Term] = []
        self.rank, reached = 0, 0
        while reached < len(self.terms) and self.rank < self.unknowns and not self.excluded:
            # Of equations that are sums of others one learns nothing: what decides is kept, and more is added.
            kept = [self._used[i] for i in self._order[: self.rank].tolist()] if self._used else []
            more = self.terms[reached : reached + MOST_EQUATIONS - len(kept)]
            reached += len(more)
            self._eliminate([*sorted(kept, key=_place), *more])

    @property
    def unknowns(self) -> int:
        """How many bits a state has."""
        return UNKNOWNS + self._old_php

    def _eliminate(self, terms: list[Term]) -> None:
        self._used, self._rows = terms, self._equations(terms)
        self._order = np.arange(len(terms), dtype=np.int64)
        self._pivots = np.zeros(len(terms), np.int64)
        self.rank = twister_kernels.eliminate()(self._rows, COLUMNS, self._order, self._pivots)

    @property
    def excluded(self) -> bool:
        """Whether the equations have no solution."""
        return self.rank > 0 and bool(self._rows[self.rank :, WIDE].any())

    def recovered(self) -> Iterator[Recovered]:
        """The states that make all draws."""
        if not self.excluded:
            for state in self._solutions():
                if self._fits(state):
                    yield Recovered(self._gap, state)

    def contradiction(self) -> tuple[Term, ...] | None:
        """Terms whose bits cannot be all as they are, or ``None``."""
        if self.excluded:
            wrong = np.flatnonzero(self._rows[self.rank :, WIDE])
            return self._relation(self._used[int(self._order[self.rank + wrong[0]])])
        if self.rank < self.unknowns:
            return None
        number = self._wrong_term(next(self._solutions()))
        return None if number is None else self._relation(self.terms[number])

    def _equations(self, terms: list[Term]) -> U64:
        """One row for each term, given in the order of words: coefficients, and the value in the last column."""
        masks = [sum(1 << i for i in range(BITS) if mersenne.temper(1 << i) >> bit & 1) for bit in range(BITS)]
        rows = np.zeros((len(terms), WIDE + 1), np.uint64)
        rows[:, WIDE] = [term.value for term in terms]
        places = np.array([term.at for term in terms], np.int64)
        chosen = np.array([masks[term.bit] for term in terms], np.uint32)
        twister_kernels.write()(self._old_php, places, chosen, rows[:, :WIDE])
        return rows

    def _solutions(self) -> Iterator[State]:
        """The states that solve the equations."""
        deciding = set(self._pivots[: self.rank].tolist())
        seen = {31, *range(32, COLUMNS), *([0] if self._old_php else [])}
        free = sorted(seen - deciding)
        if len(free) > MOST_FREE:
            raise TooManyHits(f"the draws decide {self.rank} of {self.unknowns} bits of the state; give more of them")
        one = solved(self._rows, self._pivots[: self.rank], np.zeros(WIDE, np.uint64), 1)
        basis = [solved(self._rows, self._pivots[: self.rank], _unit(column), 0) for column in free]
        for number in range(1 << len(free)):
            made = one.copy()
            for i, vector in enumerate(basis):
                if number >> i & 1:
                    made ^= vector
            words = [int(word) for word in made.view(np.uint32)]
            yield mersenne.php_state_of(words) if self._old_php else mersenne.state_of(words)

    def _words(self, state: State) -> list[int]:
        return list(islice(stream(self._spec.generator.engine, state), picks.span(self._spec, self._gap)))

    def _fits(self, state: State) -> bool:
        words = self._words(state)
        wholes = ((aim, words[aim.at : aim.at + aim.rule.words]) for aim in picks.aims(self._spec, self._gap))
        return all(aim.want.holds(aim.rule.value(taken)) for aim, taken in wholes)

    def _wrong_term(self, state: State) -> int | None:
        words = self._words(state)
        wrong = (i for i, term in enumerate(self.terms) if words[term.at] >> term.bit & 1 != term.value)
        return next(wrong, None)

    def _relation(self, last: Term) -> tuple[Term, ...]:
        """``last`` and those of the deciding terms that its bit is the sum of."""
        chosen = sorted((self._used[i] for i in self._order[: self.rank].tolist()), key=_place)
        sides = _transposed(self._equations(chosen)[:, :WIDE])
        columns = np.zeros((COLUMNS, sides.shape[1] + 1), np.uint64)
        columns[:, :-1] = sides
        columns[:, -1] = _bits(self._equations([last])[0, :WIDE])
        order, pivots = np.arange(COLUMNS, dtype=np.int64), np.zeros(COLUMNS, np.int64)
        rank = twister_kernels.eliminate()(columns, self.rank, order, pivots)
        sum_of = _bits(solved(columns, pivots[:rank], np.zeros(sides.shape[1], np.uint64), 1))
        return (*(term for term, used in zip(chosen, sum_of, strict=False) if used), last)


def solved(rows: U64, pivots: I64, vector: U64, constant: int) -> U64:
    """``vector`` with its coordinates at ``pivots`` set so that it solves the echelon rows, times ``constant``."""
    vector = vector.copy()
    for i in range(len(pivots) - 1, -1, -1):
        ones = int(np.bitwise_count(rows[i, :-1] & vector).sum())
        if (ones ^ int(rows[i, -1]) & constant) & 1:
            column = int(pivots[i])
            vector[column // 64] |= np.uint64(1 << column % 64)
    return vector


def _unit(column: int) -> U64:
    vector = np.zeros(WIDE, np.uint64)
    vector[column // 64] = 1 << column % 64
    return vector


def _bits(packed: U64) -> npt.NDArray[np.uint8]:
    return np.unpackbits(packed.view(np.uint8), bitorder="little")


def _transposed(packed: U64) -> U64:
    """A matrix of packed rows with rows and columns exchanged, the rows a multiple of 64 long."""
    count = -(-packed.shape[0] // 64) * 64
    made = np.zeros((packed.shape[1] * 64, count // 8), np.uint8)
    for first in range(0, packed.shape[0], CHUNK):
        bits = np.unpackbits(packed[first : first + CHUNK].view(np.uint8), axis=1, bitorder="little")
        part = np.packbits(bits.T, axis=1, bitorder="little")
        made[:, first // 8 : first // 8 + part.shape[1]] = part
    return made.view(np.uint64)


def _place(term: Term) -> int:
    return term.at
