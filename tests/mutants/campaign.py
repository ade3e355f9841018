"""All mutants of one run: which there are, what became of each, and what is printed of it."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import cycle, repeat
from pathlib import Path
from queue import SimpleQueue

from hostler.model.record import record
from tests.mutants.drawing import GROUPS, drawn, mutated
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.places import NotThere, replaced
from tests.mutants.planted import PLANTED
from tests.mutants.playing import Copy, Outcome, Unplayable, Verdict, outcome
from tests.mutants.reaching import WHOLE_S, Reach, measured

KEPT = Path("build/mutants.json")
"""What became of each in the last run."""
PATIENCE = 5
"""How many times as long as without a mutant tests are waited for,"""
START_S = 300
"""and how much longer: a test fails by itself when it has waited in vain (`tests/patience.py`)."""


class Unfit(Exception):
    """The campaign cannot be played: a mutant does not fit the code, or tests fail without one."""


@record
class Mutant:
    """A mutant that is to be played."""

    name: str
    kind: str
    file: str
    source: str
    tests: Sequence[str]
    patience_s: float


class Campaign:
    """Mutants of both sorts."""

    def __init__(self, root: Path, *, drawn: int, seed: int, only: str, group: str, again: bool) -> None:
        self._root = root
        self._drawn = drawn
        self._seed = seed
        self._only = only
        self._group = group
        self._survivors = frozenset(_survivors(root / KEPT)) if again else None

    def show(self) -> None:
        """Print all. Raises `Unfit`."""
        for planted in PLANTED:
            if self._is_asked(planted.name):
                self._planted_source(planted.name)
                print(f"{planted.kind:20} {planted.name}")
        for each in drawn(self._root, self._drawn, self._seed):
            if self._is_asked(each.name, each.group):
                print(f"{each.group:20} {each.name}")

    def play(self, jobs: int) -> int:
        """Play all; how many survive that may not. Raises `Unfit`."""
        print(f"mutants: {len(PLANTED)} planted, {self._drawn} drawn by the seed {self._seed}")
        with tempfile.TemporaryDirectory(prefix="hostler-mutants-") as scratch:
            copies = [Copy(self._root, Path(scratch) / f"copy{number}") for number in range(jobs)]
            try:
                mutants = [*self._planted(copies), *self._drawn_ones(copies, Path(scratch))]
                found = dict(_play_all(mutants, copies))
            except Unplayable as error:
                raise Unfit(str(error)) from error
        kept = self._root / KEPT
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps({name: each.verdict for name, each in found.items()}, indent=1))
        surviving = sorted(name for name, each in found.items() if each.verdict is not Verdict.KILLED)
        listed = {(each.file, f"{each.before} -> {each.after}") for each in EQUIVALENT}
        unlisted = [name for name in surviving if (name.partition(":")[0], name.partition(": ")[2]) not in listed]
        print(f"mutants: of {len(found)}, {len(found) - len(surviving)} killed, {len(surviving)} survive or hang,")
        print(f"mutants: {len(surviving) - len(unlisted)} of these are listed as equivalent")
        for name in unlisted:
            print(f"survives: {name}")
        return len(unlisted)

    def _planted(self, copies: Sequence[Copy]) -> Iterable[Mutant]:
        wanted = [each for each in PLANTED if self._is_asked(each.name)]
        sources = {each.name: self._planted_source(each.name) for each in wanted}
        selections = list(dict.fromkeys(tuple(each.tests) for each in wanted))
        with ThreadPoolExecutor(len(copies)) as pool:
            seconds = dict(zip(selections, pool.map(_passing_s, cycle(copies), selections), strict=True))
        for each in wanted:
            yield Mutant(
                name=each.name,
                kind=each.kind,
                file=each.place.file,
                source=sources[each.name],
                tests=each.tests,
                patience_s=_patience_s(seconds[tuple(each.tests)]),
            )

    def _drawn_ones(self, copies: Sequence[Copy], scratch: Path) -> Iterable[Mutant]:
        chosen = [each for each in drawn(self._root, self._drawn, self._seed) if self._is_asked(each.name, each.group)]
        groups = [name for name in GROUPS if any(each.group == name for each in chosen)]
        with ThreadPoolExecutor(len(copies)) as pool:
            found = pool.map(_reach, cycle(copies), groups, repeat(scratch))
            reach = dict(zip(groups, found, strict=True))
        for each in chosen:
            own = reach[each.group]
            yield Mutant(
                name=each.name,
                kind=each.group,
                file=each.file,
                source=mutated(self._root, each),
                tests=own.of(each.file, each.line),
                patience_s=_patience_s(own.seconds),
            )

    def _planted_source(self, name: str) -> str:
        planted = next(each for each in PLANTED if each.name == name)
        try:
            return replaced(self._root, planted.place, planted.new)
        except NotThere as error:
            raise Unfit(f"{name} does not fit the code: {error}") from error

    def _is_asked(self, name: str, group: str = "") -> bool:
        if self._group and group != self._group:
            return False
        return self._only in name and (self._survivors is None or name in self._survivors)


def _passing_s(copy: Copy, tests: Sequence[str]) -> float:
    """How long tests take without a mutant. Raises `Unplayable` where one fails."""
    began_at = time.monotonic()
    found = outcome(copy.root, tests, WHOLE_S)
    if found.verdict is not Verdict.SURVIVES:
        raise Unplayable(f"without a mutant {found.by or 'a test'} does not pass:\n{found.said}")
    return time.monotonic() - began_at


def _reach(copy: Copy, group: str, scratch: Path) -> Reach:
    found = measured(copy.root, GROUPS[group], scratch / group.replace(" ", "-"))
    print(f"mutants: tests of {group} pass without a mutant, in {found.seconds:.0f} s", flush=True)
    return found


def _patience_s(seconds: float) -> float:
    return PATIENCE * seconds + START_S


def _play_all(mutants: Sequence[Mutant], copies: Sequence[Copy]) -> Iterable[tuple[str, Outcome]]:
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def play(mutant: Mutant) -> Outcome:
        if not mutant.tests:
            return Outcome(verdict=Verdict.SURVIVES, by="no test reaches it")
        copy = free.get()
        try:
            return copy.play(mutant.file, mutant.source, mutant.tests, mutant.patience_s)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        waited = {pool.submit(play, each): each for each in mutants}
        for number, done in enumerate(as_completed(waited), 1):
            mutant = waited[done]
            try:
                found = done.result()
            except Unplayable:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            print(f"{number:4} {found.verdict:9} {mutant.kind:18} {mutant.name}  {found.by}", flush=True)
            yield mutant.name, found


def _survivors(kept: Path) -> list[str]:
    try:
        return [name for name, verdict in json.loads(kept.read_text()).items() if verdict != Verdict.KILLED]
    except FileNotFoundError:
        print("mutants: no run is kept; all are played", file=sys.stderr)
        return []
