"""All that one sbatch is told, and its words."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from hostler.backends.slurm.spans import duration_text
from hostler.model.record import record

MEGABYTES = 1024
"""In a GiB, which Slurm calls `G`."""


@record
class Options:
    """One submission: a job, or an array of tasks that are alike."""

    name: str
    """What it is found by again: nobody else's job has it."""
    comment: str
    partition: str
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    time_s: float
    cpus: Annotated[int, Field(ge=1)]
    memory_gb: float
    """Of all of it, in GiB."""
    gpus: Annotated[int, Field(ge=0)] = 0
    gpu_type: str | None = None
    tasks: Annotated[int, Field(ge=1)] | None = None
    """Of an array; they count from 0."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """How many of them run at a time."""
    requeue: bool = False
    warn_s: Annotated[int, Field(ge=1, le=65535)]
    """So long before its wall time is over, the script gets SIGTERM; Slurm may be up to a minute early."""
    folder: str
    """Where the script's own output goes: `slurm-JOB.out`, and of an array `slurm-ARRAY_TASK.out`."""
    chdir: str
    extra: tuple[str, ...] = ()

    def argv(self) -> list[str]:
        """The options in words, without the script.

        `--export=NONE`: nothing of the environment of whoever submits reaches the job. It gets what a login on its node
        gives, so that HOME and PATH are there, and `module`. `NIL` would be less still, but older versions take it for
        `NONE`, and later ones give no PATH.
        """
        wishes = {
            "account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "reservation": self.reservation,
            "gres": self._gres(),
            "array": self._array(),
        }
        log = "slurm-%j.out" if self.tasks is None else "slurm-%A_%a.out"
        return [
            "--parsable",
            f"--job-name={self.name}",
            f"--comment={self.comment}",
            f"--partition={self.partition}",
            *(f"--{option}={value}" for option, value in wishes.items() if value is not None),
            f"--time={duration_text(self.time_s)}",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={self.cpus}",
            f"--mem={math.ceil(self.memory_gb * MEGABYTES)}M",
            "--requeue" if self.requeue else "--no-requeue",
            "--open-mode=append",
            f"--output={self.folder.replace('%', '%%')}/{log}",
            f"--signal=B:TERM@{self.warn_s}",
            f"--chdir={self.chdir}",
            "--export=NONE",
            *self.extra,
        ]

    def _gres(self) -> str | None:
        if not self.gpus:
            return None
        return ":".join(["gpu", *([] if self.gpu_type is None else [self.gpu_type]), str(self.gpus)])

    def _array(self) -> str | None:
        if self.tasks is None:
            return None
        return f"0-{self.tasks - 1}" + ("" if self.limit is None else f"%{self.limit}")
