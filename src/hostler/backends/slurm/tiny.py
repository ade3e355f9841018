"""The tiny job that tells what a compute node is like: it reads what was written elsewhere, and writes for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler.model.batch import Ask
from hostler.model.commands import AttemptOrder
from hostler.model.fleet import DeviceSpec
from hostler.model.inputs import Ended
from hostler.model.record import record
from hostler.model.work import BatchOptions, DeviceKind, WorkKind

TIME_S = 300.0
"""Wall time that is asked for: the cluster ends it if nobody else does."""
WALL_S = 60.0
LEASE_S = 300.0
CPUS, MEMORY_GB = 1, 1.0
"""Of a job that only looks: the less it asks for, the sooner it begins."""

PROGRAM = """
import json, os, platform, socket, subprocess, sys, time
read, write, token, agent = sys.argv[1:5]
told = {"now": time.time(), "host": os.environ.get("SLURMD_NODENAME") or socket.gethostname()}
told.update(machine=platform.machine(), python=platform.python_version(), executable=sys.executable)
told.update(gpus=os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES"))
told.update(read=None, unread=None, unwritten=None, agent=None)
try:
    with open(read) as source:
        told["read"] = source.read()
except (OSError, ValueError) as error:
    told["unread"] = str(error)
try:
    with open(write, "w") as target:
        target.write(token)
except OSError as error:
    told["unwritten"] = str(error)
try:
    told["agent"] = subprocess.run([sys.executable, agent, "--version"], stdout=-1, timeout=30).stdout.decode().strip()
except Exception as error:
    told["agent"] = "fails: %s" % error
with open(os.environ["HOSTLER_RESULT"], "w") as target:
    json.dump(told, target)
"""
"""Runs on compute nodes, with Python 3.8 or newer. Its words are those of `Words`."""


@record
class Told:
    """What one tiny job has told of the node it ran on."""

    host: str
    machine: str
    python: str
    executable: str
    now: float
    """By the node's clock."""
    gpus: str | None
    """Those it was given, as their programs see them."""
    read: str | None
    """What it found in the file that was written elsewhere."""
    unread: str | None
    """Why it could not read it."""
    unwritten: str | None
    """Why it could not write one."""
    agent: str | None
    """What the agent calls its version there."""


def small(device: DeviceSpec, most_s: float | None) -> Ask:
    """What the smallest job on a slot asks for, in a partition that allows so many seconds."""
    options = BatchOptions(cpus=CPUS, memory_gb=MEMORY_GB, time_s=_time_s(most_s))
    return Ask(work=WorkKind.SCRIPT, kind=device.kind, devices=1, model=device.model, options=options)


def usual(work: WorkKind, device: DeviceSpec, most_s: float | None = None, *, short: bool = False) -> Ask:
    """What work of a kind asks for that says nothing itself; `short`: but for the time."""
    options = BatchOptions(time_s=_time_s(most_s)) if short else None
    return Ask(work=work, kind=device.kind, devices=1, model=device.model, options=options)


def order(
    attempt: str, device: DeviceSpec, ask: Ask, *, python: str, env: Mapping[str, str], words: Words
) -> AttemptOrder:
    """An order for one tiny job."""
    return AttemptOrder(
        id=attempt,
        queue=device.queue,
        argv=(python, "-c", PROGRAM, words.read, words.write, words.token, words.agent),
        env=env,
        cwd=None,
        walltime_s=WALL_S,
        memory_bytes=None,
        grace_s=5.0,
        inputs=None,
        lease_s=LEASE_S,
        ask=ask,
    )


@record
class Words:
    """What the program is told."""

    read: str
    write: str
    token: str
    agent: str


def told_by(end: Ended | None) -> Told | None:
    """What the job told, if it ended well and said it all."""
    if end is None or end.exit_code != 0 or not isinstance(end.result, dict):
        return None
    known: dict[str, Any] = end.result
    try:
        return Told(**{name: known[name] for name in Told.__dataclass_fields__})
    except (KeyError, TypeError, ValueError):
        return None


def is_on_gpus(device: DeviceSpec) -> bool:
    """Whether a slot is one."""
    return device.kind is not DeviceKind.CPU


def _time_s(most_s: float | None) -> float:
    return TIME_S if most_s is None else min(TIME_S, most_s)
