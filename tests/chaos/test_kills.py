"""Real processes, killed at random moments, again and again: nothing is lost and nothing counts twice.

`make test` kills one process of each kind, `make test-long` `KILLS` of each. `CHAOS_KILLS` is another number of them;
`make campaign` sets it to 100. `make hostile` kills for 30 minutes (`HOSTILE_MIN`) beside a node that lies.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
import yaml

from hostler.model.events import Entry, JobDone
from hostler.model.work import JobState
from hostler.runtime.proof import proof_of
from hostler.runtime.snapshots import recovered
from hostler.runtime.statedir import StateDir
from hostler.store import open_journal
from tests.patience import PATIENCE_S

KILLS = int(os.environ.get("CHAOS_KILLS", "8"))
HOSTILE_MIN = float(os.environ.get("HOSTILE_MIN", "0.5"))
PER_S = 4000.0
SLOW_PER_S = 1000.0
STOP = 10_000_000
"""Items of the sweep: at that speed twenty minutes of both devices, so that it is never over before the last kill."""
EARLY = 4000
"""Items that are searched within the first second."""
PAUSE_S = 0.9
"""Kills come at random moments within so long after something has happened."""
AT_ONCE = 0.3
"""The share of kills that do not wait for anything to happen: they meet whatever is being started."""
WORKER = Path(__file__).with_name("worker.py")
HOSTILE = Path(__file__).parents[1] / "integration" / "hostile" / "node.py"

Victims = Callable[["Ground"], Sequence[psutil.Process]]


class Ground:
    """One fleet file, one state directory, and everything that runs for them.

    The sweep is not over before `finish`: what is killed is killed at work, however slow this machine is.
    """

    def __init__(self, path: Path, rng: random.Random, scripts: int, per_s: float = PER_S) -> None:
        self.path = path
        self.per_s = per_s
        self.state = path / "state"
        self.scripts = scripts
        self.gate = path / "gate"
        self.planted = sorted({*rng.sample(range(EARLY), 5), *rng.sample(range(STOP), 15)})
        self.fleet = path / "fleet.yaml"
        self.fleet.write_text(yaml.safe_dump(self._settings()))
        self.controller: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "hostler", "up", "--until-idle", "--state-dir", self.state, "--port", "0"]
        with (self.path / "up.log").open("ab") as log:
            self.controller = subprocess.Popen(
                [*command, self.fleet], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )

    def finish(self) -> None:
        """Let the sweep come to its end, and the controller with it."""
        assert self.controller is not None
        assert self.controller.poll() is None, f"it ended by itself: {self.log()}"
        self.gate.touch()
        assert self.controller.wait(5 * PATIENCE_S) == 0, self.log()

    def entries(self) -> int:
        """How many entries the journal has."""
        file = self.state / "journal.sqlite"
        if not file.exists():
            return 0
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as journal:
            try:
                return int(journal.execute("SELECT coalesce(max(seq), 0) FROM journal").fetchone()[0])
            except sqlite3.OperationalError:  # its tables are being made
                return 0

    def chunks(self) -> int:
        """How many entries tell of a chunk that was finished."""
        if not self.entries():
            return 0
        with contextlib.closing(sqlite3.connect(f"file:{self.state}/journal.sqlite?mode=ro", uri=True)) as journal:
            asked = "SELECT count(*) FROM journal WHERE json_extract(data, '$.kind') = 'chunk.done'"
            return int(journal.execute(asked).fetchone()[0])

    def ended(self) -> bool:
        return self.controller is not None and self.controller.poll() is not None

    def processes(self) -> list[psutil.Process]:
        """Everything that was started for this state directory, the controller excepted."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.state) in " ".join(process.cmdline()) or self._is_child(process):
                    found.append(process)
        return [process for process in found if self.controller is None or process.pid != self.controller.pid]

    def log(self) -> str:
        return (self.path / "up.log").read_text(errors="replace")[-3000:]

    def _is_child(self, process: psutil.Process) -> bool:
        return process.environ().get("HOSTLER_ATTEMPT_DIR", "").startswith(str(self.state)) or (
            str(WORKER) in process.cmdline() and process.environ().get("GROUND") == str(self.path)
        )

    def _settings(self) -> dict[str, object]:
        return {
            "nodes": [
                {"name": "here", "cpu_slots": 2, "env": {"GROUND": str(self.path)}},
                {"name": "evil", "backend": "dialin", "cpu_slots": 2, "dir": str(self.path / "evil"), "canary": "none"},
            ],
            "dialin": {"listen": "127.0.0.1:0"},
            "sweeps": [
                {
                    "name": "planted",
                    "worker": [sys.executable, str(WORKER)],
                    "range": [0, STOP],
                    "params": {"planted": self.planted, "per_s": self.per_s, "gate": str(self.gate)},
                    "target_s": 0.5,
                    "resources": {"nodes": ["here"]},
                }
            ],
            "jobs": [self._script(number) for number in range(self.scripts)],
        }

    def _script(self, number: int) -> dict[str, object]:
        code = "import os, sys, time; time.sleep(0.2); open(os.environ['HOSTLER_RESULT'], 'w').write(sys.argv[1])"
        after = [f"s{number - 2}"] if number % 3 == 2 else []
        # Being killed from outside is part of this test; it must not use up what a script may fail by itself.
        return {
            "name": f"s{number}",
            "argv": [sys.executable, "-c", code, str(number)],
            "after": after,
            "require_result": True,
            "resources": {"nodes": ["here"]},
            "retry": {"max_attempts": {"lost": 1000, "signal": 1000, "worker": 1000}, "backoff_s": 0},
        }


@contextlib.contextmanager
def a_ground(path: Path, scripts: int, per_s: float = PER_S) -> Iterator[Ground]:
    """A ground on which nothing was started; nothing of it is left running."""
    made = Ground(path, random.Random(20261121), scripts, per_s)
    try:
        yield made
    finally:
        if made.controller is not None:
            made.controller.kill()
            made.controller.wait()
        for process in made.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
                process.wait(PATIENCE_S)


def controllers(ground: Ground) -> Sequence[psutil.Process]:
    assert ground.controller is not None
    return [psutil.Process(ground.controller.pid)]


def workers(ground: Ground) -> Sequence[psutil.Process]:
    return [process for process in ground.processes() if str(WORKER) in words(process)]


def supervisors(ground: Ground) -> Sequence[psutil.Process]:
    agents = whole_agents(ground)
    pids, parents = {process.pid for process in agents}, {parent(process) for process in agents}
    return [process for process in agents if parent(process) in pids and process.pid not in parents]


def whole_agents(ground: Ground) -> Sequence[psutil.Process]:
    return [process for process in ground.processes() if "agent.pyz" in words(process)]


def words(process: psutil.Process) -> str:
    """Its command line; nothing where it has ended meanwhile."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def parent(process: psutil.Process) -> int | None:
    """Who started it; `None` where it has ended meanwhile."""
    with contextlib.suppress(psutil.Error):
        return int(process.ppid())
    return None


KINDS: tuple[Victims, ...] = (workers, supervisors, whole_agents, controllers)


@pytest.mark.long
def test_one_kill_of_each_kind_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    rng = random.Random("one of each")
    with a_ground(tmp_path, scripts=6) as ground:
        ground.start()
        for victims in KINDS:
            after_progress(ground, ground.chunks, f"a chunk before the end of {victims.__name__}")
            kill(ground, victims, rng)
        after_progress(ground, ground.chunks, "a chunk after all of them")
        ground.finish()
        check(ground)


@pytest.mark.long
@pytest.mark.parametrize("victims", KINDS, ids=lambda victims: str(victims.__name__))
def test_killed_again_and_again_everything_is_done_exactly_once(tmp_path: Path, victims: Victims) -> None:
    rng = random.Random(victims.__name__)
    with a_ground(tmp_path, scripts=3 * KILLS) as ground:
        ground.start()
        for number in range(KILLS):
            if number == 0 or rng.random() >= AT_ONCE:
                after_progress(ground, ground.entries, f"anything before kill {number + 1}")
            time.sleep(rng.uniform(0.0, PAUSE_S))
            kill(ground, victims, rng)
        ground.finish()
        check(ground)


@pytest.mark.long
def test_kills_beside_a_node_that_lies_lose_nothing_and_let_no_foreign_result_in(tmp_path: Path) -> None:
    rng = random.Random("hostile")
    ends_at = time.monotonic() + 60.0 * HOSTILE_MIN
    with a_ground(tmp_path, scripts=40, per_s=SLOW_PER_S) as ground:
        ground.start()
        with beset(ground) as acts:
            until(lambda: "replay" in acts.read_text(), "all acts of the hostile node", ground)
            kills = 0
            while time.monotonic() < ends_at:
                after_progress(ground, ground.entries, "anything before the next kill")
                time.sleep(rng.uniform(0.0, PAUSE_S))
                kill(ground, rng.choice(KINDS), rng)
                kills += 1
            seen = acts.read_text().count("lies")
            until(lambda: acts.read_text().count("lies") > seen, "more lies after the last kill", ground)
            ground.finish()
        check(ground)
    lied = acts.read_text().count("lies")
    print(f"{kills} kills in {HOSTILE_MIN:g} min; the hostile node lied on {lied} connections")


@contextlib.contextmanager
def beset(ground: Ground) -> Iterator[Path]:
    """A hostile process that calls as the node `evil`; what it does is in the file."""
    acts = ground.path / "acts"
    acts.touch()
    until(lambda: (ground.state / "controller.json").exists(), "the controller", ground)
    token = StateDir(ground.state).make_call_token("evil")
    environment = {**os.environ, "CONTROLLER": str(ground.state / "controller.json"), "TOKEN": token}
    with (ground.path / "evil.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(HOSTILE), "evil", str(acts)], env=environment, stdout=log, stderr=log
        )
    try:
        yield acts
    finally:
        process.kill()
        process.wait()


def after_progress(ground: Ground, count: Callable[[], int], what: str) -> None:
    """Wait until there is more of something than there is now."""
    before = count()
    until(lambda: count() > before, what, ground)


def kill(ground: Ground, victims: Victims, rng: random.Random) -> None:
    """`kill -9` one of the victims (all of a whole agent), once there is one."""
    until(lambda: killed(ground, victims, rng), f"one of {victims.__name__}", ground)
    if victims is controllers:
        assert ground.controller is not None
        ground.controller.wait()
        ground.start()


def killed(ground: Ground, victims: Victims, rng: random.Random) -> bool:
    """Whether somebody was."""
    found = list(victims(ground))
    if found and victims is not whole_agents:
        found = [rng.choice(found)]
    hit = False
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.kill()
            hit = True
    return hit


def until(holds: Callable[[], object], what: str, ground: Ground) -> None:
    """Wait for something; the controller must not end before."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert not ground.ended(), f"the controller ended by itself: {ground.log()}"
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:g} s: {ground.log()}"
        time.sleep(0.05)


def check(ground: Ground) -> None:
    """What the journal says, folded by nothing that took part."""
    journal = open_journal(ground.state)
    core = recovered(journal, pytest.fail)
    core.validate()
    entries = list(journal.read())
    jobs = core.state.jobs
    assert {job.state for job in jobs.values()} == {JobState.DONE}
    accepted = Counter(entry.event.job for entry in entries if isinstance(entry.event, JobDone))
    assert set(accepted) == set(jobs)
    assert set(accepted.values()) == {1}
    results = {job.spec.name: job.result for job in jobs.values() if job.id not in core.state.sweeps}
    assert results == {f"s{number}": number for number in range(ground.scripts)}
    check_sweep(ground, entries, journal.story("j1"), [hit.at for hit in journal.hits("j1", 0, 1000)])
    journal.close()


def check_sweep(ground: Ground, entries: Sequence[Entry], story: Sequence[Entry], hits: Sequence[int]) -> None:
    proof = proof_of("j1", (0, STOP), story)
    assert (proof.fault, proof.done, proof.complete) == (None, STOP, True)
    assert sorted(hits) == ground.planted
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
