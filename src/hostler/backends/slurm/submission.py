"""Whether a partition takes what each kind of work asks of it, and if not, what to change. Submits nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hostler.backends.slurm.commands import Slurm
from hostler.backends.slurm.errors import SlurmDown, SlurmRefused
from hostler.backends.slurm.finding import Finding
from hostler.backends.slurm.options import Options
from hostler.backends.slurm.terms import Terms
from hostler.backends.slurm.tiny import usual
from hostler.model.errors import SpecError
from hostler.model.fleet import DeviceSpec
from hostler.model.pools import Mode
from hostler.model.work import WorkKind

BATCH = "submission"
"""Of the batch that is only asked about."""
SMALL_GB = 0.1
PREFIX = re.compile(r"^sbatch: (?:(?:allocation failure|Batch job submission failed): )?")


async def submissions(
    node: str,
    slurm: Slurm,
    terms: Terms,
    kinds: Sequence[WorkKind],
    devices: Sequence[DeviceSpec],
    root: str,
    array_max: int,
) -> list[Finding]:
    """A finding for all kinds of work that are taken, and one for each reason why others are not. Raises `SlurmDown`.

    `terms` are within what the partition allows; the script of `BATCH` lies in the folder.
    """
    accepted: dict[WorkKind, None] = {}
    refusals: defaultdict[tuple[str, str, bool], dict[str, None]] = defaultdict(dict)
    for work in kinds:
        for device in _classes(devices):
            refusal = await _refusal(slurm, terms, work, device, min(len(devices), array_max), root)
            if refusal is None:
                accepted[work] = None
            else:
                of = f" on {device.model}" if device.model and len(list(_classes(devices))) > 1 else ""
                refusals[refusal][f"{work}{of}"] = None
    found = [_refused(node, list(whose), *refusal) for refusal, whose in refusals.items()]
    if accepted:
        found.insert(0, Finding(node, "submission", "ok", f"sbatch takes {', '.join(accepted)} (--test-only)"))
    return found


def refusal_of(error: str) -> tuple[str, str]:
    """What sbatch says, and what to do about it."""
    says, _, fix = PREFIX.sub("", error).partition(": ")
    return says, fix


def _refused(node: str, whose: Sequence[str], says: str, fix: str, later: bool) -> Finding:
    return Finding(node, "submission", "warning" if later else "error", f"{', '.join(whose)}: {says}", fix)


def _classes(devices: Sequence[DeviceSpec]) -> Iterator[DeviceSpec]:
    """One of each kind and type."""
    return iter({(each.kind, each.model): each for each in reversed(devices)}.values())


async def _refusal(
    slurm: Slurm, terms: Terms, work: WorkKind, device: DeviceSpec, tasks: int, root: str
) -> tuple[str, str, bool] | None:
    """What is wrong with it, what to do, and whether the same may be taken later."""
    mode, script = terms.mode(work), f"{root}/jobs/{BATCH}/script.sh"
    try:
        asked = terms.options(usual(work, device), mode, BATCH, tasks, root)
    except SpecError as error:
        says, _, fix = str(error).partition("; ")
        return says, fix, False
    try:
        await slurm.would_take(asked, script)
    except SlurmRefused as error:
        says, fix = refusal_of(str(error))
        setting = error.setting
        if setting in (None, "slurm.resources", "slurm.gpu_type"):
            setting = await _culprit(slurm, asked, script, work, mode) or setting
            fix = f"look at `{setting}` ({terms.in_words(usual(work, device), mode)})" if setting else fix
        return says, fix or "run sbatch by hand with the same options", error.later
    return None


async def _culprit(slurm: Slurm, asked: Options, script: str, work: WorkKind, mode: Mode) -> str | None:
    """The setting without which it would be taken; `None`: it is several of them, or none."""
    for setting, without in _variants(asked, work, mode):
        if without == asked:
            continue
        try:
            await slurm.would_take(without, script)
        except SlurmDown:
            raise
        except SlurmRefused:
            continue
        return setting
    return None


def _variants(asked: Options, work: WorkKind, mode: Mode) -> Iterator[tuple[str, Options]]:
    """The same with one wish less each, by the setting that wishes it."""
    resources = f"slurm.resources.{work}"
    yield f"{resources}.memory_gb", replace(asked, memory_gb=min(asked.memory_gb, SMALL_GB))
    yield f"{resources}.cpus_least", replace(asked, cpus=1)
    time = "slurm.pilot_s" if mode == "pilot" else f"{resources}.most_s"
    yield time, replace(asked, time_s=min(asked.time_s, 60.0))
    yield "slurm.gpu_type", replace(asked, gpu_type=None)
    yield "slurm.constraint", replace(asked, constraint=None)
    yield "slurm.reservation", replace(asked, reservation=None)
    yield "slurm.qos", replace(asked, qos=None)
    yield "slurm.account", replace(asked, account=None)
    yield "slurm.extra", replace(asked, extra=())
    yield "gpus", replace(asked, gpus=0)
    yield "slurm.mode", replace(asked, tasks=None, limit=None)
