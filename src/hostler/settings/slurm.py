"""Slurm clusters as they are written in a fleet file. Nothing here does anything but refuse contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from hostler.model.batch import SHARES, extra_fault
from hostler.model.pools import Mode
from hostler.model.work import GIGABYTES_MAX, BatchWord, Rest, Seconds, WorkKind
from hostler.settings.section import Section, Word

Folder: TypeAlias = Annotated[str, Field(pattern=r"^/[^\x00-\x1f:,]*$")]
"""Absolute, and without what container programs cut lists of folders at."""
File: TypeAlias = Annotated[str, Field(pattern=r"^(/|~/)[^\x00-\x1f]*$")]
Image: TypeAlias = Annotated[str, Field(pattern=r"^[^\s\x00-\x1f-][^\x00-\x1f]*$")]
GpuType: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
Cores: TypeAlias = Annotated[int, Field(ge=1, le=4096)]
Memory: TypeAlias = Annotated[float, Field(gt=0, le=GIGABYTES_MAX)]


class SlurmShare(Section):
    """What one kind of work asks a cluster for; what is not said keeps its default."""

    cpus_per_gpu: Cores | None = None
    """Cores for each of its GPUs."""
    cpus_least: Cores | None = None
    """Cores it asks for at least; and those of one slot of a partition without GPUs."""
    cpus_most: Cores | None = None
    """Cores it asks for at most, however many GPUs it has."""
    memory_gb: Memory | None = None
    """Memory of its whole allocation, in GiB, for work whose `resources.memory_gb` says nothing."""
    least_s: Seconds | None = None
    """Shortest wall time it asks for, in seconds."""
    most_s: Seconds | None = None
    """Wall time it asks for as long as nobody knows how long it takes, in seconds; each time that was too little,
    twice as much. What is known to take longer asks for more, within what the partition allows."""


class Slurm(Section):
    """A cluster behind Slurm, or one partition of it."""

    shared_root: Folder | None = None
    """Folder on the shared file system, under the same path on the login node and on every compute node; work starts
    in it, and containers see it. Required for `backend: slurm`; no `:` or `,` in it."""
    job_dir: Folder | None = None
    """Where batch scripts, the agent and what runs are kept, also on the shared file system; by default `.hostler` in
    `shared_root`."""
    account: BatchWord | None = None
    """Account that jobs are charged to; by default the user's own."""
    qos: BatchWord | None = None
    """Quality of service; by default the account's own."""
    constraint: BatchWord | None = None
    """Features that nodes must have, as `a100&nvlink`."""
    reservation: BatchWord | None = None
    """Reservation to run in."""
    gpu_type: GpuType | None = None
    """Type of GPU to use where a partition has several, as the cluster calls it: `h100`. By default all, each asked for
    by its own."""
    gpu_kind: Literal["cuda", "rocm"] = "cuda"
    """Whose its GPUs are; Slurm does not tell."""
    vram_gb: Memory | None = None
    """Video memory of each GPU, in GB; Slurm does not tell it either. By default unknown, which keeps away whatever
    asks for some."""
    extra: tuple[Word, ...] = ()
    """More options of sbatch, in their long form, as `--exclusive` or `--mail-type=FAIL`."""
    requeue: bool = False
    """Whether Slurm starts jobs again by itself after a preemption, or when their node is lost."""
    venv_activate: File | None = None
    """Script that activates a virtual environment on x86-64 nodes, as `/shared/venv/bin/activate`."""
    venv_activate_arm64: File | None = None
    """The same for ARM nodes, such as those with GH200."""
    container_runtime: Literal["apptainer", "singularity", "docker", "pyxis"] | None = None
    """What runs the agent, and so all work, in a container."""
    container_image_x86_64: Image | None = None
    """Image for x86-64 nodes: a file for apptainer and singularity, a name for docker and pyxis."""
    container_image_arm64: Image | None = None
    """Image for ARM nodes."""
    container_args: tuple[Word, ...] = ()
    """More arguments for the program that runs containers."""
    mode: Literal["auto"] | Mode | dict[WorkKind, Mode] = "auto"
    """How work becomes batch jobs: `job` submits one for each attempt, `array` one for all that come together and ask
    for the same, and a `pilot` stays and takes work until there is none for a while. For all kinds of work, or by kind;
    `auto`: self-play as arrays, sweeps by pilots, everything else as jobs."""
    max_jobs: Annotated[int, Field(ge=1, le=100_000)] = 64
    """Jobs (and tasks of arrays) of a partition at the same time, waiting ones included."""
    max_pending: Annotated[int, Field(ge=1, le=100_000)] = 8
    """Of these, how many may wait in the queue of the cluster."""
    array_limit: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Tasks of one array that run at the same time (`--array=…%limit`); by default no limit."""
    pilot_s: Seconds = 14400.0
    """Wall time of a pilot, in seconds, within what the partition allows."""
    pilot_idle_s: Rest = 60.0
    """How long a pilot waits for more work, in seconds, before it gives its allocation back."""
    calls_per_minute: Annotated[int, Field(ge=1, le=600)] = 6
    """Commands of Slurm that look how things are, in any minute, for all partitions of a cluster together; submissions
    and cancellations come on top."""
    poll_s: Seconds = 30.0
    """How often the queue is looked at, in seconds, for all partitions of a cluster together, as far as
    `calls_per_minute` allows."""
    resources: dict[WorkKind, SlurmShare] = {}
    """What each kind of work asks for, by kind; see `hostler plan` for the defaults."""


class SlurmJob(Section):
    """What one job wants of a cluster, over what the settings of the cluster say."""

    account: BatchWord | None = None
    """Account it is charged to."""
    qos: BatchWord | None = None
    """Quality of service."""
    constraint: BatchWord | None = None
    """Features that its node must have."""
    reservation: BatchWord | None = None
    """Reservation to run in."""
    gpu_type: GpuType | None = None
    """Type of its GPUs, as the cluster calls it."""
    cpus: Cores | None = None
    """Cores of its allocation."""
    memory_gb: Memory | None = None
    """Memory of its allocation, in GiB."""
    time_s: Seconds | None = None
    """Wall time of its allocation, in seconds."""
    requeue: bool | None = None
    """Whether Slurm starts it again by itself."""
    extra: tuple[Word, ...] = ()
    """More options of sbatch, on top of the cluster's."""

    @model_validator(mode="after")
    def _leaves_ours_alone(self) -> Self:
        fault = extra_fault(self.extra)
        if fault is not None:
            raise ValueError(f"extra: {fault}")
        return self


def slurm_fault(asked: Slurm) -> str | None:
    """What is wrong with the section of a node, its class's laid under it; `None`: nothing."""
    if asked.shared_root is None:
        return "slurm.shared_root is missing: name the folder that all its nodes share"
    extra = extra_fault(asked.extra)
    if extra is not None:
        return f"slurm.extra: {extra}"
    if asked.pilot_idle_s >= asked.pilot_s:
        return f"slurm.pilot_idle_s {asked.pilot_idle_s:g} is all of pilot_s {asked.pilot_s:g}; give less"
    return _of_containers(asked) or _of_resources(asked)


def cluster_fault(partitions: Sequence[tuple[str, Slurm]]) -> str | None:
    """What is wrong with the sections of one cluster's partitions, each with its name, as a whole; `None`: nothing."""
    for setting in ("calls_per_minute", "poll_s"):
        named: dict[float, str] = {}
        for name, asked in partitions:
            named.setdefault(getattr(asked, setting), name)
        if len(named) > 1:
            values = ", ".join(f"{value:g} for {name!r}" for value, name in named.items())
            return (
                f"slurm.{setting} is for all partitions of a cluster together, and here it is {values}; "
                "say it once, in their class"
            )
    return None


def _of_containers(asked: Slurm) -> str | None:
    images = {"x86_64": asked.container_image_x86_64, "arm64": asked.container_image_arm64}
    if asked.container_runtime is None:
        named = [f"container_image_{machine}" for machine, image in images.items() if image is not None]
        named += ["container_args"] if asked.container_args else []
        return f"slurm.{named[0]} says nothing without a container_runtime; give that, too" if named else None
    if not any(images.values()):
        return "slurm.container_runtime runs nothing without an image; give container_image_x86_64 or _arm64, too"
    for machine, venv, setting in (
        ("x86_64", asked.venv_activate, "venv_activate"),
        ("arm64", asked.venv_activate_arm64, "venv_activate_arm64"),
    ):
        if venv is not None and images[machine] is not None:
            return f"slurm.{setting} and container_image_{machine} are for the same nodes; keep one of them"
    return None


def _of_resources(asked: Slurm) -> str | None:
    for work, said in asked.resources.items():
        usual = SHARES[work]
        for least, most in (("cpus_least", "cpus_most"), ("least_s", "most_s")):
            low, high = (getattr(usual if getattr(said, name) is None else said, name) for name in (least, most))
            if low > high:
                return f"slurm.resources.{work}: {least} {low:g} is more than {most} {high:g}; change one of them"
    return None
