"""A sweep and scripts on the hosts of a datacentre, by a real `hostler up`; and whether all of it came out right.

What runs on a host runs until it is let go, so that faults meet work however slow this machine is.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostler.cli.entries import entry_line
from hostler.model.errors import LinkError
from hostler.model.events import AttemptLeased, Entry, JobDone, job_of
from hostler.model.work import JobState
from hostler.runtime.proof import proof_of
from hostler.runtime.snapshots import recovered
from hostler.store import open_journal
from tests.backends.ssh.test_carrier import HOSTILE
from tests.integration.conftest import Fleet, Said, View, a_fleet, command
from tests.lab.datacentre import Datacentre
from tests.lab.host import LAB, Host
from tests.lab.tools import until

HERE = Path(__file__).parent
PER_S = 1000
SWEEP_S = 3600
"""How long the sweep would keep all hosts busy that are not let go."""
EARLY_S = 2
SLOTS = 2
KEEPALIVE_S = 1.0
WIDTH = 10_000
PLANTED = 20
SWEEP_GATE, SCRIPT_GATE = "sweep-gate", "script-gate"
"""Files in the folder of a host, which its programs look for."""
REST_S = 600.0
"""Until what is left is done."""
FREELY = dict.fromkeys(("lost", "signal", "worker", "spawn", "exit", "result"), 1000)
"""What befalls a host must not use up what work may fail by itself."""


class Work:
    """One fleet file for all hosts of a datacentre, and the controller that sees to it."""

    def __init__(self, lab: Datacentre, fleet: Fleet, scripts: int, **terms: object) -> None:
        self.lab = lab
        self.fleet = fleet
        self.scripts = [f"script-{at}" for at in range(scripts)]
        self.stop = PER_S * SWEEP_S * SLOTS * len(lab.hosts)
        self.planted = self._drawn()
        self._lines: list[str] = []
        self._lay_out()
        fleet.settle(
            name="lab",
            ssh={"config": [], "known_hosts": [], "keepalive_s": KEEPALIVE_S, "connect_s": 5},
            nodes=lab.fleet(cpu_slots=SLOTS, scripts=1, **terms),
            sweeps=[self._sweep()],
            jobs=[self._script(name) for name in self.scripts],
        )

    def begin(self) -> None:
        """Trust the hosts, start a controller, and wait until every host has a chunk, and a script as well."""
        said = self.hostler("node", "trust", self.fleet.file, "--yes")
        assert said.status == 0, said.err
        self.fleet.launch("--until-idle")
        self.wait(lambda: all(self.at_work(host) for host in self.lab.hosts), "work on every host")

    def end(self) -> None:
        """Let everything go, wait until the controller says that all is done, and see whether it is."""
        for host in self.lab.hosts:
            for gate in (SWEEP_GATE, SCRIPT_GATE):
                (host.folder / gate).touch()
        assert self.fleet.controller is not None
        assert self.fleet.controller.wait(REST_S) == 0, self.fleet.log()
        self._check()

    @contextmanager
    def scripts_let_go(self, host: Host) -> Iterator[None]:
        """Scripts on a host come to their ends meanwhile."""
        gate = host.folder / SCRIPT_GATE
        gate.touch()
        try:
            yield
        finally:
            gate.unlink()

    def hostler(self, *words: str | Path) -> Said:
        """A command line for this fleet."""
        env = {**os.environ, "HOSTLER_STATE_DIR": str(self.fleet.state), "COLUMNS": "200"}
        return command(*words, env=env)

    def wait(self, holds: Callable[[], object], what: str) -> None:
        """Until something holds; the controller must not end before."""
        until(lambda: self._asked(holds), what, log=self.story)

    def node(self, host: Host) -> View:
        """What the controller says of a host."""
        return next(node for node in self.fleet.client.nodes() if node["name"] == host.name)

    def at_work(self, host: Host) -> bool:
        """Whether a chunk and a script are on it."""
        devices = self.node(host)["devices"]
        return all(any(device[what] for device in devices) for what in ("attempts", "chunks"))

    def attempts(self, host: Host) -> set[str]:
        """Those that it holds, as far as the controller knows."""
        return {name for device in self.node(host)["devices"] for name in device["attempts"]}

    def lost(self) -> set[str]:
        """Attempts that were said to be dead, by the controller or by their agent."""
        lines = [*self.events("attempt.lost"), *self.events("attempt.ended", 'reason="lost"')]
        return {line.split()[3] for line in lines}

    def over(self) -> set[str]:
        """Attempts of which the end is known, whatever that was."""
        return self.lost() | {line.split()[3] for line in self.events("attempt.ended")}

    def elsewhere(self, attempts: AbstractSet[str], host: Host) -> bool:
        """Whether the jobs of these attempts all run on other hosts, or have."""
        jobs = {job["id"]: job for job in self.fleet.client.all_jobs()}
        found = [jobs[job_of(name)] for name in attempts]
        return all(
            job["state"] == "done" or str(job["device"]).split("/")[0] not in (host.name, "None") for job in found
        )

    def has_searched(self, host: Host) -> bool:
        """Whether a chunk has been finished there."""
        leased = {line.split()[3] for line in self.events("chunk.leased", f'"{host.name}/')}
        return bool(leased & {line.split()[3] for line in self.events("chunk.done")})

    def was_never_away(self) -> bool:
        """Whether no host has been out of reach before all was done; the controller must have ended."""
        kinds = [entry.event.kind for entry in self.entries()]
        return "node.unreachable" not in kinds[: len(kinds) - kinds[::-1].index("job.done")]

    def is_down(self, host: Host) -> bool:
        """Whether it is shown as out of reach, to people, too."""
        if self.node(host)["link"] != "down":
            return False
        rows = [row.split() for row in self.hostler("node", "list").out.splitlines() if row.startswith(f"{host.name}/")]
        return "up" not in [row[1] for row in rows] and "down" in [row[1] for row in rows]

    def is_up(self, host: Host) -> bool:
        """Whether it is shown as linked."""
        return bool(self.node(host)["link"] == "up")

    def events(self, *words: str) -> list[str]:
        """Lines of `hostler events` with these words, not shortened; what is known is not asked for again."""
        newest = self.fleet.client.status()["seq"]
        if len(self._lines) < newest:
            for entry in self.fleet.client.events(len(self._lines)):
                self._lines.append(entry_line(entry, WIDTH))
                if entry["seq"] >= newest:
                    break
        return [line for line in self._lines if all(word in line for word in words)]

    def entries(self) -> list[Entry]:
        """The whole journal, once the controller has ended."""
        journal = open_journal(self.fleet.state)
        try:
            return list(journal.read())
        finally:
            journal.close()

    def ran(self) -> Counter[str]:
        """How often each script has run, by its own word, wherever that was."""
        notes = [host.home / "ran" for host in self.lab.hosts]
        return Counter(line for note in notes if note.exists() for line in note.read_text().splitlines())

    def story(self) -> str:
        """For somebody who wants to know why it did not work."""
        said = [self.hostler(*words).out for words in (["nodes"], ["status"], ["jobs"])]
        return "\n".join([*said, *self._lines[-60:], self.fleet.log()])

    def _asked(self, holds: Callable[[], object]) -> object:
        assert self.fleet.controller is not None
        status = self.fleet.controller.poll()
        assert status is None, f"the controller ended with {status}: {self.fleet.log()}"
        try:
            return holds()
        except LinkError:  # it has not begun to listen
            return False

    def _lay_out(self) -> None:
        """Folders that the work runs in, which no host can see."""
        for folder, program in (("search", "worker.py"), ("project", "task.py")):
            (self.fleet.path / folder).mkdir()
            shutil.copy(HERE / program, self.fleet.path / folder)
        for name in HOSTILE:
            path = self.fleet.path / "project" / "given" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.fsencode(name) * 100)

    def _drawn(self) -> list[int]:
        """Items to be found: half of them soon, and half wherever chance has them."""
        chance = random.Random(7)
        early = PER_S * EARLY_S * SLOTS * len(self.lab.hosts)
        return sorted({*chance.sample(range(early), PLANTED // 2), *chance.sample(range(self.stop), PLANTED // 2)})

    def _sweep(self) -> View:
        return {
            "name": "search",
            "worker": ["{python}", "worker.py"],
            "cwd": "search",
            "range": [0, self.stop],
            "params": {"planted": self.planted, "per_s": PER_S, "until": f"{LAB}/{SWEEP_GATE}"},
            "target_s": 2,
            "retry": {"max_attempts": FREELY},
        }

    def _script(self, name: str) -> View:
        return {
            "name": name,
            "argv": ["{python}", "task.py", name, f"{LAB}/{SCRIPT_GATE}"],
            "cwd": "project",
            "outputs": ["out"],
            "require_result": True,
            "retry": {"max_attempts": FREELY, "backoff_s": 0.1},
        }

    def _check(self) -> None:
        """What the journal says, folded by nothing that took part; and the files."""
        journal = open_journal(self.fleet.state)
        try:
            core = recovered(journal, pytest.fail)
            core.validate()
            jobs = {job.spec.name: job for job in core.state.jobs.values()}
            (sweep,) = core.state.sweeps
            proof = proof_of(sweep, (0, self.stop), journal.story(sweep))
            hits = [hit.at for hit in journal.hits(sweep, 0, 1000)]
        finally:
            journal.close()
        assert {job.state for job in jobs.values()} == {JobState.DONE}
        assert (proof.fault, proof.done, proof.complete) == (None, self.stop, True)
        assert sorted(hits) == self.planted
        assert {name: jobs[name].result for name in self.scripts} == {name: name for name in self.scripts}
        self._check_scripts({name: jobs[name].id for name in self.scripts})

    def _check_scripts(self, ids: dict[str, str]) -> None:
        """Each has been accepted once, no more has run than the journal tells of, and its files are here."""
        entries = self.entries()
        done = [entry.event for entry in entries if isinstance(entry.event, JobDone)]
        assert set(Counter(event.job for event in done).values()) == {1}
        leased = Counter(entry.event.job for entry in entries if isinstance(entry.event, AttemptLeased))
        ran = self.ran()
        assert set(ran) == set(self.scripts)
        assert all(ran[name] <= leased[job] for name, job in ids.items()), (ran, leased)
        given = _contents(self.fleet.path / "project" / "given")
        for event in done:
            name = next((name for name, job in ids.items() if job == event.job), None)
            if name is not None:
                left = _contents(self.fleet.state / "results" / str(event.attempt) / "out")
                assert left == {**given, b"name": name.encode()}


@contextmanager
def on(lab: Datacentre, folder: Path, *, scripts: int, **terms: object) -> Iterator[Work]:
    """Work for all hosts, laid out: a sweep and scripts. `terms` are settings of every node."""
    with a_fleet(folder) as fleet:
        yield Work(lab, fleet, scripts, **terms)


def _contents(folder: Path) -> dict[bytes, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {os.fsencode(path.relative_to(folder)): path.read_bytes() for path in found}
