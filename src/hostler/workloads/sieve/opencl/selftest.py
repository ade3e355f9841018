"""Whether a device computes what the oracle does: asked of it before it is trusted with a search.

The program of a question is given other tables: one that wants what the oracle makes of a planted seed, and some that
want one pick to be among a quarter or a sixth of all values, so that as many seeds have to be found, and no others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hostler.workloads.sieve.generators.base import stream
from hostler.workloads.sieve.generators.rules import Residue, Rule, Span, Want, Words
from hostler.workloads.sieve.opencl.devices import Device, DeviceFailed
from hostler.workloads.sieve.opencl.launch import Launcher, Ranges
from hostler.workloads.sieve.opencl.table import Table, row
from hostler.workloads.sieve.opencl.tuning import Setting
from hostler.workloads.sieve.spec import SEEDS, Spec

NUMBER = 1024
SECONDS = 0.2
PICKS = 3
AROUND = 100
MOST_SKIPPED = 64

Clock = Callable[[], float]
"""Counts the seconds that the oracle is given for an interval."""


def check(device: Device, launcher: Launcher, table: Table, spec: Spec, clock: Clock) -> None:
    """Raise :class:`DeviceFailed` unless the program finds what the oracle finds, in a few intervals."""
    setting = Setting(min(16, launcher.most_local), 3)
    for start, stop in _intervals(spec.size):
        picked = _picked(spec, table, range(start, stop), clock)
        for at in range(_compared(table)):
            wanted = _wanted(table.picks[at].rule, at)
            rows = launcher.rows(table, (0, 0, 0, 0), _only(table, at, wanted))
            # With missing outputs the pick may be that of a later one.
            later = range(at, at + table.shape.missing * len(table.blank) + 1, len(table.blank))
            expected = [start + i for i, v in enumerate(picked) if any(wanted.holds(v[place]) for place in later)]
            _, found = launcher.launch(rows, start, len(picked), setting)
            if found != expected:
                raise DeviceFailed(_differing(device, spec, expected, found))
    _plant(device, launcher, table, spec, setting)


def _intervals(seeds: int) -> list[tuple[int, int]]:
    """The first seeds, those around 2^32, and the last ones."""
    starts = {0, max(0, seeds - NUMBER // 4)}
    if seeds > (1 << 32) + NUMBER:
        starts.add((1 << 32) - 16)
    return [(start, min(seeds, start + (NUMBER // 4 if start else NUMBER))) for start in sorted(starts)]


def _compared(table: Table) -> int:
    return 1 if table.shape.missing else min(PICKS, len(table.picks))


def _picked(spec: Spec, table: Table, seeds: range, clock: Clock) -> list[list[int]]:
    """The first values that each seed picks, for as many seeds as there is time for, and 32 at least."""
    rules = [pick.rule for pick in table.picks[: _compared(table)]]
    if table.shape.missing:
        rules = [pick.rule for pick in table.blank] * (1 + table.shape.missing)
    until = clock() + SECONDS
    made: list[list[int]] = []
    for seed in seeds:
        if len(made) >= 32 and clock() > until:
            break
        words = _words(spec, seed)
        made.append([rule.pick(words) for rule in rules])
    return made


def _wanted(rule: Rule, at: int) -> Want:
    """A quarter of a pick's values; or a residue, which is tested in another way."""
    return Residue(6, 1) if at % 2 and rule.bits > 2 else Span(0, max(0, (1 << rule.bits) // 4 - 1))


def _only(table: Table, at: int, wanted: Want) -> list[list[int]]:
    """The rows that want nothing but this of the pick at a place."""
    end = len(table.blank) if table.shape.missing else at + 1
    picks = [replace(pick, want=None, known=False, last=False, least=0) for pick in table.picks[:end]]
    picks[at] = replace(picks[at], want=wanted)
    picks[-1] = replace(picks[-1], known=True, last=True, least=1)
    return [row(table.shape, pick) for pick in (*table.blank, *picks)]


def _plant(device: Device, launcher: Launcher, table: Table, spec: Spec, setting: Setting) -> None:
    """Search for a seed by what the oracle makes of it, in the pattern of the question's own draws."""
    seed = spec.size * 5 // 8 + min(spec.size // 16, 1234)
    skip, gap = min(spec.skip[0], MOST_SKIPPED), spec.gap[0]
    wants = iter(_planted(spec, table, seed, skip, gap))
    picks = [replace(pick, want=want if pick.want else None) for pick, want in zip(table.picks, wants, strict=True)]
    ranges: Ranges = (skip, skip, gap, gap)
    rows = launcher.rows(table, ranges, [row(table.shape, pick) for pick in (*table.blank, *picks)])
    start, stop = max(0, seed - AROUND), min(spec.size, seed + AROUND)
    _, found = launcher.launch(rows, start, stop - start, setting)
    if seed not in found:
        raise DeviceFailed(_differing(device, spec, [seed], found))


def _planted(spec: Spec, table: Table, seed: int, skip: int, gap: int) -> list[Want]:
    """What the picks of the draws would have to be for this seed."""
    words = _words(spec, seed)
    for _ in range(skip):
        for call in spec.calls:
            call.take(words)
    wants: list[Want] = []
    for i in range(table.draws):
        call = spec.call(i)
        for _ in range(gap):
            call.take(words)
        found = zip(call.rules(), call.wants(call.take(words)), strict=True)
        wants += [want for rule, want in found if rule.words]
    return wants


def _words(spec: Spec, item: int) -> Words:
    """The words that the outputs after an item are made of."""
    engine = spec.generator.engine
    return spec.calls[0].feed(stream(engine, engine.seed(item) if spec.items == SEEDS else item))


def _differing(device: Device, spec: Spec, expected: list[int], found: list[int]) -> str:
    wrong = min(set(expected) ^ set(found))
    verb = "misses" if wrong in expected else "finds"
    return (
        f"{device} computes wrongly: with {spec.generator.name} it {verb} seed {wrong}, unlike the oracle; "
        "the device or its driver is broken, or the programs are; search on another one"
    )
