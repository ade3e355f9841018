"""``halves``: linear congruential generators modulo 2^k whose draws show upper bits of the state, by any modulus.

A state is an upper half and a lower one, ``upper * 2^split + lower``, where draws look at the bits from ``split`` up.
The upper half of a later word is then a linear function of ``upper``, plus a number that follows from ``lower``: no
carry is lost. That a draw leaves the remainder ``d`` by ``m`` says that ``(half - d) / m``, modulo a power of two, is
one of the first of all numbers. For one lower half the upper ones that fit some draws, the *leads*, are therefore
points of a lattice in a box (:mod:`planes`). The lattice is the same for all lower halves; only its origin moves. So
the points are counted off by a kernel, without a look at what does not fit the leads, and tested by the draws that
follow.

What is drawn again moves the draws that follow. Either nothing is drawn again from the first lead to the last; or there
is a first word that is, and it lies in a range known beforehand: that word is a lead as well, and few states have it.
So all ways to draw again are searched, however often it happens. Tests follow the runtime word by word.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from math import exp2, inf, log2
from typing import ClassVar

import numpy as np

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.generators.rules import Residue, Span
from hostler.workloads.sieve.methods import halves_kernels, picks
from hostler.workloads.sieve.methods.affine import Congruence, Map, congruence, items_of
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.halves_kernels import F64, I64, U64
from hostler.workloads.sieve.methods.planes import Grid, grid
from hostler.workloads.sieve.methods.solved import MOST, MOST_S, Solved, too_many
from hostler.workloads.sieve.methods.stations import Station, followed, most_again, rejections, stations
from hostler.workloads.sieve.spec import Spec

MOST_BITS = 64
MOST_UPPER = 52
"""Bits of an upper half: points near a box have coordinates below 2^63."""
MOST_LEADS = 10
NEAR = 12
"""The leads are among so many draws that may lead, the first ones."""
MOST_STATIONS = 1024
SPARE_BITS = 64
"""So many bits more than a state has are tested by the kernel, so that chance leaves it few."""
FEW = 256
CHUNK_S = 0.1
LOW_S, POINT_S, STATE_S, GRID_S, PLAN_S = 6e-8, 2.5e-9, 1e-3, 1e-3, 1e-2
NODE_S, NODE_GROWTH = 1.5e-9, 1.75
"""For one choice of steps: for no lead, and how much more with each."""


class Halves:
    """The method."""

    name: ClassVar[str] = "halves"

    def offer(self, spec: Spec) -> Offer | str:
        """As :class:`~hostler.workloads.sieve.methods.base.Method` says."""
        known = congruence(spec.generator)
        if known is None or not known.power_of_two or known.bits > MOST_BITS:
            return f"{spec.generator.name} is no linear congruential generator modulo 2^k, k <= {MOST_BITS}"
        if why := picks.simple(spec):
            return why
        if not followed(spec):
            return "the runtime draws again in a way that it does not follow"
        search = _Search(spec, known)
        return search.refusal() or Offer(search.why(), search.cpu_s(), inf, lambda: Solved(search.solve))


@dataclass(frozen=True, slots=True)
class _Lead:
    """The upper half of the word at ``at`` is ``base``, or a multiple of ``modulus`` more, and at most ``top``."""

    at: int
    modulus: int
    base: int
    top: int

    @property
    def size(self) -> int:
        """How many upper halves fit."""
        return max(0, (self.top - self.base) // self.modulus + 1)

    @property
    def twos(self) -> int:
        """How often 2 divides the modulus."""
        return (self.modulus & -self.modulus).bit_length() - 1

    def weaker(self, twos: int) -> "_Lead":
        """What this says for a modulus that 2 divides at most so often."""
        if self.twos <= twos:
            return self
        modulus = self.modulus >> self.twos - twos
        return _Lead(self.at, modulus, self.base % modulus, self.top)


class _Meeting:
    """All states of the first lead's word that fit all leads where nothing is drawn again, and pass the tests."""

    def __init__(self, known: Congruence, split: int, leads: Sequence[_Lead], tests: Sequence[Station]) -> None:
        self._known, self._split, self._first, self._tests = known, split, leads[0], tests
        self._upper = known.bits - split
        self._others = [lead.weaker(leads[0].twos) for lead in leads[1:]]
        self._lattice = self._grid()

    @property
    def cpu_s(self) -> float:
        """CPU-seconds for all states."""
        points, *nodes = self._lattice.nodes
        going_on = exp2(-sum(lead.twos for lead in self._others))
        each = sum(nodes) * NODE_S * NODE_GROWTH ** len(self._lattice.basis) + points * POINT_S
        return GRID_S + exp2(self._split) * (LOW_S + going_on * each)

    def states(self) -> Iterator[int]:
        """The states, in no order; some of them may fit no lead."""
        split = 1 << self._split
        chunk = max(1, int(CHUNK_S / self.cpu_s * split))
        hits = np.empty(MOST, np.uint64)
        given = self._frame(), self._maps(), *self._arrays(), self._rows(), hits
        for start in range(0, split, chunk):
            count = halves_kernels.meet()(start, min(start + chunk, split), *given)
            if count > MOST:
                raise TooManyHits(too_many("the range"))
            yield from hits[:count].tolist()

    def _grid(self) -> Grid:
        """The lattice of ``(i, i of the other leads ...)`` for all upper halves and one lower half."""
        leads = [self._first, *self._others]
        counts = [1 << self._upper - lead.twos for lead in leads]
        rows = [[counts[i] * (i == j) for j in range(len(leads))] for i in range(len(leads))]
        rows[0] = [1] + [
            self._step(lead).factor * (self._first.modulus >> lead.twos) * _inverse(lead) % count
            for lead, count in zip(self._others, counts[1:], strict=True)
        ]
        return grid(rows, [lead.size for lead in leads])

    def _step(self, lead: _Lead) -> Map:
        return self._known.step.power(lead.at - self._first.at)

    def _frame(self) -> U64:
        step, unused = self._known.step, 64 - self._known.bits
        first = self._first
        return np.array([unused, self._split, first.base, first.modulus, step.factor, step.term << unused], np.uint64)

    def _maps(self) -> U64:
        return np.array([self._map(lead) for lead in self._others], np.uint64)

    def _map(self, lead: _Lead) -> list[int]:
        step, word = self._step(lead), (1 << self._upper) - 1
        origin = step.factor * self._first.base - lead.base & word
        inverse, count = _inverse(lead), word >> lead.twos
        return [step.factor, step.term, origin, word, (1 << lead.twos) - 1, lead.twos, inverse, count]

    def _arrays(self) -> tuple[I64, F64, F64, F64, I64]:
        levels, inverse = self._lattice.levels, np.ascontiguousarray(self._lattice.inverse)
        centre = np.array([lead.size / 2 for lead in (self._first, *self._others)])
        planes = [[*plane.factors, plane.low, plane.high] for level in levels for plane in level]
        starts = np.cumsum([0, *map(len, levels)])
        return np.array(self._lattice.basis, np.int64), centre, inverse, np.array(planes), starts

    def _rows(self) -> U64:
        rows, at = [], self._first.at
        for station in self._tests:
            rows.append(self._row(station, self._known.step.power(station.at - at)))
            at = station.at
        return np.array(rows, np.uint64).reshape(len(rows), halves_kernels.BOUND + 1)

    def _row(self, station: Station, step: Map) -> list[int]:
        part, unused = station.part, 64 - self._known.bits
        mask = (1 << part.bits) - 1
        limit = mask if station.limit is None else station.limit
        lead = _wanted(station, limit)
        shift = unused + self._known.shift + part.shift
        made = [step.factor, step.term << unused, shift, mask, limit]
        if not lead.size:
            return [*made, 1 << 63, 1, 0, 0]
        return [*made, lead.base, pow(lead.modulus >> lead.twos, -1, 1 << 64), lead.twos, lead.size - 1]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What finds all states of the word of station number ``first``, the first lead's."""

    first: int
    meetings: list[_Meeting]
    passing: float
    """How many states pass by chance, to expect."""

    @property
    def cpu_s(self) -> float:
        """CPU-seconds, with what passes looked at again."""
        return PLAN_S + sum(meeting.cpu_s for meeting in self.meetings) + self.passing * STATE_S


class _Said:
    """How many bits some stations say of a state together: of its lower bits no more than there are."""

    def __init__(self, known: Congruence) -> None:
        self._known = known
        self._by_height: dict[int, float] = {}

    def add(self, station: Station) -> None:
        """One station more."""
        part, shift = station.part, self._known.shift + station.part.shift
        limit = (1 << part.bits) - 1 if station.limit is None else station.limit
        lead = _wanted(station, limit)
        odd = log2(limit + 1) - log2(max(1, lead.size)) - lead.twos
        for height, bits in ((shift + lead.twos, float(lead.twos)), (shift + part.bits, max(0.0, odd))):
            self._by_height[height] = self._by_height.get(height, 0.0) + bits

    @property
    def bits(self) -> float:
        """The bits, more than a state has where chance makes no state fit."""
        bits = 0.0
        for height, more in sorted(self._by_height.items()):
            bits = bits + more if height == self._known.bits else min(bits + more, float(height))
        return bits


class _Search:
    def __init__(self, spec: Spec, known: Congruence) -> None:
        self._spec, self._known = spec, known
        self._gaps = range(spec.gap[0], spec.gap[1] + 1)

    @cached_property
    def _ends(self) -> list[_Plan | None]:
        """The plans of the smallest and the largest gap."""
        return [self._plan(gap) for gap in sorted({self._gaps[0], self._gaps[-1]})]

    def refusal(self) -> str:
        """Why it does not apply, or nothing."""
        plans = [plan for plan in self._ends if plan]
        if len(plans) < len(self._ends):
            return f"fewer than two of the first {MOST_STATIONS} words show upper bits of the state, or their remainder"
        if (passing := max(plan.passing for plan in plans)) > FEW:
            return f"some {passing:.3g} states reproduce the draws by chance; give more known draws"
        if self.cpu_s() > MOST_S:
            return f"to solve for all items at once takes {self.cpu_s():.3g} CPU-seconds, more than {MOST_S:.0f}"
        return ""

    def why(self) -> str:
        """The reason for people."""
        return "for each lower half of the state, the upper halves that fit some draws are points of a lattice in a box"

    def cpu_s(self) -> float:
        """CPU-seconds for all items."""
        each = [plan.cpu_s for plan in self._ends if plan]
        return sum(each) / len(each) * len(self._gaps)

    def solve(self) -> Iterator[int]:
        """All candidates."""
        for gap in self._gaps:
            plan = self._plan(gap)
            assert plan is not None
            for state in (state for meeting in plan.meetings for state in meeting.states()):
                yield from self._items(state, plan.first, gap)

    def _plan(self, gap: int) -> _Plan | None:
        """The cheapest plan; of those after which few states are left, if there are any."""
        road = list(islice(stations(self._spec, gap), MOST_STATIONS))
        plans = [plan for split in self._splits(road) for plan in self._plans(road, split)]
        return min(plans, key=lambda plan: (plan.passing > FEW, plan.cpu_s), default=None)

    def _splits(self, road: list[Station]) -> set[int]:
        """Where states may be cut in halves: below a part whose remainder is known, or as low as possible."""
        least = max(0, self._known.bits - MOST_UPPER)
        shifts = {self._known.shift + each.part.shift for each in road if isinstance(each.want, Residue)}
        return {least, *(shift for shift in shifts if shift >= least)}

    def _plans(self, road: list[Station], split: int) -> Iterator[_Plan]:
        """The plans with 2, 3 and more leads, of those near the beginning that say most."""
        leads = ((i, self._lead(station, split)) for i, station in enumerate(road))
        near = list(islice(((i, lead) for i, lead in leads if lead), NEAR))
        if any(not lead.size for _, lead in near):
            yield _Plan(near[0][0], [], 0.0)
            return
        # Sizes of one modulus differ by one: among those the first count.
        near.sort(key=lambda pair: round(4 * log2(pair[1].size)))
        best = inf
        for count in range(2, min(MOST_LEADS, len(near)) + 1):
            yield (plan := self._planned(road, split, sorted(near[:count], key=lambda pair: pair[0])))
            if plan.cpu_s > best:
                return
            best = plan.cpu_s

    def _planned(self, road: list[Station], split: int, leads: list[tuple[int, _Lead]]) -> _Plan:
        (first, reference), (last, _) = leads[0], leads[-1]
        met = {i for i, lead in leads if lead.twos <= reference.twos}
        between = [each for i, each in enumerate(road[:last]) if i > first and i not in met and each.want]
        tests = self._tests([*between, *road[last if last not in met else last + 1 :]])
        found = [_Meeting(self._known, split, [lead for _, lead in leads], tests)]
        for station in road[first + 1 : last + 1]:
            # The first word that is drawn again.
            if thrown := self._thrown(station, split):
                found.append(_Meeting(self._known, split, [reference, thrown], self._tests(road[first + 1 :])))
        said = _Said(self._known)
        for station in (*(road[i] for i in met), *tests):
            said.add(station)
        return _Plan(first, found, exp2(self._known.bits - said.bits))

    def _tests(self, road: list[Station]) -> list[Station]:
        """So many stations that few states pass all of them by chance."""
        said, taken = _Said(self._known), list[Station]()
        for station in road:
            if said.bits >= self._known.bits + SPARE_BITS:
                break
            taken.append(station)
            said.add(station)
        return taken

    def _lead(self, station: Station, split: int) -> _Lead | None:
        """What a station says of the upper half of its word, if it says something."""
        part, shift = station.part, self._known.shift + station.part.shift
        if not station.want or not part.bits or part.shift + part.bits != self._known.width:
            return None
        if isinstance(station.want, Residue) and shift != split:
            return None
        lead = _wanted(station, (1 << part.bits) - 1 if station.limit is None else station.limit)
        low, high = lead.base << shift, (lead.top + 1 << shift) - 1
        lead = _Lead(lead.at, lead.modulus, low >> split, high >> split)
        return lead if lead.size < 1 << self._known.bits - split else None

    def _thrown(self, station: Station, split: int) -> _Lead | None:
        """The same of a word that is drawn again."""
        if station.limit is None:
            return None
        want = Span(station.limit + 1, (1 << station.part.bits) - 1)
        lead = self._lead(Station(station.at, station.part, None, want), split)
        assert lead is not None
        return lead

    def _items(self, state: int, first: int, gap: int) -> Iterator[int]:
        """The items from a state of the word of station ``first``, if all draws from there on fit."""
        road = stations(self._spec, gap)
        before = list(islice(road, first + 1))
        again = self._replayed(state, before[-1], road)
        if again is not None:
            yield from items_of(self._spec, self._known, state, self._steps(before, gap, again))

    def _replayed(self, state: int, first: Station, road: Iterator[Station]) -> int | None:
        """How many words are thrown away from the first lead's on; ``None`` if a draw does not fit."""
        at, again = first.at, 0
        for station in chain([first], road):
            state, at = self._known.step.power(station.at - at)(state), station.at
            while station.limit is not None and self._cut(state, station) > station.limit:
                state, again = self._known.step(state), again + 1
            if station.want and not station.want.holds(self._cut(state, station)):
                return None
        return again

    def _cut(self, state: int, station: Station) -> int:
        return station.part.cut(state >> self._known.shift & (1 << self._known.width) - 1)

    def _steps(self, before: list[Station], gap: int, again: int) -> set[int]:
        """The steps there may be from the state of the last of the stations ``before`` to the item's."""
        spec, here = self._spec, before[-1].at + 1
        if spec.items == "ends":
            return {picks.span(spec, gap) - here + again}
        each = [chance for call in spec.calls for chance in rejections(call)]
        number = sum(station.limit is not None for station in before) + spec.skip[1] * len(each)
        more = range(most_again(number, max(each, default=0.0)) + 1)
        turn = picks.round_words(spec)
        return {-here - skip * turn - late for skip in range(spec.skip[0], spec.skip[1] + 1) for late in more}


def _wanted(station: Station, limit: int) -> _Lead:
    """What a station asks of its part."""
    want = station.want
    if isinstance(want, Residue):
        return _Lead(station.at, want.modulus, want.target, limit)
    return _Lead(station.at, 1, want.low, min(want.high, limit)) if want else _Lead(station.at, 1, 0, limit)


def _inverse(lead: _Lead) -> int:
    return pow(lead.modulus >> lead.twos, -1, 1 << 64)
