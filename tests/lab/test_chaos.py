"""Self-play on rented machines that are destroyed one after the other: what was closed is not lost with them.

`LAB_CHAOS_MIN` is for how many minutes (`make chaos`: 20, real self-play of four hosts, of which one is destroyed each
minute). Without it a small loop of somebody's own is spoilt, each time as soon as something that was closed on a host
has a copy elsewhere, which shows the same ways of the games.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import shutil
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hostler.core import Core
from hostler.model.artifacts import HUB, SUFFIXES, Standing
from hostler.model.events import Entry, SegmentsLost, SegmentsMade, StageResting
from hostler.model.learning import SegmentRef
from hostler.model.work import JobState, WorkKind
from hostler.store import catalogue, open_journal
from hostler.stores.base import ObjectName
from hostler.workloads.alphazero import segments
from hostler.workloads.alphazero.shelf import numbers_of
from tests.integration.conftest import NODE, Fleet, a_fleet, command
from tests.integration.loops import STAGES, journal_of
from tests.integration.test_loop_commands import PROGRAM, own
from tests.lab import datacentre
from tests.lab.datacentre import Datacentre
from tests.lab.host import PYTHON, Host
from tests.lab.tools import until
from tests.livefolders import files_below

MINUTES = float(os.environ.get("LAB_CHAOS_MIN", "0"))
HOSTS = 4 if MINUTES else 2
EVERY_S = 60.0
DESTROYED = int(MINUTES) or 3
YOUNG_S = 5.0
"""What was closed so shortly before the end of its host may be lost, in full; else, what had no copy elsewhere."""
WANTED = 2
DRAIN_S = 1200.0
SEGMENT = re.compile(r"(?P<sha256>[0-9a-f]{64})\.segment\.npz")
NO_LAB = datacentre.missing()
HIDDEN = (
    "hosts have a /tmp of their own, in which they do not see this project" if sys.prefix.startswith("/tmp") else None
)
pytestmark = [
    pytest.mark.skipif(NO_LAB is not None, reason=NO_LAB or ""),
    pytest.mark.skipif(bool(MINUTES) and HIDDEN is not None, reason=HIDDEN or ""),
]


@dataclass
class Blow:
    """A host was destroyed then, with these segments on its disk, by when they were closed; which ones are safe."""

    host: str
    at: float
    closed: Mapping[str, float]
    safe: AbstractSet[str]


@dataclass
class Aftermath:
    """What came of it: segments that count, by SHA-256, and when; those that were told of and never came."""

    core: Core
    made: dict[str, float] = field(default_factory=dict)
    refs: dict[str, list[SegmentRef]] = field(default_factory=dict)
    """By job."""
    lost: dict[str, str] = field(default_factory=dict)
    rests: list[str] = field(default_factory=list)
    """Why stages of the loop were not gone on with."""

    def take(self, entry: Entry) -> None:
        """One more of the journal."""
        event = entry.event
        if isinstance(event, SegmentsMade):
            self.made |= {each.sha256: entry.at for each in event.segments}
            self.refs.setdefault(event.job, []).extend(event.segments)
        elif isinstance(event, SegmentsLost):
            self.lost |= {each.sha256: event.why for each in event.segments}
        elif isinstance(event, StageResting):
            self.rests.append(f"{event.stage}: {event.why}")


@pytest.fixture
def lab() -> Iterator[Datacentre]:
    with datacentre.running(*([()] * HOSTS)) as made:
        yield made


@pytest.mark.long
def test_what_was_closed_outlives_its_host(lab: Datacentre, tmp_path: Path) -> None:
    roots = {name: tmp_path / name for name in ("shelf", "attic")}
    for root in roots.values():
        root.mkdir()
    with a_fleet(tmp_path) as fleet:
        fleet.settle(**settings(lab, tmp_path, roots))
        assert command("node", "trust", "--state-dir", fleet.state, fleet.file, "--yes").status == 0
        fleet.start()
        blows = list(spoilt(lab, fleet, [fleet.state / "artifacts", *roots.values()]))
        survivors = {host.name: closed_on(host) for host in lab.hosts}
        fleet.signal(signal.SIGTERM)  # nothing new; what runs goes on to its end, and its copies are waited for
        assert fleet.controller is not None
        assert fleet.controller.wait(DRAIN_S) == 0, fleet.log()
        with journal_of(fleet) as (core, entries):
            came = Aftermath(core)
            for entry in entries:
                came.take(entry)
        print(report(blows, survivors, came))
        check_losses(blows, came)
        check_counts(came)
        check_copies(fleet, {HUB: fleet.state / "artifacts", **roots})
        if MINUTES:
            check_work(blows, came)
            check_games(fleet.state / "artifacts", came)


def settings(lab: Datacentre, folder: Path, roots: Mapping[str, Path]) -> dict[str, Any]:
    """Rented hosts, this machine for what must not be rented, and two more stores."""
    stores = [
        {"name": name, "kind": "directory", "path": str(root), "domain": name, "reserve_gb": 0.0}
        for name, root in roots.items()
    ]
    rented = lab.fleet(cpu_slots=1, canary="none", ephemeral=True, python=sys.executable if MINUTES else PYTHON)
    return {
        "name": "chaos",
        "ssh": {"config": [], "known_hosts": []},
        "nodes": [NODE, *rented],
        "stores": stores,
        "configs": [real() if MINUTES else small(folder)],
    }


def small(folder: Path) -> dict[str, Any]:
    """A loop of somebody's own, whose segments take a tenth of a second."""
    shutil.copy(PROGRAM, folder)
    (folder / ".hostlerignore").write_text("/state\n/shelf\n/attic\n*.log\n*.yaml\n")
    config = own("coins")
    for stage in STAGES:
        config[stage] |= {"command": ["{python}", PROGRAM.name, stage]}
    played = {"games": 200, "segment_games": 2, "options": {"pause_s": 0.1}}
    return {**config, "selfplay": {**config["selfplay"], **played}}


def real() -> dict[str, Any]:
    """Beacons on the largest board; its heuristic engine plays some games a second."""
    return {
        "name": "hex8_2p",
        "selfplay": {"engine": "heuristic", "games": 400, "segment_games": 4, "options": {"parallel": 4}},
        "export": {"min_games": 2000, "fresh_games": 2000, "window_games": 4000},
        "training": {"channels": 16, "blocks": 1, "batch": 128, "max_steps": 1000, "reuse": [0.01, 10]},
        "evaluation": {"simulations": 4, "groups": 8, "precision_elo": 400, "max_groups": 8},
    }


def spoilt(lab: Datacentre, fleet: Fleet, stores: Sequence[Path]) -> Iterator[Blow]:
    """Destroy one host after the other, each chosen by chance."""
    chance = random.Random(8)
    for _ in range(DESTROYED):
        host = chance.choice(lab.hosts)
        if MINUTES:
            time.sleep(EVERY_S)
        else:
            until(lambda host=host: copied(host, stores), f"a copy of what {host.name} has closed", log=fleet.log)  # type: ignore[misc]
        assert fleet.controller is not None
        assert fleet.controller.poll() is None, fleet.log()
        safe = copied(host, stores)
        host.power_off()
        at, closed = time.time(), closed_on(host)
        host.destroy()
        old = {name for name, closed_at in closed.items() if at - closed_at > YOUNG_S}
        yield Blow(host.name, at, closed, old if MINUTES else safe)


def copied(host: Host, stores: Sequence[Path]) -> set[str]:
    """The segments on a host that another store has, too."""
    paths = {name: ObjectName(name, ".segment.npz").path for name in closed_on(host)}
    return {name for name, path in paths.items() if any((store / path).exists() for store in stores)}


def closed_on(host: Host) -> dict[str, float]:
    """The segments on a host, and when they were closed."""
    found = {}
    for path in files_below(host.home):
        if (name := SEGMENT.fullmatch(path.name)) is not None:
            with contextlib.suppress(FileNotFoundError):  # cleared away since it was listed
                found[name["sha256"]] = path.stat().st_mtime
    return found


def report(blows: Sequence[Blow], survivors: Mapping[str, Mapping[str, float]], came: Aftermath) -> str:
    """What happened, each loss by its name."""
    games = sum(each.games for refs in came.refs.values() for each in refs)
    everywhere = [*(blow.closed for blow in blows), *survivors.values()]
    waits = [came.made[name] - at for closed in everywhere for name, at in closed.items() if name in came.made]
    waits = [each for each in waits if each > 0]  # what an export was given had been counted before it came there
    lines = [
        f"{len(blows)} hosts destroyed; {games} games count, in {len(came.made)} segments of {len(came.refs)} jobs",
        f"from closed to counted: {len(waits)} seen, median {statistics.median(waits or [0.0]):.2f} s, "
        f"longest {max(waits, default=0.0):.2f} s",
    ]
    for blow in blows:
        missing = {name: at for name, at in blow.closed.items() if name not in came.made}
        lines.append(f"{blow.host}: {len(blow.closed)} segments closed on it, {len(missing)} lost")
        for name, at in missing.items():
            why = came.lost.get(name, "nobody had been told of it")
            lines.append(f"  {name[:12]} closed {blow.at - at:.2f} s before the end: {why}")
    return "\n".join(lines)


def check_work(blows: Sequence[Blow], came: Aftermath) -> None:
    """There was something to lose: the loop went on all the time, and hosts were destroyed at work."""
    assert came.rests == []
    assert len([blow for blow in blows if blow.closed]) >= len(blows) / 2


def check_losses(blows: Sequence[Blow], came: Aftermath) -> None:
    """Nothing is lost but what had only just been closed, and had no copy."""
    assert any(blow.safe for blow in blows), "nothing was closed on any host that was destroyed"
    for blow in blows:
        assert blow.safe <= came.made.keys(), (blow.host, sorted(blow.safe - came.made.keys()))


def check_counts(came: Aftermath) -> None:
    """Each game of an order is in one segment, and of what is done none is missing."""
    named = Counter(each.sha256 for refs in came.refs.values() for each in refs)
    assert set(named.values()) == {1}
    for name, refs in came.refs.items():
        job = came.core.state.jobs[name]
        if job.spec.work is not WorkKind.SELFPLAY:
            continue
        numbers = sorted(number for each in refs for number in numbers_of(each.numbers or ""))
        assert len(set(numbers)) == len(numbers), name
        if job.state is JobState.DONE:
            assert numbers == list(range(order_of(job)["games"])), name


def order_of(job: Any) -> Mapping[str, Any]:
    """What a stage's job was to do."""
    order: Mapping[str, Any] = job.spec.payload.order
    return order


def check_copies(fleet: Fleet, roots: Mapping[str, Path]) -> None:
    """Of all that counts there are the wanted copies: every file is hashed again."""
    journal = open_journal(fleet.state)
    try:
        with journal.catalogue() as connection:
            known, after = [], None
            while page := catalogue.page(connection, after=after, limit=1000):
                known += page
                after = page[-1].sha256
            worth = catalogue.standings(connection, [each.sha256 for each in known])
    finally:
        journal.close()
    for each in known:
        path = ObjectName(each.sha256, SUFFIXES[each.kind]).path
        copies = sum((root / path).exists() and sha256_of(root / path) == each.sha256 for root in roots.values())
        wanted = WANTED if worth[each.sha256].standing is Standing.GAMES else 1
        assert copies >= wanted, (each, copies)


def check_games(root: Path, came: Aftermath) -> None:
    """No game was played into two segments, by what the files say themselves."""
    seeds: Counter[int] = Counter()
    for name in came.made:
        path = root / ObjectName(name, ".segment.npz").path
        seeds.update(segments.read(path.read_bytes()).game_seed.tolist())
    assert set(seeds.values()) <= {1}


def sha256_of(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
