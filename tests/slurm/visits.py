"""Fleet files for commands that visit a cluster, and what these print."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.backends.slurm.visiting import Host, Tried
from hostler.cli.main import run
from tests.integration.conftest import WHOLE_RUN_S, Said
from tests.patience import PATIENCE_S
from tests.slurm.lab import Lab

WITHIN_S = WHOLE_RUN_S


class Site:
    """A folder with a fleet file whose partitions are a lab's."""

    def __init__(self, path: Path, lab: Lab) -> None:
        self.lab = lab
        self.shared = path / "shared"
        self.shared.mkdir()
        self.file = path / "fleet.yaml"
        self.write()

    def write(
        self,
        *nodes: Mapping[str, Any],
        slurm: Mapping[str, Any] | None = None,
        cluster: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """The fleet file; `slurm` and `cluster` are of all partitions, `settings` of all of it."""
        shared = {"shared_root": str(self.shared), "vram_gb": 80, **(slurm or {})}
        cls = {"backend": "slurm", "python": sys.executable, **(cluster or {}), "slurm": shared}
        listed = [{"class": "hpc", **node} for node in nodes or [{"name": "cpu-eval", "work": ["evaluation"]}]]
        told = {"name": "visited", "state_dir": str(self.shared / "state"), "classes": {"hpc": cls}, "nodes": listed}
        self.file.write_text(yaml.safe_dump({**told, **settings}))

    def hostler(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`hostler slurm` with these words."""
        return self.lab.run(*self.command(*words), within_s=WITHIN_S)

    def hostler_here(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: str) -> Said:
        """The same in this process, where the patches of a test take effect."""
        for name, value in self.lab.env.items():
            monkeypatch.setenv(name, value)
        status = run(["slurm", words[0], str(self.file), *words[1:]])
        return Said(status, *capfd.readouterr())

    def command(self, *words: str) -> Sequence[str]:
        """`hostler slurm` with these words as a process."""
        return command(words[0], self.file, *words[1:])

    def waits(self, job: str) -> bool:
        """Whether the time to begin is the reason why a job waits."""
        return self.lab.fields(job)["Reason"] == "BeginTime"

    def found(self, *words: str) -> dict[tuple[str, str], dict[str, str]]:
        """What `hostler slurm check` finds, by node and what; its exit status goes with that."""
        done = self.hostler("check", *words, "--json")
        return findings(Said(done.returncode, done.stdout, done.stderr))

    def is_clear(self) -> bool:
        """Whether nothing is left: no job, no folder."""
        folder = self.shared / ".hostler"
        return not self.lab.said("squeue", "-h", "-a") and not (folder.exists() and list(folder.iterdir()))


def command(name: str, file: Path, *words: str) -> Sequence[str]:
    """The words of a `hostler slurm` process; `--wait` is `PATIENCE_S` unless it is given."""
    wait = () if "--wait" in words else ("--wait", f"{PATIENCE_S:g}")
    return sys.executable, "-m", "hostler", "slurm", name, str(file), *words, *wait


def findings(said: Said) -> dict[tuple[str, str], dict[str, str]]:
    """What `hostler slurm check --json` has printed, by node and what; its exit status goes with that."""
    assert said.err == "", said.err
    found = said.json
    assert said.status == int(any(each["health"] == "error" for each in found))
    assert all(each["fix"] for each in found if each["health"] != "ok")
    return {(each["node"], each["what"]): each for each in found}


def before_first_question(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], object]) -> None:
    """Visits of this process call `act` with the id of each job before their first question to Slurm about it.

    A visit asks at least once before it gives up a job: however short `--wait` is, the job is submitted by then.
    """
    ask, acted = Host._ask, set[str]()

    async def asked(self: Host, tried: Tried) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while tried.job is None:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)
        if tried.job not in acted:
            acted.add(tried.job)
            await asyncio.to_thread(act, tried.job)
        await ask(self, tried)

    monkeypatch.setattr(Host, "_ask", asked)
