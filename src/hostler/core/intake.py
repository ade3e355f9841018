"""From what the world tells to what is a fact: each input is checked against the state and becomes events, or nothing.

A node may tell the same thing twice, too late, or about things nobody asked for; none of that may change a result. What
must not count is refused with an event of its own, so that it is counted and can be looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, TypeAlias

from hostler.core import (
    artifacts,
    draining,
    fetching,
    foreign_use,
    judging,
    past,
    pools,
    reports,
    requests,
    restoring,
    sweeping,
)
from hostler.core.access import intake as access, sharing
from hostler.core.access.state import Sharing
from hostler.core.alerting import intake as alerting
from hostler.core.care import intake as care
from hostler.core.index import Index
from hostler.core.loop import closing, intake as loop, owners
from hostler.core.orders import sweep_of_worker, worker_id
from hostler.core.slices import Slices
from hostler.core.state import Device, Job, Node, State, Sweep, sweep_payload
from hostler.core.trust import canary
from hostler.model import events, inputs
from hostler.model.codec import fields_fault, legible, unwritable
from hostler.model.errors import NotFound
from hostler.model.events import Event, job_of
from hostler.model.fleet import Link
from hostler.model.inputs import Input
from hostler.model.work import DEFAULT_BUDGETS, FailureClass, JobState, ScriptPayload, StagePayload

Emit: TypeAlias = Callable[[Event], None]
Take: TypeAlias = Callable[[State, Index, Any, Emit], Any]

UNBLAMED_RETURNS = frozenset({"recalled", "trimmed", "parted", "agent_restarted", "node_lost", "lease"})
"""Reasons for a chunk's return that say nothing against the sweep or its worker."""


def take(state: State, index: Index, given: Input, emit: Emit) -> Any:
    """Turn one input into events; the answer is for whoever gave the input (the ids of submitted jobs, say).

    Of an input with much in it the answer is a generator, which does the work in slices and returns the answer.

    Raises `UsageError` or `Conflict` when the input asks for what cannot be; nothing is emitted then.
    """
    return TAKES[type(given)](state, index, legible(given), emit)


def _asked(state: State, index: Index, given: inputs.Asked, emit: Emit) -> Any:
    """Do what somebody asks for, and note who it was; what was done already under the same key is not done again."""
    known = access.known_answer(state, index, given)
    if known is not None:
        return known.answer
    sharing.expect_own(state, index, given)
    before = state.seq
    answer = take(state, index, given.given, sharing.signed(index, given, emit))
    if isinstance(answer, Generator):
        return _asked_in_slices(state, given, before, answer, emit)
    emit(access.accepted(given, state.seq - before, answer))
    return answer


def _asked_in_slices(state: State, given: inputs.Asked, before: int, work: Slices[Any], emit: Emit) -> Slices[Any]:
    answer = yield from work
    emit(access.accepted(given, state.seq - before, answer))
    return answer


def _begin(state: State, index: Index, given: inputs.Begin, emit: Emit) -> None:
    index.watching.fleet = None if given.nodes is None else frozenset(given.nodes)
    index.sharing = Sharing(user=given.user, shared_jobs=given.shared_jobs)
    emit(events.ControllerStarted(version=given.version, epoch=given.epoch))


def _node_found(state: State, index: Index, given: inputs.NodeFound, emit: Emit) -> None:
    known = state.nodes.get(given.node.name)
    found = replace(given.node, devices=tuple(map(legible, given.node.devices)))
    if known is None or known.spec != found:
        emit(events.NodeJoined(node=found))
        for name in [each for each in sorted(index.active) if state.sweeps[each].barred]:
            review_sweep(state, index, state.jobs[name], emit)


def _link_up(state: State, index: Index, given: inputs.LinkUp, emit: Emit) -> None:
    node = _node(state, given.node)
    known = node.agent in (None, given.agent)
    shrunk: dict[str, None] = {}
    attempts, chunks = frozenset(given.attempts), frozenset(given.chunks)
    evidence = f"{given.node} runs agent {given.agent} ({given.incarnation}); the attempt was put on agent {node.agent}"
    for device in _devices(state, index, given.node):
        for name in [each for each in device.attempts if each not in attempts]:
            if not known or state.jobs[job_of(name)].state is JobState.RUNNING:
                judging.lose(state, index, name, evidence, emit)
        restoring.take_back(state, index, device, attempts, emit)
        for name in [each for each in device.chunks if each not in chunks]:
            if not known:
                _give_back(state, name, "node_lost", emit)
                shrunk[job_of(name)] = None
    for name in shrunk:
        review_sweep(state, index, state.jobs[name], emit)
    draining.back(state, given, emit)
    foreign_use.linked(index, given.node, given.reads_devices)
    index.telemetry[given.node].memory_limits = given.memory_limits
    emit(
        events.NodeLinked(
            node=given.node,
            agent=given.agent,
            incarnation=given.incarnation,
            boot=given.boot,
            attempts=given.attempts,
            chunks=given.chunks,
        )
    )


def _link_down(state: State, index: Index, given: inputs.LinkDown, emit: Emit) -> None:
    node, why = _node(state, given.node), _without_name(given.why, given.node)
    if node.link is Link.UP or node.trouble != why:
        emit(events.NodeUnreachable(node=given.node, why=why))


def _without_name(why: str, node: str) -> str:
    """Why a node is unreachable, without its name as the subject: that stands beside it wherever it is shown."""
    subjects = (each for each in (f"node {node}", node) if why.startswith((f"{each} ", f"{each}:")))
    subject = next(subjects, None)
    return why if subject is None else why.removeprefix(subject).lstrip(" :") or why


def _launched(state: State, index: Index, given: inputs.Launched, emit: Emit) -> None:
    for name in given.attempts:
        job = _holder(state, name)
        if job is not None and job.state is JobState.LEASED:
            emit(events.AttemptLaunching(attempt=name))


def _started(state: State, index: Index, given: inputs.Started, emit: Emit) -> None:
    job = _holder(state, given.attempt)
    if job is not None and job.state in (JobState.LEASED, JobState.LAUNCHING):
        emit(events.AttemptStarted(attempt=given.attempt, pid=given.pid, pid_start=given.pid_start))


def _ended(state: State, index: Index, given: inputs.Ended, emit: Emit) -> None:
    job = _holder(state, given.attempt)
    if job is None:
        emit(events.ResultRefused(of=given.attempt, why=_stale(state, given.attempt)))
        return
    assert job.attempt is not None
    if job.attempt.ended is not None:
        return  # it is told twice
    fault = unwritable(given.result)
    if fault is None and isinstance(job.spec.payload, ScriptPayload):
        fault = fields_fault(given.result)
    if fault is not None:
        given = replace(given, result=None, result_error=fault)
    fetch = fetching.needed(state, job, given, failed=judging.told_failure(state, job, given) is not None)
    emit(
        events.AttemptEnded(
            attempt=given.attempt,
            started_at=given.started_at,
            ended_at=given.ended_at,
            exit_code=given.exit_code,
            signal=given.signal,
            reason=given.reason,
            error=given.error,
            cpu_s=given.cpu_s,
            max_rss_bytes=given.max_rss_bytes,
            # What a stage tells becomes facts of its own, unless it has to wait for its files.
            result=None if fetch is None and isinstance(job.spec.payload, StagePayload) else given.result,
            result_error=given.result_error,
            left=given.left,
            evidence=given.evidence,
            fetch=fetch,
        )
    )
    if fetch is None:
        judging.judge(state, index, job, given, emit)


def _fetched(state: State, index: Index, given: inputs.Fetched, emit: Emit) -> None:
    job = _holder(state, given.attempt)
    if job is None or job.attempt is None or job.attempt.ended is None:
        return
    ended = fetching.told(job.attempt.ended)
    files = tuple(map(legible, given.files))  # names of files are bytes, and need not be text
    emit(events.FilesFetched(attempt=given.attempt, files=files, error=given.error, unfetched=given.unfetched))
    if given.error is None or job.cancelling is not None:
        judging.judge(state, index, job, ended, emit)
    else:
        closing.write_off(state, given.attempt, given.error, emit)
        judging.fail_attempt(state, index, job, FailureClass.RESULT, given.error, emit, ended=ended)


def _searched(state: State, index: Index, given: inputs.Searched, emit: Emit) -> None:
    sweep = state.sweeps.get(job_of(given.chunk))
    if sweep is None or given.chunk not in sweep.leases:
        emit(events.ResultRefused(of=given.chunk, why="the chunk is not leased: it is done already, or was given up"))
        return
    job = state.jobs[sweep.job]
    given = sweeping.searched_within(sweep, given)
    fault = _result_fault(job, sweep.ledger.leased[given.chunk], given)
    if fault is not None:
        emit(events.ResultRefused(of=given.chunk, why=fault))
        _give_back(state, given.chunk, "refused", emit, error=fault)
    else:
        emit(_chunk_done(given))
    review_sweep(state, index, job, emit)


def _chunk_done(given: inputs.Searched) -> events.ChunkDone:
    return events.ChunkDone(chunk=given.chunk, hits=given.hits, elapsed_s=given.elapsed_s, overhead_s=given.overhead_s)


def _returned(state: State, index: Index, given: inputs.Returned, emit: Emit) -> None:
    sweep = state.sweeps.get(job_of(given.chunk))
    if sweep is None or given.chunk not in sweep.leases:
        return
    job, (start, stop) = state.jobs[sweep.job], sweep.ledger.leased[given.chunk]
    given = sweeping.returned_within(sweep, given)
    position, hits = given.position, given.hits
    if position is not None and not _checkpoint_holds(job, start, stop, given):
        emit(events.ResultRefused(of=given.chunk, why=f"its checkpoint at {position} does not belong to the sweep"))
        position, hits = None, ()
    _give_back(state, given.chunk, given.reason, emit, position=position, hits=hits, error=given.error)
    review_sweep(state, index, job, emit)


def _worker_refused(state: State, index: Index, given: inputs.WorkerRefused, emit: Emit) -> None:
    sweep = state.sweeps.get(sweep_of_worker(given.worker))
    if sweep is None or state.jobs[sweep.job].state.final or requests.is_ending(state, sweep):
        return
    job = state.jobs[sweep.job]
    for device in sorted(sweep.workers - sweep.barred.keys()):
        if worker_id(job.id, state.devices[device]) == given.worker:
            why = f"its worker did not start: {given.error}"
            emit(events.SweepBarred(job=job.id, device=device, why=why))
    review_sweep(state, index, job, emit)


def _progress(state: State, index: Index, given: inputs.Progress, emit: Emit) -> None:
    for chunk, (position, hits) in given.chunks.items():
        sweep = state.sweeps.get(job_of(chunk))
        if sweep is not None and chunk in sweep.leases and sweeping.lies_in(sweep, chunk, position):
            sweeping.note_progress(sweep.leases[chunk], index.now, position, hits, given.found.get(chunk))


def _trouble(state: State, index: Index, given: inputs.Trouble, emit: Emit) -> None:
    emit(events.TroubleRecorded(where=given.where, what=given.what))


def _configure(state: State, index: Index, given: inputs.Configure, emit: Emit) -> None:
    if given.rules != state.rules:
        emit(events.RulesSet(rules=given.rules))


def _planned(state: State, index: Index, given: inputs.Planned, emit: Emit) -> None:
    index.plan, index.prices = given.plan, given.plan.prices


def _drain(state: State, index: Index, given: inputs.Drain, emit: Emit) -> None:
    index.draining = True


def _end_hour(state: State, index: Index, given: inputs.EndHour, emit: Emit) -> None:
    emit(events.HourEnded())


def _tick(state: State, index: Index, given: inputs.Tick, emit: Emit) -> None:
    """Time is looked at after every batch of inputs anyway."""


TAKES: dict[type, Take] = {
    inputs.Begin: _begin,
    **restoring.TAKES,
    **requests.TAKES,
    inputs.NodeFound: _node_found,
    inputs.LinkUp: _link_up,
    inputs.LinkDown: _link_down,
    inputs.Launched: _launched,
    inputs.Started: _started,
    inputs.Ended: _ended,
    inputs.Fetched: _fetched,
    inputs.SoFar: closing.so_far,
    inputs.Secured: closing.secured,
    inputs.Searched: _searched,
    inputs.Returned: _returned,
    inputs.WorkerRefused: _worker_refused,
    inputs.DeviceProved: canary.proved,
    inputs.Progress: _progress,
    inputs.Telemetry: care.telemetry,
    inputs.Trouble: _trouble,
    inputs.Declare: loop.declare,
    inputs.Fitted: loop.fitted,
    inputs.RollBack: loop.roll_back,
    inputs.PauseConfig: owners.pause,
    inputs.ResumeConfig: owners.resume,
    inputs.Spawn: owners.spawn,
    inputs.Configure: _configure,
    inputs.Planned: _planned,
    inputs.Drain: _drain,
    inputs.CordonNode: draining.cordon,
    inputs.ResumeNode: draining.resume,
    inputs.CordonDevice: draining.cordon_device,
    inputs.ResumeDevice: draining.resume_device,
    inputs.NodeGoes: draining.goes,
    inputs.CreateToken: access.create_token,
    inputs.RevokeToken: access.revoke_token,
    inputs.NoteSecret: access.note_secret,
    inputs.Asked: _asked,
    inputs.Knowing: past.knowing(take),
    inputs.Reported: reports.reported(take),
    inputs.EndHour: _end_hour,
    inputs.Tick: _tick,
    **pools.TAKES,
    **alerting.TAKES,
    **artifacts.TAKES,
}


def _give_back(
    state: State,
    chunk: str,
    reason: str,
    emit: Emit,
    *,
    position: int | None = None,
    hits: tuple[dict[str, Any], ...] = (),
    error: str | None = None,
) -> None:
    """End a lease at its last checkpoint; what comes from a barred device says no more than was known."""
    sweep = state.sweeps[job_of(chunk)]
    start, _ = sweep.ledger.leased[chunk]
    reached = start if position is None else position
    expected = requests.is_ending(state, sweep) or sweep.leases[chunk].device in sweep.barred
    emit(
        events.ChunkReturned(
            chunk=chunk,
            position=reached,
            hits=hits,
            reason=reason,
            error=error,
            blame=reason not in UNBLAMED_RETURNS and not expected,
        )
    )


def review_sweep(state: State, index: Index, job: Job, emit: Emit) -> None:
    """After a chunk came back: is the sweep done, hopeless, or simply going on?"""
    sweep = state.sweeps[job.id]
    if sweep.ledger.complete and sweep.hits <= sweep_payload(job).max_hits:
        emit(events.JobDone(job=job.id, attempt=None, result={"hits": sweep.hits, "items": sweep.ledger.total}))
        return
    if not requests.is_ending(state, sweep):
        for device, why in _failing(sweep, _worker_budget(job)).items():
            emit(events.SweepBarred(job=job.id, device=device, why=why))
        hopeless = _hopeless(state, index, sweep, job)
        if hopeless is not None:
            emit(events.SweepGivenUp(job=job.id, failure=hopeless[0], why=hopeless[1]))
    requests.close_if_idle(state, index, job, emit)


def _worker_budget(job: Job) -> int:
    return job.spec.retry.max_attempts.get(FailureClass.WORKER, DEFAULT_BUDGETS[FailureClass.WORKER])


def _failing(sweep: Sweep, budget: int) -> dict[str, str]:
    """Devices on which the sweep's worker failed as often as it may, and how; a place others failed at is no proof."""
    in_a_row = {
        device: f"its worker failed {count} times in a row ({budget} allowed)"
        for device, (count, _) in sweep.in_a_row.items()
        if count >= budget
    }
    at_one_place = {
        min(sweep.struck[position]): f"its worker failed {count} times at {position} ({budget} allowed)"
        for position, count in sweep.strikes.items()
        if count >= budget and len(sweep.struck.get(position, ())) == 1
    }
    failing = {**in_a_row, **at_one_place}
    return {device: why for device, why in failing.items() if device not in sweep.barred}


def _hopeless(state: State, index: Index, sweep: Sweep, job: Job) -> tuple[FailureClass, str] | None:
    max_hits, budget = sweep_payload(job).max_hits, _worker_budget(job)
    if sweep.hits > max_hits:
        return FailureClass.RESULT, f"{sweep.hits} hits, more than max_hits = {max_hits}: the search excludes nothing"
    for position, count in sweep.strikes.items():
        if count >= budget and len(devices := sweep.struck.get(position, ())) > 1:
            where = f"at {position}, on {len(devices)} devices"
            return FailureClass.WORKER, f"its worker failed {count} times {where} ({budget} allowed)"
    return _barred_everywhere(state, index, sweep, job) if sweep.barred else None


def _barred_everywhere(state: State, index: Index, sweep: Sweep, job: Job) -> tuple[FailureClass, str] | None:
    fitting = [name for name in index.places if index.suits(job, name)]
    if fitting and sweep.barred.keys() >= set(fitting):
        name = min(fitting)
        return FailureClass.WORKER, f"no device is left for it; {name}: {sweep.barred[name]}"
    return None


def _result_fault(job: Job, leased: tuple[int, int], given: inputs.Searched) -> str | None:
    payload = sweep_payload(job)
    if given.digest != payload.digest:
        return f"searched with other parameters: digest {given.digest[:12]}…, not {payload.digest[:12]}…"
    if (given.start, given.stop) != leased:
        return f"searched [{given.start}, {given.stop}), not [{leased[0]}, {leased[1]})"
    return sweeping.hits_fault(given.hits, given.start, given.stop)


def _checkpoint_holds(job: Job, start: int, stop: int, given: inputs.Returned) -> bool:
    assert given.position is not None
    if not start <= given.position <= stop or given.digest != sweep_payload(job).digest:
        return False
    return sweeping.hits_fault(given.hits, start, given.position) is None


def _node(state: State, name: str) -> Node:
    node = state.nodes.get(name)
    if node is None:
        raise NotFound(f"there is no node {name!r} in the fleet; `hostler node list` lists them")
    return node


def _holder(state: State, attempt: str) -> Job | None:
    """The job that runs this very attempt now."""
    job = state.jobs.get(job_of(attempt))
    return job if job is not None and job.attempt is not None and job.attempt.id == attempt else None


def _stale(state: State, attempt: str) -> str:
    job = state.jobs.get(job_of(attempt))
    if job is None:
        return "no such job"
    current = "none" if job.attempt is None else job.attempt.id
    return f"the job is {job.state}, its current attempt is {current}"


def _devices(state: State, index: Index, node: str) -> list[Device]:
    return [state.devices[name] for name in index.devices_at.get(node, ())]
