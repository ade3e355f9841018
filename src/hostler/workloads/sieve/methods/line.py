"""``line``: linear congruential generators searched item by item, without testing most items.

If items are states, the state behind a draw is a linear function of the item, modulo the generator's. The items that
fit one draw are those for which such a function falls into a window: they are a few steps apart that are known
beforehand (:mod:`rotations`), so that one walks from one that fits to the next. A draw of one in 1,000 leaves one item
in 1,000 to test by the other draws.

If not all draws have to fit, each draw walks over a block of counters and raises those of the items it fits; an item
is a candidate if its counter gets high enough. That takes a walk for each draw and alignment, but a thousandth of the
work of testing each item by each draw. The walks go on in the next block where they stopped.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import ClassVar

import numpy as np

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.generators.rules import Residue
from hostler.workloads.sieve.methods import line_kernels, picks
from hostler.workloads.sieve.methods.affine import Congruence, Map, congruence, steps_to_item
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.line_kernels import I64
from hostler.workloads.sieve.methods.picks import Single
from hostler.workloads.sieve.methods.rotations import first, gaps
from hostler.workloads.sieve.spec import Spec

MOST = 1 << 20
"""How many candidates one answer may carry; who asks has to see that chance makes fewer."""
BLOCK = 1 << 18
FAR = 1 << 62
MOST_BITS = 62
MOST_ODD_BITS = 32
MOST_WALKS = 1 << 21
HIT_S = 1.7e-9
TEST_S = 7e-9
COUNTER_S = 0.1e-9
WALK_S = 3e-8
MAKE_S = 8e-6


@dataclass(frozen=True, slots=True)
class Window:
    """The items that fit: ``offset + stride * s`` with ``factor * s + term`` modulo ``modulus`` below ``size``."""

    factor: int
    term: int
    modulus: int
    size: int
    stride: int = 1
    offset: int = 0

    @property
    def share(self) -> float:
        """The part of all items that fits."""
        return min(1.0, self.size / self.modulus) / self.stride


class Line:
    """The method."""

    name: ClassVar[str] = "line"

    def offer(self, spec: Spec) -> Offer | str:
        """As :class:`~hostler.workloads.sieve.methods.base.Method` says."""
        known = congruence(spec.generator)
        if known is None:
            return f"{spec.generator.name} is no linear congruential generator whose steps can be undone"
        if why := _refusal(spec, known):
            return why
        windows = [_windows(spec, known, turn, gap) for turn, gap in _turns(spec)]
        if spec.need < spec.known:
            return _counted(spec, windows)
        return _walked(spec, known, windows)


def _refusal(spec: Spec, known: Congruence) -> str:
    """Why it does not apply, or nothing."""
    if spec.missing:
        return "unknown numbers of outputs are missing between the draws"
    if picks.feeds(spec) or any(picks.again_chance(call) for call in spec.calls):
        return "the runtime splits words or draws again"
    if spec.items == "seeds" and spec.generator.engine.seed(1) != 1:
        return f"the seeds of {spec.generator.name} are no states: states of consecutive seeds do not lie in a line"
    if known.bits > MOST_BITS:
        return f"states of {known.bits} bits are too large; it takes {MOST_BITS}"
    if spec.known * sum(1 for _ in _turns(spec)) > MOST_WALKS:
        return f"{spec.known} draws in all alignments are more than {MOST_WALKS} walks"
    for aim in picks.aims(spec, spec.gap[0]):
        if not any(_window(known, Map(1, 0, known.step.modulus), single) for single in picks.singles(aim)):
            return f"draw {aim.draw} does not say in which range, or in which class of remainders, the state lies"
    return ""


def _turns(spec: Spec) -> Iterator[tuple[int, int]]:
    """Steps from before the pattern's first word to the item's state, and gaps, of all alignments."""
    seen = set()
    for skip, gap in spec.alignments():
        turn = (steps_to_item(spec, skip, gap), gap)
        if turn not in seen:
            seen.add(turn)
            yield turn


def _windows(spec: Spec, known: Congruence, turn: int, gap: int) -> list[Window]:
    """For each draw that is known, the items that fit the part of it that says most."""
    found: dict[int, Window] = {}
    for aim in picks.aims(spec, gap):
        for single in picks.singles(aim):
            window = _window(known, known.step.power(single.at + 1 - turn), single)
            if window and (aim.draw not in found or window.share < found[aim.draw].share):
                found[aim.draw] = window
    return list(found.values())


def _window(known: Congruence, state: Map, single: Single) -> Window | None:
    """The items for which ``state(item)`` meets a condition."""
    modulus = state.modulus
    if box := known.box(single):
        return Window(state.factor, (state.term - box[0]) % modulus, modulus, max(0, box[1] - box[0] + 1))
    want, part = single.want, single.part
    whole = known.shift == 0 and part.shift == 0 and part.bits == known.width
    if not isinstance(want, Residue) or not whole or gcd(want.modulus // gcd(want.modulus, modulus), modulus) != 1:
        return None
    # x = target + j * want.modulus, for j below the number of such x, all divided by what the moduli share.
    shared = gcd(want.modulus, modulus)
    offset = (want.target - state.term) * pow(state.factor, -1, shared) % shared
    small = modulus // shared
    inverse = pow(want.modulus // shared, -1, small)
    term = (state.factor * offset + state.term - want.target) // shared * inverse % small
    size = max(0, -((want.target - modulus) // want.modulus))
    return Window(state.factor * inverse % small, term, small, size, shared, offset)


def _counted(spec: Spec, windows: list[list[Window]]) -> Offer | str:
    walks = sum(map(len, windows))
    per_item = sum(window.share for each in windows for window in each) * HIT_S
    per_item += len(windows) * COUNTER_S + walks * WALK_S / BLOCK
    why = (
        f"the items that fit a draw are walked through and counted, {len(windows)} alignments of {spec.known} draws, "
        f"{per_item * 1e9:.3g} ns an item"
    )
    return Offer(why, walks * MAKE_S, 1 / per_item, lambda: _Counter(spec, windows))


def _walked(spec: Spec, known: Congruence, windows: list[list[Window]]) -> Offer | str:
    if known.bits > MOST_ODD_BITS and not known.power_of_two:
        return f"to test states of {known.bits} bits, the modulus must be a power of two"
    per_item = sum(min(window.share for window in each) for each in windows) * TEST_S
    apart = 1 / min(window.share for window in windows[0])
    why = f"the items that fit one draw are walked through, {apart:.3g} apart; the others are not tested"
    return Offer(why, sum(map(len, windows)) * MAKE_S, 1 / max(per_item, 1e-15), lambda: _Walker(spec, windows))


class _Counter:
    """Counts, for each item of a block, how many draws it fits."""

    def __init__(self, spec: Spec, windows: list[list[Window]]) -> None:
        self._spec, self._windows = spec, windows
        self._kernel = line_kernels.count()
        self._counts = np.zeros(BLOCK, np.uint16)
        self._beats: list[I64] = []
        self._at = -1

    def find(self, start: int, stop: int) -> list[int]:
        """The items of ``[start, stop)`` that fit as many draws as it needs, in some alignment."""
        if start != self._at:
            self._beats = [_table(map(_Beats(start), each)) for each in self._windows]
        found = set(_extra(self._spec, start, stop))
        hits = np.zeros(BLOCK, np.int64)
        for base in range(start, stop, BLOCK):
            size = min(BLOCK, stop - base)
            for beats in self._beats:
                number = self._kernel(beats, size, self._spec.need, self._counts, hits, 0)
                found.update((hits[:number] + base).tolist())
            _check(found, start, stop)
        self._at = stop
        return sorted(found)


class _Walker:
    """Walks through the items that fit one draw of each alignment, and tests them by the others."""

    def __init__(self, spec: Spec, windows: list[list[Window]]) -> None:
        self._spec = spec
        self._kernel = line_kernels.walk()
        ordered = [sorted(each, key=lambda window: window.share) for each in windows]
        self._leads = [each[0] for each in ordered]
        self._tests = [_table(map(_test, each[1:])) for each in ordered]

    def find(self, start: int, stop: int) -> list[int]:
        """The items of ``[start, stop)`` that fit all draws in some alignment."""
        found = set(_extra(self._spec, start, stop))
        hits = np.empty(MOST, np.int64)
        for lead, tests in zip(self._leads, self._tests, strict=True):
            beat = np.array(_Beats(start)(lead), np.int64)
            number = self._kernel(beat, stop - start, start, tests, hits, 0)
            if number > MOST:
                raise TooManyHits(_too_many(start, stop))
            found.update(start + hit for hit in hits[:number].tolist())
            _check(found, start, stop)
        return sorted(found)


@dataclass(frozen=True, slots=True)
class _Beats:
    """From windows to the kernels' rows, for a walk that starts at ``start``."""

    start: int

    def __call__(self, window: Window) -> list[int]:
        origin = -((window.offset - self.start) // window.stride)
        size, item = window.size, window.offset + window.stride * origin - self.start
        if size < 1:
            return [FAR, 0, 1, 0, FAR, 1, 0]
        if size >= window.modulus:
            return [item, 0, 1, 0, window.stride, 1, 0]
        place = (window.factor * origin + window.term) % window.modulus
        steps, each = first(window.factor, window.modulus, size, place), gaps(window.factor, window.modulus, size)
        item += window.stride * steps
        place = (place + window.factor * steps) % window.modulus
        # fmt: off
        return [
            item, place, size - each.up, each.up, each.up_steps * window.stride, each.down,
            each.down_steps * window.stride,
        ]
        # fmt: on


def _test(window: Window) -> list[int]:
    return [window.factor, window.term, window.modulus, window.size, window.stride, window.offset]


def _table(rows: Iterator[list[int]]) -> I64:
    made = list(rows)
    return np.array(made, np.int64).reshape(len(made), 6 if made and len(made[0]) == 6 else 7)


def _extra(spec: Spec, start: int, stop: int) -> Iterator[int]:
    """Seeds that are not their own state: the judge has to look at them."""
    if spec.items == "seeds":
        modulus = spec.generator.parameters.get("modulus", 1 << 31)
        for seed in range(0, spec.generator.seeds, modulus):
            if start <= seed < stop and spec.generator.engine.seed(seed) != seed % modulus:
                yield seed


def _check(found: set[int], start: int, stop: int) -> None:
    if len(found) > MOST:
        raise TooManyHits(_too_many(start, stop))


def _too_many(start: int, stop: int) -> str:
    return f"more than {MOST} items in [{start}, {stop}) fit; give more known draws, or ask for more of them to fit"
