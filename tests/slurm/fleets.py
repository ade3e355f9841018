"""Fleets whose nodes are partitions of a real Slurm: a controller in a process of its own, and what it told of them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hostler.model.errors import LinkError
from tests.backends.ssh.sshd import Sshd
from tests.integration.conftest import FINAL, Fleet, until
from tests.patience import PATIENCE_S
from tests.slurm.lab import Lab

PARTITIONS = ("gpu-train", "cpu-eval")
IMPATIENT: Mapping[str, Any] = {"poll_s": 1, "calls_per_minute": 300, "pilot_s": 600, "pilot_idle_s": 3, "vram_gb": 80}
"""Looks that a real cluster would not like to be given so often."""


class ClusterFleet(Fleet):
    """A fleet on a lab, whose commands are here, or on a login node. `slurm` are settings of its cluster."""

    def __init__(
        self,
        path: Path,
        lab: Lab,
        *,
        partitions: tuple[str, ...] = PARTITIONS,
        slurm: Mapping[str, Any] | None = None,
        nodes: Mapping[str, Mapping[str, Any]] | None = None,
        login: Sshd | None = None,
        **settings: Any,
    ) -> None:
        self.lab = lab
        self.shared = path / "shared"
        self.shared.mkdir()
        self.programs = path / "bin"
        self.programs.mkdir()
        cluster = {"shared_root": str(self.shared), **IMPATIENT, **(slurm or {})}
        own = nodes or {}
        listed = [{"name": name, "class": "hpc", **own.get(name, {})} for name in partitions]
        hpc: dict[str, Any] = {"backend": "slurm", "python": sys.executable, "slurm": cluster}
        if login is not None:
            hpc |= {"port": login.port, "identity": str(login.folder / "client"), "via": []}
            listed = [{**node, "host": "127.0.0.1"} for node in listed]
            settings["ssh"] = {"config": [], "known_hosts": [str(login.known_hosts)]}
        state = (self.shared if login is None else path) / "state"
        self._settings: dict[str, Any] = {"classes": {"hpc": hpc}, "nodes": listed, **settings}
        super().__init__(path, state=state, **self._settings)

    def settle_more(self, **settings: Any) -> None:
        """Write the fleet file with these settings, too."""
        self.settle(**self._settings, **settings)

    def take_out(self, name: str, *instead: Mapping[str, Any]) -> None:
        """Write the fleet file without this partition, and with other nodes in its place."""
        kept = [node for node in self._settings["nodes"] if node["name"] != name]
        self.settle(**{**self._settings, "nodes": [*kept, *instead]})

    def launch(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a controller, for which the programs of this fleet come before Slurm's."""
        command = [sys.executable, "-m", "hostler", "up", "--state-dir", self.state, "--port", "0", *options, self.file]
        env = {**self.lab.env, "PATH": f"{self.programs}:{self.lab.env['PATH']}"}
        with (self.path / "up.log").open("ab") as log:
            self.controller = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env
            )
        return self.controller

    def instead_of(self, program: str, script: str) -> None:
        """A program of Slurm's that this fleet meets in place of the real one, which is `$REAL`."""
        real = shutil.which(program, path=self.lab.env["PATH"])
        path = self.programs / program
        path.write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
        path.chmod(0o755)

    def as_usual(self, program: str) -> None:
        """The real one again."""
        (self.programs / program).unlink()

    def over_within(self, job: str, patience_s: float) -> dict[str, Any]:
        """Everything about a job, once it is over."""
        when(lambda: self.job(job)["state"] in FINAL, f"the end of {job}", self, patience_s)
        return dict(self.client.job(job))

    def slurm_jobs(self) -> list[str]:
        """Ids of all jobs that the queue has."""
        return self.lab.said("squeue", "-h", "-a", "-o", "%A").split()

    def ran(self, name: str = "ran") -> list[str]:
        """What processes have noted in a file of the shared folder."""
        path = self.shared / name
        return path.read_text().split() if path.exists() else []

    def noting(self, then: str = "", name: str = "ran") -> tuple[str, ...]:
        """A command that notes that it begins, does something, and notes that it has ended."""
        path = self.shared / name
        return "sh", "-c", f"echo begun >> {path}; {then or 'true'}; status=$?; echo ended >> {path}; exit $status"

    def story(self, kind: str) -> list[dict[str, Any]]:
        """Events of a kind in the whole journal, oldest first."""
        with closing(sqlite3.connect(f"file:{self.state}/journal.sqlite?mode=ro", uri=True)) as journal:
            found = [json.loads(data) for (data,) in journal.execute("SELECT data FROM journal ORDER BY seq")]
        return [event for event in found if event["kind"] == kind]

    def _is_up(self) -> bool:
        assert self.controller is not None
        assert self.controller.poll() is None, f"the controller ended with {self.controller.returncode}: {self.log()}"
        try:
            left = json.loads((self.state / "controller.json").read_bytes())
            return left["pid"] == self.controller.pid and self.client.status()["nodes_up"] >= 1
        except (FileNotFoundError, LinkError):
            return False


@contextmanager
def a_cluster_fleet(path: Path, lab: Lab, **more: Any) -> Iterator[ClusterFleet]:
    """A fleet that has not been started; nothing of it is left running."""
    fleet = ClusterFleet(path, lab, **more)
    try:
        yield fleet
    finally:
        fleet.clean_up()


def when(question: Any, what: str, fleet: ClusterFleet, patience_s: float = PATIENCE_S) -> Any:
    """The first true answer."""
    return until(question, what, patience_s, fleet.log)
