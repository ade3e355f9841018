"""The cluster of benchmarks/slurm.py: the tests' own Slurm, with a partition for it, and a count of every command."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

# The tests' Slurm: what is measured is what is tested.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.slurm.lab import Lab

PARTITION, HOST, HOST_CPUS = "bench", "cpu-1", 32
SLOTS = 8
CPUS = HOST_CPUS // SLOTS
"""Cores of each allocation: so many slots are all there is, whoever asks."""
COMMANDS = ("sbatch", "srun", "squeue", "sacct", "scancel", "sinfo", "scontrol")
QUIET_S = 60.0
_WRAPPER = """\
#!/bin/bash
printf '%s %s\\n' "$EPOCHREALTIME" {name} >> {log}
exec {real} "$@"
"""


class Bench:
    """A running Slurm. `env` is for whoever uses it: with it, every command is counted before it runs."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.folder = folder
        self._lab = lab
        self._log = folder / "commands"
        self._log.touch()
        programs = folder / "bin"
        programs.mkdir()
        for name in COMMANDS:
            real = shutil.which(name, path=lab.env["PATH"])
            assert real is not None, f"there is no {name}"
            (programs / name).write_text(_WRAPPER.format(name=name, log=self._log, real=real))
            (programs / name).chmod(0o755)
        self.env = {**lab.env, "PATH": f"{programs}:{lab.env['PATH']}"}

    def commands(self, since: float = 0.0, until: float = float("inf")) -> Counter[str]:
        """What was run between two moments (Unix seconds), by name."""
        lines = (line.split() for line in self._log.read_text().splitlines())
        return Counter(name for at, name in lines if since <= float(at) < until)

    def controller_cpu_s(self) -> float:
        """What slurmctld has used, in seconds."""
        spent = psutil.Process(self._lab.slurmctld.pid).cpu_times()
        return spent.user + spent.system

    def queued(self) -> int:
        """Jobs and tasks that Slurm has, waiting or running."""
        return len(self._lab.said("squeue", "-h", "-a", "-r", "-o", "%i").split())

    def clear(self) -> None:
        """Nothing is left to do, for whoever comes next."""
        self._lab.run("scancel", f"--partition={PARTITION}")
        deadline = time.monotonic() + QUIET_S
        while self.queued():
            assert time.monotonic() < deadline, self._lab.logs()
            time.sleep(0.2)


@contextmanager
def cluster() -> Iterator[Bench]:
    """With accounting, as submitit wants it; without the folder and the processes at the end."""
    extra = f"PartitionName={PARTITION} Nodes={HOST} DefaultTime=60 MaxTime=4:00:00\n"
    with (
        TemporaryDirectory(prefix="hostler-bench-slurm-", dir="/tmp") as scratch,
        Lab.running(accounting=True, extra=extra) as lab,
    ):
        yield Bench(lab, Path(scratch))
