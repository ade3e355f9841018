"""Real processes, killed at random moments, again and again: nothing is lost and nothing counts twice.

`CHAOS_KILLS` is the number of kills of each kind; `make campaign` sets it to 100.
"""

from __future__ import annotations

import contextlib
import os
import random
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
from hostler.store import open_journal

KILLS = int(os.environ.get("CHAOS_KILLS", "8"))
PER_S = 4000.0
BETWEEN_KILLS_S = (0.05, 0.9)
WORKER = Path(__file__).with_name("worker.py")
LIMIT_S = 120.0 + 10.0 * KILLS

Victims = Callable[["Ground"], Sequence[psutil.Process]]


class Ground:
    """One fleet file, one state directory, and everything that runs for them."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.path = path
        self.state = path / "state"
        self.scripts = 3 * KILLS
        # Two devices; long enough for every kill to hit something.
        self.stop = int(PER_S * 2 * (KILLS + 2) * sum(BETWEEN_KILLS_S) / 2)
        self.planted = sorted(rng.sample(range(self.stop), 20))
        self.fleet = path / "fleet.yaml"
        self.fleet.write_text(yaml.safe_dump(self._settings()))
        self.controller: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "hostler", "up", "--until-idle", "--state-dir", self.state, "--port", "0"]
        with (self.path / "up.log").open("ab") as log:
            self.controller = subprocess.Popen(
                [*command, self.fleet], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )

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
            "nodes": [{"name": "here", "cpu_slots": 2, "env": {"GROUND": str(self.path)}}],
            "sweeps": [
                {
                    "name": "planted",
                    "worker": [sys.executable, str(WORKER)],
                    "range": [0, self.stop],
                    "params": {"planted": self.planted, "per_s": PER_S},
                    "target_s": 0.5,
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
            "retry": {"max_attempts": {"lost": 1000, "signal": 1000, "worker": 1000}, "backoff_s": 0},
        }


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path, random.Random(20261121))
    yield made
    if made.controller is not None and not made.ended():
        made.controller.kill()
        made.controller.wait(10)
    for process in made.processes():
        with contextlib.suppress(psutil.Error):
            process.kill()
            process.wait(10)


def controllers(ground: Ground) -> Sequence[psutil.Process]:
    assert ground.controller is not None
    return [psutil.Process(ground.controller.pid)]


def workers(ground: Ground) -> Sequence[psutil.Process]:
    return [process for process in ground.processes() if str(WORKER) in process.cmdline()]


def supervisors(ground: Ground) -> Sequence[psutil.Process]:
    agents = [process for process in ground.processes() if "agent.pyz" in " ".join(process.cmdline())]
    pids = {process.pid for process in agents}
    return [process for process in agents if process.ppid() in pids]


def whole_agents(ground: Ground) -> Sequence[psutil.Process]:
    return [process for process in ground.processes() if "agent.pyz" in " ".join(process.cmdline())]


@pytest.mark.parametrize("victims", [controllers, workers, supervisors, whole_agents])
def test_killed_again_and_again_everything_is_done_exactly_once(ground: Ground, victims: Victims) -> None:
    rng = random.Random(victims.__name__)
    ground.start()
    killed = 0
    deadline = time.monotonic() + LIMIT_S
    while killed < KILLS and time.monotonic() < deadline:
        time.sleep(rng.uniform(*BETWEEN_KILLS_S))
        if ground.ended():
            break
        killed += kill_one(ground, victims, rng)
        if ground.ended():
            ground.start()
    assert killed >= KILLS / 2, f"only {killed} kills: {ground.log()}"
    assert ground.controller is not None
    assert ground.controller.wait(LIMIT_S) == 0, ground.log()
    check(ground)


def kill_one(ground: Ground, victims: Victims, rng: random.Random) -> int:
    """`kill -9` one of the victims (all of a whole agent); how many kills that was."""
    with contextlib.suppress(psutil.Error):
        found = list(victims(ground))
        if not found:
            return 0
        for process in found if victims is whole_agents else [rng.choice(found)]:
            process.kill()
        if victims is controllers:
            assert ground.controller is not None
            ground.controller.wait(10)
        return 1
    return 0


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
    proof = proof_of("j1", (0, ground.stop), story)
    assert (proof.fault, proof.done, proof.complete) == (None, ground.stop, True)
    assert sorted(hits) == ground.planted
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
