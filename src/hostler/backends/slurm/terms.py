"""On which terms a partition is used: what is asked of the cluster for which work, and in what its agents run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hostler.backends.slurm import resources
from hostler.backends.slurm.opening import CODE, agent_name
from hostler.backends.slurm.options import Options
from hostler.backends.slurm.parsing import NodeRow, PartitionRecord
from hostler.backends.slurm.resources import Errand, Place
from hostler.backends.slurm.script import Script, Site, render
from hostler.backends.slurm.spans import duration_text
from hostler.model.batch import Ask
from hostler.model.pools import Mode, Span
from hostler.model.record import record
from hostler.model.work import DeviceKind, WorkKind

LINGER_S = 20.0
"""How long an allocation that works on chunks waits for more of them: they come as fast as others are done."""


@record
class Terms:
    """What settings say of one partition."""

    place: Place
    site: Site
    """In what environment an agent runs there."""
    modes: Mapping[WorkKind, Mode]
    max_jobs: int
    max_pending: int
    pilot_s: float
    pilot_idle_s: float
    slot_cpus: int
    """Cores of a slot of a partition without GPUs."""
    gpu_kind: DeviceKind = DeviceKind.CUDA
    gpus: bool = True
    """Whether its GPUs are used."""
    vram_gb: float | None = None

    @property
    def partition(self) -> str:
        """What the cluster calls it."""
        return self.place.partition

    def mode(self, work: WorkKind) -> Mode:
        """How orders of a kind become batch jobs."""
        return self.modes[work]

    def within(self, limits: PartitionRecord, hosts: Sequence[NodeRow]) -> Terms:
        """The same, within what the partition and its hosts allow."""
        cpus = [host.cpus for host in hosts if host.cpus is not None]
        memory = [host.memory_mb for host in hosts if host.memory_mb is not None]
        place = replace(
            self.place,
            max_time_s=limits.max_time_s,
            host_cpus=max(cpus, default=None),
            host_memory_gb=max(memory) / 1024 if memory else None,
        )
        return replace(self, place=place)

    def options(self, ask: Ask, mode: Mode, token: str, tasks: int, root: str) -> Options:
        """What sbatch is told. Raises `SpecError` where the partition cannot run it, whatever is free."""
        errand = Errand(
            name=token,
            comment=token,
            folder=f"{root}/jobs/{token}",
            chdir=root,
            tasks=None if mode == "job" else tasks,
            stays_s=self.pilot_s if mode == "pilot" else None,
        )
        return resources.options(ask, self.place, errand)

    def in_words(self, ask: Ask, mode: Mode) -> str:
        """What is asked for each task, for people. Raises `SpecError`."""
        asked = self.options(ask, mode, "t", 1, "/")
        gpus = f"{asked.gpus} × {asked.gpu_type or 'GPU'}, " if asked.gpus else ""
        time = duration_text(asked.time_s)
        return f"{asked.partition}: {gpus}{asked.cpus} cores, {asked.memory_gb:g} GB, {time}"

    def time(self, ask: Ask, mode: Mode) -> Span:
        """For how long an allocation is asked for. Raises `SpecError`."""
        seconds, most = self.options(ask, mode, "t", 1, "/").time_s, self.place.max_time_s
        wish = None if ask.options is None else ask.options.time_s  # what a job wants does not grow
        longest = seconds == wish or (most is not None and seconds >= most and (mode != "pilot" or _fills(ask, most)))
        return Span(seconds=seconds, longest=longest, saves=ask.checkpoints)

    def script(self, root: str, token: str, mode: Mode, *, stays: bool) -> str:
        """The batch script."""
        idle_s = self.pilot_idle_s if mode == "pilot" else LINGER_S if stays else 0.0
        return render(
            Script(site=self.site, agent=f"{root}/{CODE}/{agent_name()}", root=root, token=token, idle_s=idle_s)
        )


def _fills(ask: Ask, most_s: float) -> bool:
    """Whether a pilot's time is all for its first work; of what comes later, nobody knows that it needs as much."""
    return ask.longer > 1 or (resources.known_s(ask) or 0.0) >= most_s
