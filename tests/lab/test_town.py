"""Controllers, their database and four hosts behind SSH, all of which die, stand still, run full and lose each other.

`TOWN_MINUTES` is for how many minutes (`make town`: 30); without it 40 s. `TOWN_SEED` plays a plan again. The plan and
its seed are printed, and whom each blow met. Then everything is well, all work has to end, and what the journal, the
hosts and the files say must be what `tests/lab/town/verdict.py` asks for.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import select

from hostler.core import Core
from hostler.model.errors import HostlerError
from hostler.model.events import JobSubmitted
from hostler.store import read_journal, tables
from hostler.store.dialect import engine_of
from tests.lab.tools import until
from tests.lab.town import town, verdict
from tests.lab.town.blows import Blows, Struck
from tests.lab.town.load import Customer, Orders
from tests.lab.town.plan import DATABASE, plan
from tests.lab.town.town import LEASE_S, Town
from tests.lab.town.verdict import Row

MINUTES = float(os.environ.get("TOWN_MINUTES", "0"))
SEED = int(os.environ.get("TOWN_SEED", "11"))
SPAN_S = MINUTES * 60 or 40.0
LONG_S = 90.0 if MINUTES else None
"""Longer than a lease (`hostler.core.leases`) of this town."""
PER_S = 2.0
REST_S = 600.0
"""Until everything is done once nothing befalls anybody any more."""
EXCUSED_S = 40.0
"""So soon after a blow to itself or to the database a controller may end that cannot start."""
NO_TOWN = town.missing()


@pytest.fixture
def place() -> Iterator[Town]:
    with town.running() as made:
        yield made


@pytest.mark.long
@pytest.mark.skipif(NO_TOWN is not None, reason=NO_TOWN or "")
def test_whatever_befalls_a_town_nothing_is_lost_or_doubled(place: Town, tmp_path: Path) -> None:
    blows = Blows(place)
    planned = plan(SEED, SPAN_S, [host.name for host in place.lab.hosts], LONG_S)
    print(f"seed {SEED}, {len(planned)} blows in {SPAN_S:g} s; again: TOWN_SEED={SEED} TOWN_MINUTES={MINUTES:g}")
    place.begin()
    customer = Customer(place, place.lab.folder, SEED, PER_S)
    with place.kept():
        with customer.at_work():
            blows.carry_out(planned)
        well_at = time.monotonic()
        until(lambda: all_done(place, customer.orders), "everything done", REST_S, lambda: story(place, blows.struck))
        rested_s = time.monotonic() - well_at
        until(lambda: nothing_held(place), "hosts that hold nothing", 60.0, lambda: story(place, blows.struck))
    rows = journal(place)
    print(report(place, blows, customer.orders, rows, rested_s))
    faults = [*judged(place, customer.orders, rows), *unexcused(place, blows.struck)]
    assert not faults, "\n".join(faults)
    for seat in place.seats.values():
        seat.leave()


def all_done(place: Town, orders: Orders) -> bool:
    """Whether the leader reaches all hosts, and everything that was confirmed is over, in the database, too."""
    if not place.all_linked():
        return False
    jobs = tables.jobs
    engine = engine_of(place.address)
    try:
        with engine.connect() as connection:
            over = set(connection.execute(select(jobs.c.id).where(jobs.c.ended_at.is_not(None))).scalars())
            left = connection.execute(select(jobs.c.id).where(jobs.c.ended_at.is_(None))).first()
    finally:
        engine.dispose()
    return left is None and orders.confirmed.keys() <= over


def nothing_held(place: Town) -> bool:
    """Whether no host has any attempt, chunk, or process of one, by the leader's word and by its own."""
    try:
        nodes = place.leader.client.nodes()
    except (HostlerError, OSError):
        return False
    told = any(device["attempts"] or device["chunks"] for node in nodes for device in node["devices"])
    return not told and not any(host.processes("task.py") for host in place.lab.hosts)


def journal(place: Town) -> list[Row]:
    """All of it, with the epochs."""
    kept, engine = read_journal(place.address), engine_of(place.address)
    try:
        table = tables.journal
        with engine.connect() as connection:
            epochs = {row.seq: row.epoch for row in connection.execute(select(table.c.seq, table.c.epoch))}
        return [Row(entry, epochs[entry.seq]) for entry in kept.read()]
    finally:
        kept.close()
        engine.dispose()


def judged(place: Town, orders: Orders, rows: Sequence[Row]) -> Iterator[str]:
    """Every fault."""
    yield from verdict.writers(rows)
    entries = [row.entry for row in rows]
    core = Core()
    core.replay(entries)
    core.validate()
    named = {order.name: order for order in (*orders.confirmed.values(), *orders.unsure)}
    submitted = (entry.event for entry in entries if isinstance(entry.event, JobSubmitted))
    asked = {event.job: named[event.spec.name] for event in submitted}
    yield from verdict.acceptances(entries, orders)
    yield from verdict.results(entries)
    yield from verdict.ledgers(entries, asked, hits_of(place, [job for job, order in asked.items() if order.stop]))
    yield from verdict.files(entries, asked, [seat.state / "results" for seat in place.seats.values()])
    notes = [note for host in place.lab.hosts for note in verdict.notes_of(host.home / "notes", host.name)]
    yield from verdict.executions(notes, entries, LEASE_S)


def hits_of(place: Town, sweeps: Sequence[str]) -> dict[str, list[int]]:
    """What was found, by job."""
    kept = read_journal(place.address)
    try:
        return {job: [hit.at for hit in kept.hits(job, 0, 1000)] for job in sweeps}
    finally:
        kept.close()


def unexcused(place: Town, struck: Sequence[Struck]) -> Iterator[str]:
    """Controllers that ended by themselves, though nothing kept them from starting."""
    # One that starts, or goes back to waiting, needs its database and room in its state directory, and says what lacks.
    for each in (one for seat in place.seats.values() for one in seat.exits):
        hit = [blow for blow in struck if blow.began <= each.at <= blow.ended + EXCUSED_S]
        meant = {DATABASE, each.name}
        if not each.last_words.startswith("hostler: error:") or not any(blow.whom in meant for blow in hit):
            yield f"controller {each.name} ended with {each.status} after {each.ran_s:.1f} s: {each.said}"


def report(place: Town, blows: Blows, orders: Orders, rows: Sequence[Row], rested_s: float) -> str:
    """What happened, in numbers."""
    notes = [note for host in place.lab.hosts for note in verdict.notes_of(host.home / "notes", host.name)]
    kinds = Counter(f"{each.blow.kind} {each.blow.how or each.blow.far or ''}".strip() for each in blows.struck)
    exits = [one for seat in place.seats.values() for one in seat.exits]
    lines = [
        *map(str, sorted(blows.struck, key=lambda each: each.began)),
        f"{len(blows.struck)} blows struck, {len(blows.passed_over)} passed over: {dict(sorted(kinds.items()))}",
        f"{max(row.epoch or 0 for row in rows)} epochs, {len(rows)} entries; {len(exits)} exits of controllers",
        *(f"exit: {each}" for each in exits),
        f"{len(orders.confirmed)} jobs confirmed, {len(orders.unsure)} unsure, {len(orders.refused)} refusals",
        f"{Counter(each.split(':')[0] for each in orders.refused)}",
        f"{len(notes)} scripts begun, {sum(not note.ended for note in notes)} of them cut short, "
        f"{len(list(verdict.overlaps(notes)))} at the same time as another of their job",
        f"all done {rested_s:.1f} s after the last blow",
    ]
    return "\n".join(lines)


def story(place: Town, struck: Sequence[Struck]) -> str:
    """For somebody who wants to know why it did not work."""
    said = [str(each) for each in struck[-20:]]
    for seat in place.seats.values():
        try:
            said += [f"{seat.name}: {seat.client.status()}", *map(str, seat.client.nodes())]
            said += [str(job) for job in seat.client.all_jobs() if job["state"] not in ("done",)]
        except (HostlerError, OSError) as error:
            said.append(f"{seat.name}: {error}")
    return "\n".join([*said, place.log()])
