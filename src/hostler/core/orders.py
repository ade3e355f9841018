"""What the shell must do because of an event. Orders are complete: a backend needs to know nothing else.

Orders are derived again after a restart or a reconnect, from the inventory of the node; each is carried out once,
because its id is an idempotency key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from hostler.core import cordons, dependencies, environments, pools
from hostler.core.forecast import prediction
from hostler.core.index import Index
from hostler.core.loop import closing, matches
from hostler.core.state import Attempt, Device, Job, State, Sweep, sweep_payload
from hostler.core.trust import decide as trust
from hostler.model import events
from hostler.model.batch import Ask
from hostler.model.commands import (
    AttemptOrder,
    CanaryOrder,
    ChunkOrder,
    Clear,
    CloseWorker,
    Collect,
    Command,
    Discard,
    Fit,
    Keep,
    Launch,
    Lend,
    LetGo,
    Prove,
    Recall,
    Secure,
    Stop,
    Trim,
    WorkerOrder,
)
from hostler.model.events import Event, job_of
from hostler.model.files import LINKS_LEFT, Fetch
from hostler.model.fleet import DeviceSpec, NodeSpec, binding
from hostler.model.work import (
    JobState,
    Payload,
    ScriptPayload,
    StagePayload,
    SubmitterShell,
    SweepPayload,
    WorkKind,
    disk_need,
    snapshot_of,
)
from hostler.policy import retry
from hostler.policy.placement import LEAD_S

Derive: TypeAlias = Callable[[State, Index, Any], Iterator[Command]]

TOLD_AT_ONCE_S, TOLD_S = 1.0, 60.0
"""How often self-play tells what it has closed, on ephemeral nodes and elsewhere."""
NO_SHELL = SubmitterShell()


def commands(state: State, index: Index, event: Event) -> Iterator[Command]:
    """The commands that follow from an event which has just been applied."""
    derive = DERIVES.get(type(event))
    return iter(()) if derive is None else derive(state, index, event)


def still_wanted(state: State, command: Command) -> bool:
    """Whether a command is still to be carried out after more has happened: what is over is not begun."""
    match command:
        case Launch(order=order):
            return _current(state, order.id)
        case Collect(attempt=name) | Secure(attempt=name):
            return _current(state, name)
        case Lend(chunk=chunk):
            return _leased(state, chunk.id)
        case Trim(chunk=name):
            return _leased(state, name)
        case Fit(config=name, through=through):
            return through == state.configs[name].played
    return True


def prove(state: State, device: Device) -> Prove:
    """The order to run a device's canary. It follows from no event: it is given anew on every link until answered."""
    node, spec = state.nodes[device.spec.node].spec, device.spec
    order = CanaryOrder(
        device=spec.id,
        kind=spec.kind,
        queue=spec.queue,
        argv=_resolved(node.canary, node.python) if node.canary else (),
        env={**node.env, **binding(spec)},
    )
    return Prove(node=node.name, order=order)


def worker_id(sweep: str, device: Device) -> str:
    """The name of the worker of a sweep on a device, in the whole fleet."""
    return f"w-{sweep}-{device.spec.node}-{device.spec.queue}"


def sweep_of_worker(name: str) -> str:
    """The sweep a worker was made for; ids of sweeps have no dash."""
    return name.removeprefix("w-").partition("-")[0]


def _attempt_leased(state: State, index: Index, event: events.AttemptLeased) -> Iterator[Command]:
    job, device = state.jobs[event.job], state.devices[event.device]
    assert job.attempt is not None
    yield _launch(state, index, job, job.attempt)
    if job.attempt.predicted_s is None or job.attempt.predicted_s > LEAD_S:
        # The chunk at work ends by itself; those behind it would wait for as long as the script lasts.
        for chunk in device.chunks[1:]:
            yield Recall(node=device.spec.node, chunk=chunk, reason=f"{event.attempt} takes the device")


def _preempt_requested(state: State, index: Index, event: events.PreemptRequested) -> Iterator[Command]:
    attempt = state.jobs[job_of(event.attempt)].attempt
    assert attempt is not None
    if attempt.ended is None:  # else it makes way by itself, once what it left is here: a stop would end that
        yield Stop(node=state.devices[attempt.device].spec.node, attempt=event.attempt, reason="preempted")


def _attempt_ended(state: State, index: Index, event: events.AttemptEnded) -> Iterator[Command]:
    attempt = state.jobs[job_of(event.attempt)].attempt
    assert attempt is not None
    node = state.devices[attempt.device].spec.node
    if event.fetch is not None:
        yield _collect(state, node, event.attempt, event.fetch)
        return
    if event.left is False:
        yield Discard(node=node, attempt=event.attempt)
    payload = state.jobs[job_of(event.attempt)].spec.payload
    if event.left is not False or payload.cwd is not None or snapshot_of(payload) is not None:
        yield from _cleared(state, node, event.attempt)


def _files_fetched(state: State, index: Index, event: events.FilesFetched) -> Iterator[Command]:
    """Where it has not come, what is there is all there is; it stays until the node is linked anew."""
    attempt = state.jobs[job_of(event.attempt)].attempt
    assert attempt is not None
    is_all_here = event.unfetched is None or event.unfetched.startswith(LINKS_LEFT)
    if event.error is None and is_all_here:
        yield from _cleared(state, state.devices[attempt.device].spec.node, event.attempt)


def _collect(state: State, node: str, attempt: str, fetch: Fetch) -> Collect:
    payload = state.jobs[job_of(attempt)].spec.payload
    return Collect(node=node, attempt=attempt, fetch=fetch, cwd=payload.cwd)


def _cleared(state: State, node: str, attempt: str) -> Iterator[Clear]:
    """Nothing that it left is needed there any more: what was asked for is here."""
    apart = state.nodes[node].spec.apart
    if apart or snapshot_of(state.jobs[job_of(attempt)].spec.payload) is not None:
        yield Clear(node=node, attempt=attempt, output=apart)


def _chunk_leased(state: State, index: Index, event: events.ChunkLeased) -> Iterator[Command]:
    yield _lend(state, index, state.sweeps[event.job], event.chunk, event.device)


def _chunk_shortened(state: State, index: Index, event: events.ChunkShortened) -> Iterator[Command]:
    yield Trim(node=state.devices[event.device].spec.node, chunk=event.chunk, stop=event.stop)


def _chunk_taken(state: State, index: Index, event: events.ChunkTaken) -> Iterator[Command]:
    yield Recall(node=state.devices[event.device].spec.node, chunk=event.chunk, reason=event.why)


def _cancel_requested(state: State, index: Index, event: events.CancelRequested) -> Iterator[Command]:
    yield from _let_go(state, state.jobs[event.job])


def _let_go(state: State, job: Job) -> Iterator[Command]:
    """Have everything of a job that is being cancelled end."""
    if job.attempt is not None:
        device = state.devices[job.attempt.device]
        yield Stop(node=device.spec.node, attempt=job.attempt.id, reason="cancelled")
    if job.id in state.sweeps:
        yield from _recall_all(state, state.sweeps[job.id], job.cancelling or "cancelled")


def _sweep_barred(state: State, index: Index, event: events.SweepBarred) -> Iterator[Command]:
    sweep, device = state.sweeps[event.job], state.devices[event.device]
    for chunk in (name for name, lease in sweep.leases.items() if lease.device == event.device):
        yield Recall(node=device.spec.node, chunk=chunk, reason=event.why)
    yield CloseWorker(node=device.spec.node, worker=worker_id(event.job, device))


def _sweep_given_up(state: State, index: Index, event: events.SweepGivenUp) -> Iterator[Command]:
    yield from _recall_all(state, state.sweeps[event.job], event.why)


def _job_over(
    state: State, index: Index, event: events.JobDone | events.JobFailed | events.JobCancelled
) -> Iterator[Command]:
    sweep = state.sweeps.get(event.job)
    if sweep is not None:
        for name in sweep.workers:
            index.workers.pop((event.job, name), None)
        yield from _close_workers(state, sweep)
        if snapshot_of(state.jobs[sweep.job].spec.payload) is not None:
            nodes = sorted({state.devices[name].spec.node for name in sweep.workers})
            yield from (Clear(node=node, attempt=sweep.job, output=False) for node in nodes)


def _node_linked(state: State, index: Index, event: events.NodeLinked) -> Iterator[Command]:
    """Bring the node to what it should hold: send what it never got, end what it should not have."""
    held, chunks = set(event.attempts), set(event.chunks)
    ours = [name for device in _devices(state, index, event.node) for name in device.attempts]
    yield Keep(node=event.node, attempts=tuple(dict.fromkeys(ours)), sweeps=tuple(_laid_out(state, event.node)))
    for device in _devices(state, index, event.node):
        for name in device.attempts:
            yield from _reconcile_attempt(state, index, event.node, name, name in held)
        for name in device.chunks:
            yield from _reconcile_chunk(state, index, event.node, name, name in chunks)
    for attempt, names in closing.awaited(state, event.node):
        yield Secure(node=event.node, attempt=attempt, artifacts=names)
    mine = frozenset(ours)
    stray = (name for name in event.attempts if name not in mine)
    yield from (Stop(node=event.node, attempt=name, reason="not wanted") for name in stray)
    lent = {name for device in _devices(state, index, event.node) for name in device.chunks}
    stray = (name for name in event.chunks if name not in lent)
    yield from (Recall(node=event.node, chunk=name, reason="not wanted") for name in stray)
    for sweep in state.sweeps.values():
        if sweep.workers and state.jobs[sweep.job].state.final:
            yield from _close_workers(state, sweep, event.node)


def _segments_closed(state: State, index: Index, event: events.SegmentsClosed) -> Iterator[Command]:
    names = tuple(each.sha256 for each in event.segments)
    yield Secure(node=event.node, attempt=event.attempt, artifacts=names)


def _node_cordoned(state: State, index: Index, event: events.NodeCordoned) -> Iterator[Command]:
    """The chunk at work ends by itself, unless it is asked to go; those behind it have not begun.

    Nor has any where the cluster has not begun what is to do them.
    """
    for device in _devices(state, index, event.node):
        for chunk in device.chunks[0 if event.now or pools.has_yet_to_begin(state, index, device) else 1 :]:
            yield Recall(node=event.node, chunk=chunk, reason=f"{event.node} is given no more work")


def _device_cordoned(state: State, index: Index, event: events.DeviceCordoned) -> Iterator[Command]:
    """As of a node: the chunk at work ends by itself, and those behind it go back."""
    device = state.devices[event.device]
    for chunk in device.chunks[0 if pools.has_yet_to_begin(state, index, device) else 1 :]:
        yield Recall(node=device.spec.node, chunk=chunk, reason=f"{event.device} is given no more work")


def _node_drained(state: State, index: Index, event: events.NodeDrained) -> Iterator[Command]:
    if state.cordons[event.node].who == cordons.ITSELF:
        yield LetGo(node=event.node)


def _controller_started(state: State, index: Index, event: events.ControllerStarted) -> Iterator[Command]:
    """Fits that were under way when the last controller ended, and those that failed: what failed may be mended.

    And what was not wanted any more: nodes that are linked are told then, of those that never will be it is given up.
    """
    for config in state.configs.values():
        if config.rated_matches < config.played or config.unrated_why is not None:
            yield matches.fit(config)
    held = (name for device in state.devices.values() for name in (*device.attempts, *device.chunks))
    for name in sorted({job_of(each) for each in held}):
        if state.jobs[name].cancelling is not None:
            yield from _let_go(state, state.jobs[name])


def _matches_played(state: State, index: Index, event: events.MatchesPlayed) -> Iterator[Command]:
    yield matches.fit(state.configs[event.config])


DERIVES: dict[type, Derive] = {
    events.ControllerStarted: _controller_started,
    events.MatchesPlayed: _matches_played,
    events.AttemptLeased: _attempt_leased,
    events.PreemptRequested: _preempt_requested,
    events.AttemptEnded: _attempt_ended,
    events.FilesFetched: _files_fetched,
    events.ChunkLeased: _chunk_leased,
    events.ChunkShortened: _chunk_shortened,
    events.ChunkTaken: _chunk_taken,
    events.CancelRequested: _cancel_requested,
    events.SweepBarred: _sweep_barred,
    events.SweepGivenUp: _sweep_given_up,
    events.JobDone: _job_over,
    events.JobFailed: _job_over,
    events.JobCancelled: _job_over,
    events.NodeLinked: _node_linked,
    events.SegmentsClosed: _segments_closed,
    events.NodeCordoned: _node_cordoned,
    events.NodeDrained: _node_drained,
    events.DeviceCordoned: _device_cordoned,
}


def _reconcile_attempt(state: State, index: Index, node: str, name: str, held: bool) -> Iterator[Command]:
    job = state.jobs[job_of(name)]
    assert job.attempt is not None
    if job.cancelling is not None:
        yield Stop(node=node, attempt=name, reason="cancelled")
    elif job.attempt.ended is not None and job.attempt.ended.fetch is not None:
        yield _collect(state, node, name, job.attempt.ended.fetch)
    elif job.attempt.yielding is not None:
        yield Stop(node=node, attempt=name, reason="preempted")
    elif not held and job.state in (JobState.LEASED, JobState.LAUNCHING):
        yield _launch(state, index, job, job.attempt)


def _reconcile_chunk(state: State, index: Index, node: str, name: str, held: bool) -> Iterator[Command]:
    sweep = state.sweeps[job_of(name)]
    barred = sweep.barred.get(sweep.leases[name].device)
    device = state.devices[sweep.leases[name].device]
    cordon = state.cordons.get(node) or state.device_cordons.get(device.spec.id)
    is_first = device.chunks[0] == name
    if cordon is not None and (cordon.now or not held or not is_first):
        yield Recall(node=node, chunk=name, reason=f"{node} is given no more work")
    elif state.jobs[sweep.job].cancelling is not None or sweep.given_up is not None or barred is not None:
        yield Recall(node=node, chunk=name, reason=barred or "the sweep is being ended")
    elif not held:
        yield _lend(state, index, sweep, name, sweep.leases[name].device)
    elif sweep.leases[name].lent_stop is not None:
        yield Trim(node=node, chunk=name, stop=sweep.ledger.leased[name][1])


def _laid_out(state: State, node: str) -> Iterator[str]:
    """The sweeps whose workers on a node start from a snapshot."""
    for sweep in state.sweeps.values():
        job = state.jobs[sweep.job]
        if job.state.final or snapshot_of(job.spec.payload) is None:
            continue
        if any(state.devices[name].spec.node == node for name in sweep.workers):
            yield sweep.job


def _close_workers(state: State, sweep: Sweep, node: str | None = None) -> Iterator[CloseWorker]:
    """End the workers of a sweep, on one node or on all. Once more does no harm, and the first may not have arrived."""
    for name in sorted(sweep.workers):
        device = state.devices[name]
        if node in (None, device.spec.node):
            yield CloseWorker(node=device.spec.node, worker=worker_id(sweep.job, device))


def _launch(state: State, index: Index, job: Job, attempt: Attempt) -> Launch:
    device = state.devices[attempt.device]
    node = state.nodes[device.spec.node].spec
    payload = job.spec.payload
    assert not isinstance(payload, SweepPayload)
    memory = job.spec.resources.memory_gb or state.rules.memory_gb
    shell = _shell(payload, node)
    argv = _command(payload, node, shell)
    order = AttemptOrder(
        id=attempt.id,
        queue=_queue(state, attempt),
        argv=argv,
        env={
            **node.env,
            **shell.env,
            **_bound(node, [state.devices[name].spec for name in attempt.devices]),
            **trust.environment(job, device.spec),
            **payload.env,
        },
        cwd=payload.cwd,
        walltime_s=job.spec.walltime_s,
        memory_bytes=None if memory is None else int(memory * 2**30),
        grace_s=job.spec.grace_s,
        inputs=_inputs(state, job),
        files=payload.files if isinstance(payload, ScriptPayload) else None,
        snapshot=snapshot_of(payload),
        lease_s=node.lease_s,
        tell_s=_tell_s(job, node),
        ask=None if node.pool is None else _ask(state, index, job, attempt),
        disk_bytes=_disk_bytes(job, node),
        setup=environments.setup_of(payload, argv, node),
        secrets=payload.secrets,
    )
    return Launch(node=node.name, order=order)


def _tell_s(job: Job, node: NodeSpec) -> float | None:
    """How often its result so far is worth knowing: what an ephemeral node has made may be gone the next moment."""
    if job.spec.work is not WorkKind.SELFPLAY or node.pool is not None:
        return None
    return TOLD_AT_ONCE_S if node.ephemeral else TOLD_S


def _disk_bytes(job: Job, node: NodeSpec) -> int | None:
    """Of the hosts of a pool, only what somebody has said: what lies on which of their disks is the cluster's."""
    need = job.spec.resources
    wanted_gb = (need.disk_gb or 0.0) if node.pool is not None else disk_need(need, job.spec.work)
    return int(wanted_gb * 2**30) or None


def _worker_ask(job: Job, device: DeviceSpec) -> Ask:
    need = job.spec.resources
    return Ask(
        work=job.spec.work,
        kind=device.kind,
        devices=1,
        model=device.model,
        cpus=need.cpus or None,
        memory_gb=need.memory_gb,
        options=job.spec.batch,
    )


def _bound(node: NodeSpec, devices: Sequence[DeviceSpec]) -> Mapping[str, str]:
    """What shows a process its devices; the slots of a pool are bound by the cluster itself."""
    return {} if node.pool is not None else binding(*devices)


def _ask(state: State, index: Index, job: Job, attempt: Attempt) -> Ask:
    """Each allocation that was too short makes the next one longer: what was expected of the job was too little."""
    device = state.devices[attempt.device]
    spec, need = device.spec, job.spec.resources
    known = prediction(state, index, job, device)
    return Ask(
        work=job.spec.work,
        kind=spec.kind,
        devices=len(attempt.devices),
        model=spec.model,
        cpus=need.cpus or None,
        memory_gb=need.memory_gb,
        expected_s=None if known is None else known.p90_s,
        longer=2.0 ** min(job.cut_off, retry.SHORT_MOST),
        walltime_s=job.spec.walltime_s,
        checkpoints=job.spec.checkpoints,
        options=job.spec.batch,
    )


def _queue(state: State, attempt: Attempt) -> str:
    """Several devices, and each lane beside the first, are a queue of their own: the core sees that none overlap."""
    name = "+".join(state.devices[each].spec.queue for each in attempt.devices)
    return f"{name}.{attempt.lane}" if attempt.lane else name


def _lend(state: State, index: Index, sweep: Sweep, chunk: str, device: str) -> Lend:
    start, stop = sweep.ledger.leased[chunk]
    worker = index.workers.get((sweep.job, device))
    if worker is None:
        worker = index.workers[sweep.job, device] = _worker(state, sweep, state.devices[device])
    order = ChunkOrder(id=chunk, start=start, stop=stop)
    return Lend(node=state.devices[device].spec.node, worker=worker, chunk=order)


def _worker(state: State, sweep: Sweep, device: Device) -> WorkerOrder:
    node = state.nodes[device.spec.node].spec
    payload = sweep_payload(state.jobs[sweep.job])
    return WorkerOrder(
        id=worker_id(sweep.job, device),
        queue=device.spec.queue,
        argv=_resolved(payload.worker, node.python),
        env={**node.env, **_bound(node, [device.spec])},
        digest=payload.digest,
        params=payload.params,
        silence_s=payload.silence_s,
        start_s=payload.start_s,
        cwd=payload.cwd,
        files=payload.files,
        snapshot=payload.snapshot,
        sweep=None if payload.snapshot is None else sweep.job,
        lease_s=node.lease_s,
        ask=None if node.pool is None else _worker_ask(state.jobs[sweep.job], device.spec),
    )


def _recall_all(state: State, sweep: Sweep, reason: str) -> Iterator[Command]:
    for chunk, lease in sweep.leases.items():
        yield Recall(node=state.devices[lease.device].spec.node, chunk=chunk, reason=reason)


def _inputs(state: State, job: Job) -> Mapping[str, Any] | None:
    """A stage's order; or results of what the job comes after, under the id and under the name the owner wrote."""
    if isinstance(job.spec.payload, StagePayload):
        return {**job.spec.payload.order, **closing.resumed(state, job)}
    if not job.after:
        return None
    by_id = {name: _result_of(state, name) for name in job.after}
    written = zip(job.spec.after, job.after, strict=True)
    return {**by_id, **{wrote: by_id[name] for wrote, name in written}}


def _result_of(state: State, name: str) -> Any:
    """The result of a job; of a group, a list of its jobs with their parameters and results."""
    if name not in state.groups:
        return state.jobs[name].result
    jobs = dependencies.jobs_of(state, name)
    return [{"job": job.id, "parameters": dict(job.spec.parameters), "result": job.result} for job in jobs]


def _shell(payload: Payload, node: NodeSpec) -> SubmitterShell:
    """The submitter's shell, on a node of the machine that it was on."""
    if node.backend != environments.LOCAL or not isinstance(payload, ScriptPayload) or payload.submitter is None:
        return NO_SHELL
    return payload.submitter


def _command(payload: ScriptPayload | StagePayload, node: NodeSpec, shell: SubmitterShell) -> tuple[str, ...]:
    """The command with the interpreter that it means on the node."""
    found = environments.command_of(payload, node) if isinstance(payload, ScriptPayload) else None
    if found is not None:
        return found
    if shell.program is not None:
        return (shell.program, *payload.argv[1:])
    return _resolved(payload.argv, node.python)


def _resolved(argv: tuple[str, ...], python: str) -> tuple[str, ...]:
    return (python if argv[0] == environments.PYTHON else argv[0], *argv[1:])


def _devices(state: State, index: Index, node: str) -> list[Device]:
    return [state.devices[name] for name in index.devices_at.get(node, ())]


def _current(state: State, attempt: str) -> bool:
    job = state.jobs.get(job_of(attempt))
    return job is not None and job.attempt is not None and job.attempt.id == attempt


def _leased(state: State, chunk: str) -> bool:
    sweep = state.sweeps.get(job_of(chunk))
    return sweep is not None and chunk in sweep.leases
