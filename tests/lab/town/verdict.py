"""What must hold of a town once all is done: from the journal in the database, the notes on the hosts, and the files.

Each function takes what it judges, and tells faults in words; nothing of the controllers that took part is asked.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

from hostler.model.events import (
    AttemptEnded,
    AttemptLeased,
    AttemptLost,
    ControllerStarted,
    Entry,
    FilesFetched,
    JobDone,
    JobSubmitted,
    NodeLinked,
    NodeUnreachable,
    subject,
)
from hostler.model.files import FileRef
from hostler.runtime.proof import proof_of
from tests.lab.town.load import Order, Orders
from tests.lab.town.task import content


@dataclass(frozen=True)
class Row:
    """An entry, and the epoch that stands beside it."""

    entry: Entry
    epoch: int | None


@dataclass(frozen=True)
class Note:
    """What a script has noted on its host: from when until when it ran for certain, by the clock that all share."""

    host: str
    job: str
    """Its name."""
    attempt: str
    began: float
    alive: float
    ended: bool


def writers(rows: Sequence[Row]) -> Iterator[str]:
    """Numbers without a gap; epochs that never fall; each begun by its own controller."""
    for at, row in enumerate(rows, 1):
        if row.entry.seq != at:
            yield f"entry {row.entry.seq} stands where {at} should"
            return
    for before, after in pairwise(rows):
        if before.epoch is None or after.epoch is None or after.epoch < before.epoch:
            yield f"entry {after.entry.seq} is of epoch {after.epoch}, after one of {before.epoch}"
    for row in rows:
        if isinstance(row.entry.event, ControllerStarted) and row.entry.event.epoch != row.epoch:
            yield f"controller {row.entry.event.epoch} begins in entry {row.entry.seq}, of epoch {row.epoch}"


def acceptances(entries: Sequence[Entry], orders: Orders) -> Iterator[str]:
    """Everything that was confirmed is there and done once; what was not confirmed is there once at most."""
    submitted = {entry.event.job: entry.event for entry in entries if isinstance(entry.event, JobSubmitted)}
    done = Counter(entry.event.job for entry in entries if isinstance(entry.event, JobDone))
    named = Counter(event.spec.name for event in submitted.values())
    for job, order in orders.confirmed.items():
        if job not in submitted or submitted[job].spec.name != order.name:
            yield f"{order.name} was confirmed as {job}, which is {submitted.get(job)}"
        if done[job] != 1:
            yield f"{order.name} ({job}) was done {done[job]} times"
    yield from (f"{name} was submitted {times} times" for name, times in named.items() if times > 1)
    yield from (f"{job} was done {times} times" for job, times in done.items() if times > 1)
    asked = {order.name for order in (*orders.confirmed.values(), *orders.unsure)}
    yield from (f"{name} was never asked for" for name in named if name not in asked)
    yield from (f"{submitted[job].spec.name} ({job}) is not done" for job in submitted if not done[job])


def results(entries: Sequence[Entry]) -> Iterator[str]:
    """Each script's accepted result is its own, and of an attempt that ended."""
    names = {entry.event.job: entry.event.spec.name for entry in entries if isinstance(entry.event, JobSubmitted)}
    ended = {entry.event.attempt for entry in entries if isinstance(entry.event, AttemptEnded)}
    for entry in entries:
        event = entry.event
        if not isinstance(event, JobDone) or event.attempt is None:
            continue
        if event.result != names[event.job]:
            yield f"{names[event.job]} has the result {event.result!r}"
        if event.attempt not in ended:
            yield f"{event.attempt} was accepted, and has not ended"


def ledgers(entries: Sequence[Entry], orders: Mapping[str, Order], hits: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Each sweep complete and disjoint, each planted hit found once; `orders` and `hits` by job."""
    stories: dict[str | None, list[Entry]] = defaultdict(list)
    for entry in entries:
        stories[subject(entry.event)].append(entry)
    for job, order in orders.items():
        if not order.stop:
            continue
        proof = proof_of(job, (0, order.stop), stories[job])
        if (proof.fault, proof.done, proof.complete) != (None, order.stop, True):
            yield f"{order.name} ({job}): {proof}"
        if sorted(hits[job]) != list(order.planted):
            yield f"{order.name} ({job}): hits {sorted(hits[job])}, planted {list(order.planted)}"


def files(entries: Sequence[Entry], orders: Mapping[str, Order], places: Sequence[Path]) -> Iterator[str]:
    """Every file of an accepted attempt is right, and lies with a controller (`places`: folders of results)."""
    fetched = {entry.event.attempt: entry.event for entry in entries if isinstance(entry.event, FilesFetched)}
    accepted = {entry.event.job: entry.event.attempt for entry in entries if isinstance(entry.event, JobDone)}
    for job, order in orders.items():
        attempt = accepted.get(job)
        if not order.files or attempt is None:
            continue
        told = fetched[attempt].files if attempt in fetched else ()
        right = {f"out/{at}.bin": _hash(content(order.name, at)) for at in range(order.files)}
        if (said := {each.path.removeprefix(f"{attempt}/"): each.sha256 for each in told}) != right:
            yield f"{order.name} ({attempt}) left {said}, and should have left {right}"
        yield from (f"{each.path} of {order.name} lies nowhere" for each in told if not _lies(each, places))


def executions(notes: Sequence[Note], rows: Iterable[Entry], lease_s: float) -> Iterator[str]:
    """No attempt ran twice; two of one job at the same time only where the first's host was out of reach too long."""
    yield from (f"{name} ran {times} times" for name, times in Counter(n.attempt for n in notes).items() if times > 1)
    entries = list(rows)
    leased = {entry.event.attempt for entry in entries if isinstance(entry.event, AttemptLeased)}
    yield from (
        f"{note.attempt} ran on {note.host}, and nobody said so" for note in notes if note.attempt not in leased
    )
    for first, second in overlaps(notes):
        if not _given_up(first, entries, lease_s):
            yield f"{first} and {second} ran at the same time, and the first was not out of reach for {lease_s:g} s"


def overlaps(notes: Sequence[Note]) -> Iterator[tuple[Note, Note]]:
    """Attempts of one job that ran at the same time, the earlier first."""
    by_job: dict[str, list[Note]] = defaultdict(list)
    for note in sorted(notes, key=lambda note: note.began):
        by_job[note.job].append(note)
    for ran in by_job.values():
        yield from ((one, two) for one, two in combinations(ran, 2) if two.began < one.alive)


def notes_of(folder: Path, host: str) -> list[Note]:
    """What scripts have noted in a folder of a host; those that were ended before their first word ran no time."""
    found = []
    for path in sorted(folder.glob("*")):
        said = path.read_text().strip()
        if said:
            found.append(Note(host=host, **json.loads(said)))
    return found


def _given_up(note: Note, entries: Sequence[Entry], lease_s: float) -> bool:
    """Whether the journal says that it was lost with its host out of reach for longer than its lease."""
    away_since: float | None = None
    for entry in entries:
        event = entry.event
        if isinstance(event, NodeUnreachable) and event.node == note.host:
            away_since = entry.at if away_since is None else away_since
        elif isinstance(event, NodeLinked) and event.node == note.host:
            away_since = None
        elif isinstance(event, AttemptLost) and event.attempt == note.attempt:
            return away_since is not None and entry.at - away_since >= lease_s
    return False


def _lies(ref: FileRef, places: Sequence[Path]) -> bool:
    return any(
        path.is_file() and _hash(path.read_bytes()) == ref.sha256 for path in (root / ref.path for root in places)
    )


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
