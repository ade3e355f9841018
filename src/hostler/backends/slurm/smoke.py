"""One tiny job for each partition and kind of work, on the way that all work takes, with what that work asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal
from uuid import uuid4

from hostler.backends.slurm import tiny
from hostler.backends.slurm.check import PROBE, Part, unheard
from hostler.backends.slurm.opening import CODE, agent_name
from hostler.backends.slurm.visiting import Visit
from hostler.model.errors import FilesError, LinkError
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.record import record
from hostler.model.work import WorkKind


@record
class Smoked:
    """One of them, and what became of it."""

    node: str
    work: WorkKind
    job: str | None = None
    wants: str | None = None
    waited_s: float | None = None
    ran_s: float | None = None
    result: Literal["ok", "waited", "failed"]
    """`waited`: it did not begin in time, and was cancelled."""
    says: str
    """Where it ran, or why it did not."""
    fix: str = ""


class Smoke:
    """All of one cluster. `turns` lets so many go on at a time."""

    def __init__(self, visit: Visit, wait_s: float, turns: asyncio.Semaphore, tell: Callable[[Smoked], None]) -> None:
        self._visit = visit
        self._wait_s = wait_s
        self._turns = turns
        self._tell = tell

    async def run(self, parts: Sequence[Part]) -> list[Smoked]:
        """Each partition's, in their order."""
        told = await asyncio.gather(*map(self._partition, parts))
        return [each for row in told for each in row]

    async def _partition(self, part: Part) -> list[Smoked]:
        try:
            spec = await self._visit.hosts[part.node].begin()
        except LinkError as error:
            return [self._done(failure(part.node, work, error)) for work in part.kinds]
        free: asyncio.Queue[DeviceSpec] = asyncio.Queue()
        for device in spec.devices:
            free.put_nowait(device)
        if free.empty():
            nothing = LinkError("the partition has no slot; look at `slurm.gpu_type`, `gpus` and `cpu_slots`")
            return [self._done(failure(part.node, work, nothing)) for work in part.kinds]
        return list(await asyncio.gather(*(self._kind(part, spec, work, free) for work in part.kinds)))

    async def _kind(self, part: Part, spec: NodeSpec, work: WorkKind, free: asyncio.Queue[DeviceSpec]) -> Smoked:
        async with self._turns:
            device = await free.get()
            try:
                return self._done(await self._one(part, spec, work, device))
            except (LinkError, FilesError) as error:
                return self._done(failure(part.node, work, error))
            finally:
                free.put_nowait(device)

    async def _one(self, part: Part, spec: NodeSpec, work: WorkKind, device: DeviceSpec) -> Smoked:
        visit, name, text = self._visit, f"{part.node}.{work}", uuid4().hex
        await visit.desk.probe(f"{PROBE}/{name}.login", text)
        folder = f"{visit.root}/{PROBE}/{name}"
        agent = f"{visit.root}/{CODE}/{agent_name()}"
        words = tiny.Words(read=f"{folder}.login", write=f"{folder}.node", token=text, agent=agent)
        ask = tiny.usual(work, device, None if spec.pool is None else spec.pool.longest_s, short=True)
        order = tiny.order(f"smoke-{name}", device, ask, python=part.python, env=part.env, words=words)
        tried = await visit.hosts[part.node].attempt(order, self._wait_s)
        found = tiny.told_by(tried.end)
        if found is None:
            why = await unheard(visit, part.node, tried, self._wait_s)
            says, fix = why.says, why.fix
        else:
            says, fix = f"on {found.host}" + ("" if found.gpus is None else f", GPU {found.gpus}"), ""
        late = tried.late is not None and tried.began_at is None
        return Smoked(
            node=part.node,
            work=work,
            job=tried.job,
            wants=tried.wants,
            waited_s=tried.waited_s,
            ran_s=tried.ran_s,
            result="ok" if found is not None else "waited" if late else "failed",
            says=says,
            fix=fix,
        )

    def _done(self, smoked: Smoked) -> Smoked:
        self._tell(smoked)
        return smoked


def failure(node: str, work: WorkKind, error: Exception) -> Smoked:
    """One that could not even be tried."""
    says, _, fix = str(error).partition("; ")
    return Smoked(node=node, work=work, result="failed", says=says, fix=fix)
