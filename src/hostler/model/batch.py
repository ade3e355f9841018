"""What is asked of a batch system for an attempt, and what each kind of work gets that says nothing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from hostler.model.record import record
from hostler.model.work import GIGABYTES_MAX, BatchOptions, DeviceKind, Seconds, WorkKind

HOUR = 3600.0


@record
class Ask:
    """An attempt, or one of several that are alike, as far as it matters to what is allocated for it."""

    work: WorkKind
    kind: DeviceKind
    devices: Annotated[int, Field(ge=1, le=64)]
    model: str | None = None
    """Of its GPUs, as the cluster calls it."""
    cpus: float | None = None
    """Host cores that it keeps busy, where somebody has said so."""
    memory_gb: float | None = None
    """Most that its process may take, in GiB."""
    expected_s: float | None = None
    """How long it will take at most in nine cases of ten, as far as is known."""
    longer: Annotated[float, Field(ge=1)] = 1.0
    """How many times as much time as usual it is given: earlier allocations were too short for it."""
    walltime_s: float | None = None
    """Longest time it may run."""
    checkpoints: bool = False
    """Whether it goes on from what it has saved, if it is cut off."""
    options: BatchOptions | None = None


@record
class Share:
    """What one kind of work gets."""

    cpus_per_gpu: Annotated[int, Field(ge=1, le=4096)]
    cpus_least: Annotated[int, Field(ge=1, le=4096)]
    """For each slot of a partition without GPUs; and the fewest with GPUs."""
    cpus_most: Annotated[int, Field(ge=1, le=4096)]
    """However many GPUs it has."""
    memory_gb: Annotated[float, Field(gt=0, le=GIGABYTES_MAX)]
    """Of the whole allocation, in GiB."""
    least_s: Seconds
    """Shortest wall time that is asked for."""
    most_s: Seconds
    """What is asked for as long as nobody knows how long the work takes; where that is known, it may be more."""


SHARES: Mapping[WorkKind, Share] = {
    WorkKind.TRAINING: Share(
        cpus_per_gpu=8, cpus_least=8, cpus_most=32, memory_gb=64.0, least_s=4 * HOUR, most_s=12 * HOUR
    ),
    WorkKind.RL: Share(cpus_per_gpu=16, cpus_least=8, cpus_most=32, memory_gb=64.0, least_s=4 * HOUR, most_s=12 * HOUR),
    WorkKind.SELFPLAY: Share(
        cpus_per_gpu=8, cpus_least=4, cpus_most=16, memory_gb=16.0, least_s=1 * HOUR, most_s=4 * HOUR
    ),
    WorkKind.EVALUATION: Share(
        cpus_per_gpu=4, cpus_least=4, cpus_most=8, memory_gb=16.0, least_s=1 * HOUR, most_s=2 * HOUR
    ),
    WorkKind.EXPORT: Share(
        cpus_per_gpu=4, cpus_least=2, cpus_most=8, memory_gb=16.0, least_s=0.5 * HOUR, most_s=2 * HOUR
    ),
    WorkKind.SWEEP: Share(cpus_per_gpu=2, cpus_least=1, cpus_most=16, memory_gb=8.0, least_s=1 * HOUR, most_s=4 * HOUR),
    WorkKind.SCRIPT: Share(
        cpus_per_gpu=4, cpus_least=2, cpus_most=16, memory_gb=8.0, least_s=0.5 * HOUR, most_s=12 * HOUR
    ),
}
"""By kind of work; a cluster's settings lie over it."""

_OWN = "Hostler says that itself; leave it out"
OWN_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("partition",), "write `partition`"),
    **{name: f"write `{name}`" for name in ("account", "qos", "constraint", "reservation", "requeue")},
    "no-requeue": "write `requeue: false`",
    **dict.fromkeys(
        ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"),
        "how many GPUs there are follows from the work; their type is `gpu_type`",
    ),
    **dict.fromkeys(
        ("cpus-per-task", "cpus-per-gpu", "mincpus"),
        "write `resources: {KIND: {cpus_per_gpu: ...}}`, or a job's `cpus`",
    ),
    **dict.fromkeys(
        ("mem", "mem-per-cpu", "mem-per-gpu"), "write `resources: {KIND: {memory_gb: ...}}`, or a job's `memory_gb`"
    ),
    **dict.fromkeys(("time", "time-min", "deadline"), "write `resources: {KIND: {most_s: ...}}`, or a job's `time_s`"),
    **dict.fromkeys(("array", "chdir", "comment", "error", "export", "export-file", "get-user-env", "input"), _OWN),
    **dict.fromkeys(("job-name", "nodes", "ntasks", "ntasks-per-node", "open-mode", "output", "parsable"), _OWN),
    **dict.fromkeys(("quiet", "signal", "wrap"), _OWN),
    **dict.fromkeys(("help", "test-only", "usage", "version"), "with it, sbatch submits nothing"),
    "wait": "with it, sbatch waits for the end of the job",
    "hold": "with it, the job never starts",
    **dict.fromkeys(("cluster-constraint", "clusters"), "a node of the fleet file is a partition of one cluster"),
    **dict.fromkeys(
        ("container", "container-id", "container-image", "container-name"), "write `container_runtime` and the images"
    ),
    **dict.fromkeys(
        (
            "container-env",
            "container-mount-home",
            "container-mounts",
            "container-readonly",
            "container-remap-root",
            "container-save",
            "container-workdir",
            "container-writable",
        ),
        "write `container_runtime` and `container_args`",
    ),
    "priority": "what begins first of its own jobs, Hostler decides; `--nice=100` lets others go first",
    "tres-per-task": "GPUs and cores follow from the work; write `gpu_type`, or a job's `cpus`",
    **dict.fromkeys(("tasks", "tasks-per-node"), _OWN),
    **dict.fromkeys(("gid", "uid"), "its jobs are those of the user that gives Slurm's commands"),
}
"""Options of sbatch that nobody else may give, and what to do instead."""


def extra_fault(words: Sequence[str]) -> str | None:
    """What is wrong with further options of sbatch; `None`: nothing."""
    return next((fault for fault in map(_fault, words) if fault is not None), None)


def _fault(word: str) -> str | None:
    if not word.startswith("--") or any(ord(char) < 32 for char in word):
        return f"{word!r} is no option in its long form; write each as one word, `--option` or `--option=value`"
    name = word[2:].partition("=")[0]
    if not name:
        return f"{word!r} names no option"
    # Beginnings count, too: sbatch takes `--arr` for `--array`.
    own = next((each for each in sorted(OWN_OPTIONS) if each.startswith(name)), None)
    return None if own is None else f"{word!r} is not for you to say: {OWN_OPTIONS[own]}"
