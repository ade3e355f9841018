"""A short program on a machine of a Ray cluster that is named, as a job of the cluster that is gone afterwards.

It asks for no CPU: a cluster that is busy answers, too, and so does a head that takes no work.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from contextlib import suppress
from uuid import uuid4

from hostler.backends.ray.errors import RayDown, RayRefused
from hostler.backends.ray.machines import Machine, Wants
from hostler.backends.ray.rest import Job, RayRest
from hostler.model.record import record

POLL_S = 0.3
LOG_S = 3.0
"""So long after its end the last words of a job are waited for."""
END_S = 10.0
"""So long it is waited for that a job ends which was told to, before it is left to Ray."""
WATCHED_S = 3.0
"""So long after its end Ray watches a job: one that was forgotten meanwhile is put back on its list, failed (2.60)."""
NODE_ID = "ray.io/node-id"
TOUCH = 0.001
"""Of what a machine has of its own name, where it has no label of its id (Ray before 2.49)."""


@record
class Errand:
    """What came of it."""

    name: str
    """Of its job."""
    status: int | None
    """Its exit status; `None`: it did not come to its end."""
    said: str
    """All that it wrote, or why it did not end, in Ray's words or ours."""


async def run(rest: RayRest, machine: Machine, argv: Sequence[str], timeout_s: float) -> Errand:
    """Run a program there. Raises `RayDown` and `RayRefused` where the cluster cannot be asked; whatever happens, what
    was begun is ended as far as the cluster answers; `forget` takes it off the cluster's list."""
    name = f"hostler-probe-{uuid4().hex[:12]}"
    try:
        async with asyncio.timeout(timeout_s):
            await rest.submit(name, shlex.join(argv), _wants(machine), {})
            job = await _over(rest, name)
            said = await _said(rest, name, job)
    except TimeoutError:
        return Errand(name=name, status=None, said=await _why(rest, name, timeout_s))
    finally:
        await _ended(rest, name)
    return Errand(name=name, status=0 if job.status == "SUCCEEDED" else job.exit_code, said=said or job.message)


async def forget(rest: RayRest, names: Sequence[str]) -> None:
    """Have jobs that are over forgotten, as far as the cluster answers."""
    await asyncio.sleep(WATCHED_S)
    for name in names:
        with suppress(RayDown, RayRefused):
            await rest.forget(name)


def _wants(machine: Machine) -> Wants:
    """That machine and no other."""
    if NODE_ID in machine.labels:
        return Wants(cpus=0, labels={NODE_ID: machine.labels[NODE_ID]})
    return Wants(cpus=0, resources={f"node:{machine.ip}": TOUCH})


async def _over(rest: RayRest, name: str) -> Job:
    while True:
        job = await rest.job(name)
        if job is not None and job.over:
            return job
        await asyncio.sleep(POLL_S)


async def _said(rest: RayRest, name: str, job: Job) -> str:
    """Its log, which may come some moments after its end."""
    said = await rest.logs(name)
    with suppress(TimeoutError):
        async with asyncio.timeout(LOG_S):
            while not said.strip() and job.status == "SUCCEEDED":
                await asyncio.sleep(POLL_S)
                said = await rest.logs(name)
    return said


async def _why(rest: RayRest, name: str, timeout_s: float) -> str:
    """What keeps it, where the cluster says so in time."""
    words = f"did not answer within {timeout_s:g} s"
    with suppress(RayDown, RayRefused, TimeoutError):
        async with asyncio.timeout(END_S):
            job = await rest.job(name)
            return words if job is None else f"{words}: its job is {job.status.lower()}: {job.message}"
    return words


async def _ended(rest: RayRest, name: str) -> None:
    """End it if it runs. Whoever is cancelled meanwhile has asked for that, at least."""
    with suppress(RayDown, RayRefused, TimeoutError):
        async with asyncio.timeout(END_S):
            job = await rest.job(name)
            if job is not None and not job.over:
                await rest.stop(name)
                await _over(rest, name)
