"""Fleet files for commands that visit a cluster, and what these print."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.slurm.lab import Lab

WITHIN_S = 180.0


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

    def command(self, *words: str) -> Sequence[str]:
        return sys.executable, "-m", "hostler", "slurm", words[0], str(self.file), *words[1:]

    def found(self, *words: str) -> dict[tuple[str, str], dict[str, str]]:
        """What `hostler slurm check` finds, by node and what; its exit status goes with that."""
        done = self.hostler("check", *words, "--json")
        assert done.stderr == "", done.stderr
        findings = json.loads(done.stdout)
        assert done.returncode == int(any(each["health"] == "error" for each in findings))
        assert all(each["fix"] for each in findings if each["health"] != "ok")
        return {(each["node"], each["what"]): each for each in findings}

    def is_clear(self) -> bool:
        """Whether nothing is left: no job, no folder."""
        folder = self.shared / ".hostler"
        return not self.lab.said("squeue", "-h", "-a") and not (folder.exists() and list(folder.iterdir()))
