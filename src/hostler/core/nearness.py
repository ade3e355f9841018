"""Where the data of a stage lies: bringing it elsewhere takes time, which counts.

Datasets and models are what is large and needed again. Everything that counts is in the controller's own store, from
which nodes with files of their own are brought what they lack; what was brought there, or made there, lies there still
as far as anybody knows, until another agent answers in the node's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hostler.core.index import Index
from hostler.core.loop.state import Config
from hostler.core.state import Job, State
from hostler.model import events
from hostler.model.events import job_of
from hostler.model.fleet import NodeSpec
from hostler.model.work import StagePayload, WorkKind

KEPT = 32
"""Artifacts of each node that are remembered, the newest."""
WEIGHED = frozenset({WorkKind.TRAINING, WorkKind.EVALUATION, WorkKind.EXPORT})
MB = 1e6
SHA256_DIGITS = 64
"""Of a file's name: behind them is the ending of its kind."""


def transfer_s(state: State, job: Job, node: NodeSpec) -> float:
    """Seconds until what a job needs is on a node; 0 where it is, or nothing is known to be needed."""
    if not node.apart or job.spec.work not in WEIGHED or not isinstance(job.spec.payload, StagePayload):
        return 0.0
    return waits_s(state, job, [node])[node.name]


def waits_s(state: State, job: Job, nodes: Iterable[NodeSpec]) -> dict[str, float]:
    """The same for several nodes, by their names: what the job needs is looked up once."""
    payload, rate = job.spec.payload, state.rules.placement.transfer_mb_per_s * MB
    weighed = job.spec.work in WEIGHED and isinstance(payload, StagePayload)
    needed = _needed(state.configs[payload.config], payload.order) if weighed else {}  # type: ignore[union-attr]
    whole = sum(needed.values())
    found = {}
    for node in nodes:
        there = sum(needed.get(name, 0) for name in state.lying.get(node.name, ()))
        found[node.name] = (whole - there) / rate if node.apart else 0.0
    return found


def nearest_first(state: State, index: Index, job: Job, devices: Iterable[str]) -> list[str]:
    """Devices, those first whose nodes have what the job needs; otherwise in their order."""
    devices = list(devices)
    if job.spec.work not in WEIGHED or len(devices) < 2:
        return devices
    nodes = {name: index.sites[name].node for name in devices}
    waits = waits_s(state, job, {node.name: node for node in nodes.values()}.values())
    return sorted(devices, key=lambda name: waits[nodes[name].name])


def brought(state: State, attempt: str) -> None:
    """What an attempt needs has been brought to its node."""
    job = state.jobs[job_of(attempt)]
    if job.spec.work in WEIGHED and isinstance(job.spec.payload, StagePayload):
        large = _needed(state.configs[job.spec.payload.config], job.spec.payload.order)
        _lies(state, job, [name for name in large if not _is_segment(state, job.spec.payload, name)])


def made(state: State, job: Job, artifact: str) -> None:
    """A job made something; it lies on the node of its attempt."""
    _lies(state, job, [artifact])


def dropped(state: State, index: Index, event: events.FilesDropped) -> None:
    """What was removed from a node has to be brought there again."""
    there = state.lying.get(event.node, {})
    for path in event.files:
        there.pop(path.rpartition("/")[2][:SHA256_DIGITS], None)


def another_agent(state: State, event: events.NodeLinked) -> None:
    """What lay on the node of another agent nobody knows to be there."""
    if state.nodes[event.node].agent != event.agent:
        state.lying.pop(event.node, None)


def _needed(config: Config, order: Mapping[str, Any]) -> dict[str, int]:
    """The artifacts that an order names, with their bytes, as far as those are known."""
    dataset, base = order.get("dataset"), order.get("base")
    players = [str(match[side]).rpartition("@")[2] for match in order.get("matches", ()) for side in ("a", "b")]
    named = [*players, base, None if dataset is None else dataset["sha256"]]
    sizes = {name: size for name in named if name is not None and (size := _large(config, name)) is not None}
    segments = ((each["sha256"], config.segments.get(each["sha256"])) for each in order.get("segments", ()))
    return sizes | {name: known.bytes for name, known in segments if known is not None and known.bytes is not None}


def _large(config: Config, name: str) -> int | None:
    dataset, model = config.datasets.get(name), config.models.get(name)
    if dataset is not None:
        return dataset.ref.bytes
    return None if model is None else model.training.model.bytes


def _is_segment(state: State, payload: StagePayload, name: str) -> bool:
    return name in state.configs[payload.config].segments


def _lies(state: State, job: Job, names: Iterable[str]) -> None:
    """These are on the node of the job's attempt."""
    if job.attempt is None:
        return
    node = state.devices[job.attempt.device].spec.node
    if not state.nodes[node].spec.apart:
        return
    there = state.lying.setdefault(node, {})
    for name in names:
        there.pop(name, None)
        there[name] = None
    for name in list(there)[:-KEPT]:
        del there[name]
