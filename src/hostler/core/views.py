"""What is shown of the state: values made on the spot, from the very objects that decisions are based on."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from hostler.core import away, cordons, foreign_use, leases, pools
from hostler.core.alerting import views as alerting
from hostler.core.care import views as care
from hostler.core.held import holds
from hostler.core.index import Index
from hostler.core.naming import find_job as find_job
from hostler.core.state import Attempt, Device, Job, Node, State, Sweep, duration_of, is_calls, sweep_payload
from hostler.core.trust import views as trust
from hostler.core.waits import looks_each, waits_for
from hostler.model.calls import is_batch
from hostler.model.errors import NotFound, UsageError
from hostler.model.fleet import Link
from hostler.model.views import (
    AWAY_MOST,
    DRAINING_MOST,
    FOREIGN_MOST,
    AttemptView,
    ChunkView,
    DeviceView,
    JobDetail,
    JobView,
    LedgerView,
    NodeView,
    QueueRow,
    Status,
    SweepView,
)
from hostler.model.work import JobState, WorkKind

HOUR_S, DAY_HOURS = 3600, 24


def find_sweep(state: State, name: str) -> Sweep:
    """The sweep of this id, key or unique name. Raises as `find_job`."""
    job = find_job(state, name)
    if job.id not in state.sweeps:
        raise NotFound(f"{job.id} is no sweep but a {job.spec.work} job; only sweeps have a ledger and hits")
    return state.sweeps[job.id]


def status_view(state: State, index: Index, version: str, fleet: str) -> Status:
    """The fleet in numbers. Costs nothing that grows with the number of jobs."""
    open_sweeps = sorted(name for name in index.active if not state.jobs[name].state.final)
    used = [(name, foreign_use.view(state, index, name)) for name in state.foreign_use if name in index.places]
    return Status(
        version=version,
        fleet=fleet,
        at=index.now,
        seq=state.seq,
        epoch=state.epoch,
        jobs=dict(index.counts),
        nodes_up=sum(node.link is Link.UP for node in state.nodes.values()),
        nodes=len(state.nodes),
        devices=sum(is_shown(index, device) for device in state.devices.values()),
        devices_busy=sum(bool(device.attempts or device.chunks) for device in state.devices.values()),
        refused=state.refused,
        troubles=state.troubles,
        sweeps=tuple(sweep_view(state, index, state.sweeps[name]) for name in open_sweeps[:100]),
        pressures=care.queue_pressures(state),
        nodes_pressed=len(state.care.nodes),
        devices_cordoned=sum(name in index.places for name in state.device_cordons),
        devices_used=len(used),
        foreign_use={name: shown for name, shown in used[:FOREIGN_MOST] if shown is not None},
        alerts=alerting.count(state),
        nodes_away={node.spec.name: away.reason(node) for node in _out_of_reach(state)[:AWAY_MOST]},
        draining=_still_running(state) if index.draining else None,
    )


def _out_of_reach(state: State) -> list[Node]:
    return sorted((node for node in state.nodes.values() if node.link is not Link.UP), key=lambda node: node.spec.name)


def _still_running(state: State) -> tuple[str, ...]:
    """Jobs that hold devices, in order of submission; the end of a controller that drains waits for them."""
    held = (name for device in state.devices.values() for name in (*device.attempts, *device.chunks))
    jobs = {name.rpartition(".")[0] for name in held}
    return tuple(sorted(jobs, key=lambda name: state.jobs[name].number)[:DRAINING_MOST])


def job_views(
    state: State,
    index: Index,
    states: frozenset[JobState] | None,
    after: int,
    limit: int,
    work: WorkKind | None = None,
) -> Sequence[JobView]:
    """Jobs in order of submission beyond number `after`; skips to it without looking at what lies before."""
    found = (state.jobs[f"j{number}"] for number in index.roll.beyond(after))
    wanted = (
        job for job in found if (states is None or job.state in states) and (work is None or job.spec.work is work)
    )
    return [job_view(state, job) for job in islice(wanted, limit)]


def job_view(state: State, job: Job) -> JobView:
    """One line about a job."""
    sweep = state.sweeps.get(job.id)
    return JobView(
        id=job.id,
        name=job.spec.name,
        key=job.spec.key,
        work=job.spec.work,
        state=job.state,
        priority=job.priority,
        submitted_at=job.submitted_at,
        started_at=job.started_at,
        ended_at=job.ended_at,
        duration_s=duration_of(job),
        attempts=job.attempts,
        attempt=job.attempt.id if job.attempt else None,
        device=job.attempt.device if job.attempt else job.last_device,
        why=job.why,
        failure=job.failure,
        cancelling=job.cancelling is not None,
        done_share=None if sweep is None else sweep.ledger.done_items / sweep.ledger.total,
        group=job.group,
        owner=job.owner,
        calls=is_calls(job),
        unfetched=job.unfetched,
    )


def job_detail(state: State, index: Index, job: Job) -> JobDetail:
    """Everything about a job but its story."""
    sweep = state.sweeps.get(job.id)
    return JobDetail(
        job=job_view(state, job),
        spec=job.spec,
        after=job.after,
        failures=job.failures,
        attempt=_attempt_view(state, job.attempt) if job.attempt else None,
        sweep=sweep_view(state, index, sweep) if sweep else None,
        result=job.result,
        files=job.files,
        unfetched=job.unfetched,
    )


def sweep_view(state: State, index: Index, sweep: Sweep) -> SweepView:
    """A sweep's coverage in numbers; progress inside chunks is not counted, it is not accepted yet."""
    job, ledger = state.jobs[sweep.job], sweep.ledger
    payload = sweep_payload(job)
    per_s = sum(index.fleet_per_s[sweep.job][name] for name in _at_work(sweep)) if sweep.leases else 0.0
    left = ledger.total - ledger.done_items
    return SweepView(
        job=job.id,
        name=job.spec.name,
        state=job.state,
        start=ledger.start,
        stop=ledger.stop,
        total=ledger.total,
        done=ledger.done_items,
        leased=left - ledger.free_items,
        free=ledger.free_items,
        chunks_done=sweep.chunks_done,
        chunks_out=len(sweep.leases),
        hits=sweep.hits,
        expected_by_chance=None if payload.chance is None else payload.chance * ledger.total,
        per_s=per_s or None,
        left_s=left / per_s if per_s else None,
        device_s=sweep.served_s,
        digest=payload.digest,
        day=sum(items for hour, items in sweep.hours.items() if hour >= index.now // HOUR_S - DAY_HOURS),
        calls=is_batch(payload.worker),
    )


def ledger_view(state: State, index: Index, sweep: Sweep) -> LedgerView:
    """A sweep's ledger, interval by interval."""
    return LedgerView(
        sweep=sweep_view(state, index, sweep),
        done=tuple(sweep.ledger.done),
        free=tuple(sweep.ledger.free),
        leased=tuple(_chunk_view(sweep, chunk) for chunk in sweep.leases),
    )


def sweep_views(state: State, index: Index, after: int = 0, limit: int | None = None) -> Sequence[SweepView]:
    """Sweeps in order of submission beyond job number `after`, at most `limit`; `None`: all of them."""
    wanted = (sweep for name, sweep in state.sweeps.items() if number_of(name) > after)
    return [sweep_view(state, index, sweep) for sweep in islice(wanted, limit)]


def number_of(job: str) -> int:
    """The number of a job: its place in the order of submission."""
    return int(job[1:])


def node_views(state: State, index: Index, names: Collection[str] | None = None) -> Sequence[NodeView]:
    """Nodes with their devices: those `names`, in their order, or all of them. Raises `NotFound`."""
    wanted = list(state.nodes if names is None else names)
    by_node: dict[str, list[Device]] = {name: [] for name in wanted}
    for device in state.devices.values():
        if device.spec.node in by_node and is_shown(index, device):
            by_node[device.spec.node].append(device)
    refused = gates_by_node(index)
    return [_node_view(state, index, find_node(state, name), by_node[name], refused.get(name, {})) for name in wanted]


def is_shown(index: Index, device: Device) -> bool:
    """Whether a device is listed: it is in the fleet, or still holds work."""
    return device.spec.id in index.places or bool(device.attempts or device.chunks)


def find_node(state: State, name: str) -> Node:
    """The node of this name. Raises `NotFound`."""
    if name not in state.nodes:
        raise NotFound(f"there is no node {name!r}; `hostler node list` lists them")
    return state.nodes[name]


def tier_of(index: Index, node: Node) -> int | None:
    """A node's tier; `None`: it has no GPU that is known, or is in the fleet no more."""
    site = next((index.sites[spec.id] for spec in node.spec.devices if spec.id in index.sites), None)
    return None if site is None else site.tier


def device_view(state: State, index: Index, device: Device) -> DeviceView:
    """One device and what is on it, what it is kept for, and whether it is trusted."""
    return DeviceView(
        id=device.spec.id,
        kind=device.spec.kind,
        model=device.spec.model,
        vram_gb=device.spec.vram_gb,
        attempts=tuple(device.attempts),
        chunks=tuple(device.chunks),
        reserved_for=index.reserved.get(device.spec.id),
        quarantine=trust.quarantine(state, device.spec.id, index.now),
        canary=trust.canary(state, device.spec.id, index.now),
        cordon=cordons.of_device(state, device.spec.id),
        foreign_use=foreign_use.view(state, index, device.spec.id),
        held=tuple(holds(state, device)),
        **care.device_facts(state, index, device.spec),
    )


def queue_rows(state: State, index: Index, limit: int, after: Sequence[str] = ()) -> Sequence[QueueRow]:
    """What goes next: ready scripts in order, then sweeps with work left, then what waits for something.

    It begins behind the last of the jobs `after` that still waits; raises `UsageError` where none does. What waits in
    a cluster's queue has its place there, and is told of only where it may wait for ever.
    """
    line = _line(state, index)
    begin = 0
    if after:
        whole = list(line)
        begin = _behind([job.id for job, _ in whole], after)
        line = iter(whole[begin:])
    shown = list(islice(line, limit))
    looks = looks_each(sum(says is None for _, says in shown))
    rows = [(job, waits_for(state, index, job, looks) if says is None else says) for job, says in shown]
    return [_row(place, job, waits, index.now) for place, (job, waits) in enumerate(rows, start=begin + 1)]


def gates_by_node(index: Index) -> Mapping[str, Mapping[str, int]]:
    """How often each gate has refused work on each node, the busiest first."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (node, gate), times in index.gates.items():
        found[node][gate] += times
    return {node: {str(gate): times for gate, times in counts.most_common()} for node, counts in found.items()}


def _line(state: State, index: Index) -> Iterator[tuple[Job, str | None]]:
    """The queue in order, and what is known of why a job waits without looking at devices."""
    sweeps = sorted(
        (state.jobs[name] for name in index.active if state.sweeps[name].ledger.free),
        key=lambda job: (-job.priority, index.attained_s[job.id], job.number),
    )
    # At one priority scripts go first; what is merged keeps the order of its sources.
    for job in heapq.merge(index.in_order(state), sweeps, key=lambda job: -job.priority):
        yield job, None
    yield from _held_back(state, index)


def _behind(ids: Sequence[str], after: Sequence[str]) -> int:
    """The place behind the last of `after` that is still there."""
    places = {name: place for place, name in enumerate(ids)}
    found = next((places[name] for name in reversed(after) if name in places), None)
    if found is None:
        raise UsageError("`after` leads nowhere: nothing of that page waits any more; begin again without it")
    return found + 1


def _held_back(state: State, index: Index) -> Iterator[tuple[Job, str]]:
    for waiting in pools.stuck(state, index):
        yield waiting, pools.says(state, index, waiting) or "its cluster to begin it"
    for at, name in sorted(index.timers):
        job = state.jobs.get(name)  # stages of loops rest, too, and are no jobs
        if job is not None and job.state is JobState.PENDING:
            yield job, f"rests for {max(at - index.now, 0):.0f} s more after a failure"
    for name, missing in list(index.blocked.items()):
        yield state.jobs[name], f"comes after {', '.join(sorted(missing)[:5])}"


def _row(place: int, job: Job, waits_for: str | None, now: float) -> QueueRow:
    return QueueRow(
        place=place,
        job=job.id,
        name=job.spec.name,
        work=job.spec.work,
        priority=job.priority,
        waited_s=max(now - job.submitted_at, 0.0),
        waits_for=waits_for,
        calls=is_calls(job),
    )


def _attempt_view(state: State, attempt: Attempt) -> AttemptView:
    node = state.nodes[state.devices[attempt.device].spec.node]
    return AttemptView(
        id=attempt.id,
        device=attempt.device,
        process=attempt.process,
        link=node.link,
        leased_at=attempt.leased_at,
        started_at=attempt.started_at,
        pid=attempt.pid,
    )


def _at_work(sweep: Sweep) -> set[str]:
    return {lease.device for lease in sweep.leases.values()}


def _chunk_view(sweep: Sweep, chunk: str) -> ChunkView:
    lease, (start, stop) = sweep.leases[chunk], sweep.ledger.leased[chunk]
    return ChunkView(
        chunk=chunk,
        device=lease.device,
        start=start,
        stop=stop,
        leased_at=lease.leased_at,
        expected_s=lease.expected_s,
        position=lease.position,
    )


def _node_view(state: State, index: Index, node: Node, devices: list[Device], gates: Mapping[str, int]) -> NodeView:
    cordon = state.cordons.get(node.spec.name)
    heard = index.telemetry.get(node.spec.name)
    return NodeView(
        name=node.spec.name,
        backend=node.spec.backend,
        link=node.link,
        since=node.since if node.link is Link.UP else leases.away_since(node),
        trouble=node.trouble,
        agent=node.agent,
        devices=tuple(device_view(state, index, device) for device in devices),
        pressures=care.node_pressures(state, index, node.spec.name),
        gates=gates,
        cordon=None if cordon is None else cordons.view(cordon),
        pool=node.spec.pool,
        seen=index.pools.seen.get(node.spec.name),
        batches=tuple(batch for batch in state.batches.values() if batch.node == node.spec.name),
        given_up_at=leases.first_end(state, node, devices),
        provider=node.spec.provider,
        ephemeral=node.spec.ephemeral,
        price_per_h=node.spec.price_per_h,
        tier=tier_of(index, node),
        python=node.spec.python,
        memory_limits=None if heard is None else heard.memory_limits,
    )
