"""Orders in the words of the agent (docs/reference/agent-protocol.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from hostler.backends.base import Facts
from hostler.backends.channel import encoded
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.inputs import Ended
from hostler.model.record import record

WORKER_GRACE_S = 5.0
REQUEST_BYTES = 32 << 20
"""Size of one request to an agent, which takes lines of twice that."""


@record
class Limits:
    """How much of what a process writes is kept, and how much of what it leaves as its result."""

    log_bytes: int
    result_bytes: int
    build_s: float | None = None
    """How long the build of a Python environment may take; `None`: no limit, or an agent that keeps none."""


def launches(orders: Sequence[AttemptOrder], limits: Limits) -> tuple[list[Facts], list[Ended]]:
    """Requests, as many as their size asks for; and the ends of those that are too large for any."""
    sized = [(told, len(encoded(told))) for told in (_attempt(order, limits) for order in orders)]
    portions = _portions([each for each in sized if each[1] <= REQUEST_BYTES])
    requests: list[Facts] = [{"type": "launch", "attempts": attempts} for attempts in portions]
    return requests, [_too_large(told["id"], size) for told, size in sized if size > REQUEST_BYTES]


def opening(worker: WorkerOrder, limits: Limits) -> Facts:
    """The request that declares a worker."""
    values = asdict(worker)
    told = {"digest": values.pop("digest"), "params": values.pop("params")}
    bounds = {"memory_bytes": None, "grace_s": WORKER_GRACE_S, "log_bytes": limits.log_bytes}
    del values["files"], values["snapshot"], values["sweep"], values["ask"]
    return {"type": "open", "worker": {**values, **bounds, "open": told}}


def queueing(worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> Facts:
    """The request that gives chunks to a worker."""
    listed = [[chunk.id, chunk.start, chunk.stop] for chunk in chunks]
    return {"type": "chunks", "worker": worker.id, "chunks": listed}


def _attempt(order: AttemptOrder, limits: Limits) -> dict[str, Any]:
    optional: dict[str, Any] = {"inputs": order.inputs, "disk_bytes": order.disk_bytes, "tell_s": order.tell_s}
    optional["setup"] = None if order.setup is None else asdict(order.setup)
    optional["secrets"] = order.secret_values or None
    optional["build_s"] = None if order.setup is None or order.setup.file is None else limits.build_s
    return {
        "id": order.id,
        "queue": order.queue,
        "argv": order.argv,
        "env": order.env,
        "cwd": order.cwd,
        "walltime_s": order.walltime_s,
        "memory_bytes": order.memory_bytes,
        "grace_s": order.grace_s,
        "log_bytes": limits.log_bytes,
        "result_bytes": limits.result_bytes,
        "lease_s": order.lease_s,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _portions(sized: Sequence[tuple[Facts, int]]) -> Iterator[list[Facts]]:
    """Attempts, in order, cut into requests of bearable size."""
    portion: list[Facts] = []
    total = 0
    for attempt, size in sized:
        if portion and total + size > REQUEST_BYTES:
            yield portion
            portion, total = [], 0
        portion.append(attempt)
        total += size
    if portion:
        yield portion


def _too_large(attempt: str, size: int) -> Ended:
    what = (
        f"what it is to be given, results of other jobs included, takes {size} bytes; {REQUEST_BYTES} can be sent. "
        "Leave large results in files, and pass their names"
    )
    return Ended(attempt=attempt, ended_at=0.0, reason="refused", error=what)
