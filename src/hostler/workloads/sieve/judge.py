"""The judge: whether an item makes the draws, by the plain oracle alone; in which alignment, and what comes next.

Whatever found a candidate, however fast and by whatever mathematics: what is told as a survivor has been replayed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as counter, islice
from typing import Any

from hostler.workloads.sieve.generators.base import Output, stream
from hostler.workloads.sieve.spec import ENDS, SEEDS, Spec

NEXT = 5
"""How many draws are foretold."""
SLACK = 64
"""Where words are drawn again: so many more words are tried than five times the fewest that the draws can take."""


@dataclass(frozen=True, slots=True)
class Survivor:
    """An item that makes the draws.

    ``fitting`` known draws fit in its best alignment, ``skip`` and ``gap``: the one with most, the first of equals.
    ``dropped`` are the outputs missing before each draw, where some may be. ``following`` are the next draws, as
    people write them, in the same alignment with nothing missing.
    """

    item: int
    fitting: int
    skip: int
    gap: int
    dropped: tuple[int, ...] | None
    following: tuple[object, ...]


def judge(spec: Spec, item: int, count: int = NEXT) -> Survivor | None:
    """The survivor that ``item`` is, with the next ``count`` draws; ``None`` if it does not make the draws."""
    if spec.items == ENDS:
        return _from_the_end(spec, item, count)
    made = _Outputs(spec, spec.generator.engine.seed(item) if spec.items == SEEDS else item)
    return _with_missing(spec, item, made, count) if spec.missing else _aligned(spec, item, made, count)


# ---- alignments ---------------------------------------------------------------------------------------------------


def _aligned(spec: Spec, item: int, made: _Outputs, count: int) -> Survivor | None:
    best: tuple[int, int, int] | None = None
    for skip, gap in spec.alignments():
        fitting = _fitting(spec, made, skip, gap)
        if fitting >= spec.need and (best is None or fitting > best[0]):
            best = fitting, skip, gap
    if best is None:
        return None
    fitting, skip, gap = best
    following = _shown(spec, made, _places(spec, skip, gap, len(spec.draws), count))
    return Survivor(item, fitting, skip, gap, None, following)


def _fitting(spec: Spec, made: _Outputs, skip: int, gap: int) -> int:
    """How many known draws fit; less than needed as soon as they cannot be enough any more."""
    fitting, spare = 0, spec.known - spec.need
    for place, draw in zip(_places(spec, skip, gap, 0, len(spec.draws)), spec.draws, strict=True):
        if draw is None:
            continue
        if made[place] == draw:
            fitting += 1
        elif (spare := spare - 1) < 0:
            return -1
    return fitting


def _places(spec: Spec, skip: int, gap: int, first: int, count: int) -> Sequence[int]:
    """The numbers of the outputs that ``count`` draws from draw ``first`` on are."""
    begun = skip * len(spec.calls) + gap
    return range(begun + first * (gap + 1), begun + (first + count) * (gap + 1), gap + 1)


class _Outputs:
    """The outputs after a state, by number, made as far as they are asked for."""

    def __init__(self, spec: Spec, state: Any) -> None:
        words = spec.calls[0].feed(stream(spec.generator.engine, state))
        self._rest = _outputs(spec.calls, words)
        self._made: list[int] = []

    def __getitem__(self, number: int) -> int:
        self._made.extend(islice(self._rest, max(0, number + 1 - len(self._made))))
        return self._made[number]


def _outputs(calls: Sequence[Output], words: Iterator[int]) -> Iterator[int]:
    while True:
        for call in calls:
            yield call.take(words)


def _shown(spec: Spec, made: _Outputs, places: Sequence[int]) -> tuple[object, ...]:
    """Outputs of these numbers as people write them, the first of them after the last draw."""
    return tuple(spec.call(len(spec.draws) + i).show(made[place]) for i, place in enumerate(places))


# ---- missing outputs ----------------------------------------------------------------------------------------------


def _with_missing(spec: Spec, item: int, made: _Outputs, count: int) -> Survivor | None:
    """The way through the outputs that drops the fewest, by the first alignment that has one."""
    for skip, gap in spec.alignments():
        if (dropped := _fewest_dropped(spec, made, skip, gap)) is not None:
            places = _places(spec, skip + sum(dropped), gap, len(spec.draws), count)
            return Survivor(item, spec.known, skip, gap, dropped, _shown(spec, made, places))
    return None


def _fewest_dropped(spec: Spec, made: _Outputs, skip: int, gap: int) -> tuple[int, ...] | None:
    """How many outputs are missing before each draw; ``None`` if no way fits."""
    ways: dict[int, tuple[int, tuple[Any, ...] | None]] = {0: (0, None)}  # dropped so far -> (last drop, way before)
    for i, draw in enumerate(spec.draws):
        after: dict[int, tuple[int, tuple[Any, ...] | None]] = {}
        for dropped in sorted(ways):
            for more in range(spec.missing + 1):
                place = skip + gap + i * (gap + 1) + dropped + more
                if dropped + more not in after and (draw is None or made[place] == draw):
                    after[dropped + more] = more, ways[dropped]
        if not after:
            return None
        ways = after
    return _unwound(ways[min(ways)])


def _unwound(way: tuple[int, tuple[Any, ...] | None]) -> tuple[int, ...]:
    drops: list[int] = []
    last: tuple[Any, ...] | None = way
    while last is not None:
        drops.append(last[0])
        last = last[1]
    return tuple(drops[-2::-1])


# ---- backwards ----------------------------------------------------------------------------------------------------


def _from_the_end(spec: Spec, item: int, count: int) -> Survivor | None:
    best: tuple[int, int] | None = None
    for _, gap in spec.alignments():
        fitting = _fitting_before(spec, item, gap)
        if fitting is not None and (best is None or fitting > best[0]):
            best = fitting, gap
    if best is None:
        return None
    fitting, gap = best
    following = _shown(spec, _Outputs(spec, item), _places(spec, 0, gap, 0, count))
    return Survivor(item, fitting, 0, gap, None, following)


def _fitting_before(spec: Spec, item: int, gap: int) -> int | None:
    """How many draws fit that are made before the state ``item`` and end there; ``None`` if too few do.

    Where words are drawn again, nobody knows how many words the draws took: each number is tried.
    """
    engine, outputs = spec.generator.engine, (len(spec.draws) - 1) * (gap + 1) + 1
    assert engine.back is not None  # the parameters were checked
    rules = [rule for i in range(outputs) for rule in spec.call(i).rules()]
    least = sum(rule.words for rule in rules)
    most = least + (SLACK + 4 * least if any(rule.rejects for rule in rules) else 0)
    state = item
    for words in range(1, most + 1):
        state = engine.back(state)
        if words >= least and (fitting := _fitting_within(spec, state, gap, words)) is not None:
            return fitting
    return None


def _fitting_within(spec: Spec, state: Any, gap: int, words: int) -> int | None:
    """How many draws fit after ``state``, if enough do and they take exactly so many words."""
    taken = counter(1)
    counted = (word for word, _ in zip(stream(spec.generator.engine, state), taken, strict=False))
    made, fitting, spare = _outputs(spec.calls, counted), 0, spec.known - spec.need
    for i, draw in enumerate(spec.draws):
        value = next(made if i == 0 else islice(made, gap, None))
        fitting += draw is not None and value == draw
        spare -= draw is not None and value != draw
        if spare < 0:
            return None
    return fitting if next(taken) == words + 1 else None
