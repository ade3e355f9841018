"""``gf2``: generators that are linear over GF(2), by elimination.

Each bit of a word that a draw decides is a linear equation in the bits of the state: the remainder of a draw by the
power of two in its modulus, the bits that all numbers of a range have in common. Of xoshiro256** only whole words say
something: they are undone first. The equations are about the state at the beginning of the draws, so that they are the
same for all skips; the state is then taken back. With V8's cache they are the same for skips that are alike modulo 64.

What the equations leave open is enumerated, and tested by all that the draws say. Where they have no solution, a few
of them add up to 0 = 1: that these draws cannot come from this generator, whatever its state, can be checked by hand.
"""

from collections.abc import Iterator
from itertools import islice
from math import ceil, inf
from typing import ClassVar

import numpy as np

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.methods import picks
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.choices import U64, meets
from hostler.workloads.sieve.methods.linear import Linear, linear
from hostler.workloads.sieve.methods.matrices import Matrix, System, ones
from hostler.workloads.sieve.methods.picks import Aim, Single
from hostler.workloads.sieve.methods.solved import MOST, Solved, too_many
from hostler.workloads.sieve.methods.terms import Contradiction, Term, terms_of_aim
from hostler.workloads.sieve.spec import Spec

MOST_FREE = 20
FEW_FREE = 8
FEW = 16
FEW_LEFT = 8
MARGIN = 4
FAR = 96
"""Steps that are made one by one; more are made by a matrix."""
EQUATION_S = 2e-7
STEP_S = 4e-6


class Gf2:
    """The method."""

    name: ClassVar[str] = "gf2"

    def offer(self, spec: Spec) -> Offer | str:
        """As :class:`~hostler.workloads.sieve.methods.base.Method` says."""
        known = linear(spec.generator)
        if known is None:
            return f"{spec.generator.name} is not linear over GF(2), or its state is too large"
        if why := picks.simple(spec) or picks.often(spec):
            return why
        if spec.items == "ends" and known.period > 1:
            return "the state of the last draw does not say how full the cache was"
        search = _Search(spec, known)
        return search.refusal() or Offer(search.why(), search.cpu_s(), inf, lambda: Solved(search.solve))


def contradictions(spec: Spec) -> list[Contradiction] | None:
    """Contradictions for all alignments; ``None`` where there are solutions, or where equations do not apply."""
    known = linear(spec.generator)
    if known is None or picks.simple(spec):
        return None
    search = _Search(spec, known)
    found = []
    for gap, phase in search.kinds():
        terms = search.terms(gap)
        numbers = search.system(terms, phase, traced=True).contradiction
        if numbers is None:
            return None
        found.append(Contradiction(gap, phase, tuple(terms[number] for number in numbers)))
    return found


class _Search:
    def __init__(self, spec: Spec, known: Linear) -> None:
        self._spec, self._known = spec, known
        self._gaps = range(spec.gap[0], spec.gap[1] + 1)
        self._round = picks.round_words(spec)
        self._jumps: dict[int, Matrix] = {}

    def refusal(self) -> str:
        """Why it does not apply, or nothing."""
        left = self._known.bits - picks.bits(self._spec)
        if left > FEW_LEFT:
            return f"some 2^{left:.1f} states reproduce the draws by chance; give more known draws"
        terms = self.terms(self._gaps[0])
        system = self.system(terms, next(self.kinds())[1])
        free = self._known.bits - system.rank
        if system.contradiction is not None or free <= self._most_free():
            return ""
        if not terms:
            return "the draws decide no bit of a word that is linear in the state"
        each = len(terms) / self._spec.known
        more = ceil((free - self._most_free()) / each)
        return (
            f"{self._spec.known} draws decide {system.rank} of the {self._known.bits} bits of the state; "
            f"some {more} known draws more would do"
        )

    def why(self) -> str:
        """The reason for people."""
        terms = self.terms(self._gaps[0])
        bits = self._known.bits
        return f"{len(terms)} linear equations over GF(2) in the {bits} bits of the state, one system for all skips"

    def cpu_s(self) -> float:
        """CPU-seconds for all states."""
        bits, kinds = self._known.bits, sum(1 for _ in self.kinds())
        terms = len(self.terms(self._gaps[0]))
        words = min(picks.span(self._spec, self._gaps[-1]), self._spec.known * FAR) + 2 * self._known.period
        each = terms * bits * EQUATION_S + words * bits * STEP_S
        skips = (self._spec.skip[1] - self._spec.skip[0] + 1) * self._round
        return 0.001 + kinds * each + skips * STEP_S

    def kinds(self) -> Iterator[tuple[int, int]]:
        """Gaps and phases: alignments that differ otherwise have the same equations."""
        skips = range(self._spec.skip[0], self._spec.skip[1] + 1)[: self._known.period]
        phases = sorted({self._phase(skip) for skip in skips})
        return ((gap, phase) for gap in self._gaps for phase in phases)

    def solve(self) -> Iterator[int]:
        """All candidates."""
        for gap, phase in self.kinds():
            terms = self.terms(gap)
            system = self.system(terms, phase)
            if system.contradiction is None:
                for state in self._tested(system, gap, phase):
                    yield from self._items(state, gap, phase)

    def terms(self, gap: int) -> list[Term]:
        """What the draws say of bits that are linear in the state: as many draws as decide it with a wide margin."""
        terms = (term for aim in self._aims(gap) for term in terms_of_aim(aim) if self._known.seen >> term.bit & 1)
        return list(islice(terms, MARGIN * self._known.bits))

    def system(self, terms: list[Term], phase: int, *, traced: bool = False) -> System:
        """The equations in the bits of the state that stands where the phase begins."""
        system = System(self._known.bits, traced)
        times = [self._known.when(phase + term.at) for term in terms]
        words = self._words([1 << i for i in range(self._known.bits)], sorted(set(times)))
        for term, time in zip(terms, times, strict=True):
            if not system.add(_packed(words[time], term.bit), term.value):
                break
        return system

    def _words(self, states: list[int], times: list[int]) -> dict[int, U64]:
        """The words of these states at these times, ascending."""
        made, now = {}, 0
        for time in times:
            if time - now > FAR:
                states = list(map(self._jump(time - now), states))
            else:
                for _ in range(time - now):
                    states = list(map(self._known.step, states))
            now = time
            made[time] = np.array(list(map(self._known.word, states)), np.uint64)
        return made

    def _jump(self, steps: int) -> Matrix:
        if steps not in self._jumps:
            self._jumps[steps] = Matrix.of(self._known.bits, self._known.step).power(steps)
        return self._jumps[steps]

    def _tested(self, system: System, gap: int, phase: int) -> Iterator[int]:
        """The solutions that the draws leave when all is tested that they say."""
        one, basis = system.solution()
        if len(basis) > self._most_free():
            raise TooManyHits(too_many(f"the 2^{len(basis)} states that the equations leave"))
        left = np.arange(1 << len(basis), dtype=np.uint64)
        for aim in self._aims(gap):
            if left.size <= FEW:
                break
            for single in picks.singles(aim):
                left = self._fitting(left, [one, *basis], single, self._known.when(phase + single.at))
        if left.size > MOST:
            raise TooManyHits(too_many("the states that the equations leave"))
        for number in left.tolist():
            state = one
            for i in ones(number):
                state ^= basis[i]
            yield state

    def _aims(self, gap: int) -> Iterator[Aim]:
        return self._known.aims(picks.aims(self._spec, gap, MARGIN * self._known.bits))

    def _fitting(self, left: U64, states: list[int], single: Single, time: int) -> U64:
        """Those of the numbers whose sum of states has a word that fits; bit ``i`` stands for state ``i + 1``."""
        mask = (1 << single.part.bits) - 1 << single.part.shift
        if mask & ~self._known.seen:
            return left
        words = self._words(states, [time])[time]
        sums = np.full(left.size, words[0])
        for i, word in enumerate(words[1:]):
            sums ^= (left >> np.uint64(i) & np.uint64(1)) * word
        v = (sums & np.uint64(mask)) >> np.uint64(single.part.shift)
        kept: U64 = left[meets(v, single.want)]
        return kept

    def _items(self, state: int, gap: int, phase: int) -> Iterator[int]:
        """The items for a state at the beginning of the phase, for all skips of that phase."""
        if self._spec.items == "ends":
            yield self._jump(self._known.when(picks.span(self._spec, gap) - 1))(state)
            return
        back, gone = Matrix.of(self._known.bits, self._known.back), 0
        for skip in range(self._spec.skip[0], self._spec.skip[1] + 1):
            before = skip * self._round
            if self._phase(skip) == phase:
                steps, gone = before - phase - gone, before - phase
                if steps > FAR:
                    state = back.power(steps)(state)
                else:
                    for _ in range(steps):
                        state = self._known.back(state)
                yield from self._known.seeds(state) if self._spec.items == "seeds" else [state]

    def _phase(self, skip: int) -> int:
        return skip * self._round % self._known.period

    def _most_free(self) -> int:
        # Words that are linear in part cannot be tested here: all that is left goes to the judge.
        whole = all(self._known.seen >> bit & 1 for bit in range(self._spec.generator.engine.width))
        return MOST_FREE if whole else FEW_FREE


def _packed(words: U64, bit: int) -> int:
    """One bit of all words as one integer."""
    column = (words >> np.uint64(bit) & np.uint64(1)).astype(np.uint8)
    return int.from_bytes(np.packbits(column, bitorder="little").tobytes(), "little")
