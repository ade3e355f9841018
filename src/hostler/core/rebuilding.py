"""The index of a state, made from nothing."""

from __future__ import annotations

from collections.abc import Collection

from hostler.core import cordons, environments, leases, yielding
from hostler.core.index import Index
from hostler.core.state import Job, State, Sweep, speed_of
from hostler.model.work import JobState, WorkKind
from hostler.policy.population import EXPLORATION_GAP_S


def rebuilt(state: State, jobs: Collection[Job] | None = None, like: Index | None = None) -> Index:
    """The index of a state, from nothing.

    To be compared only, it may be made of fewer `jobs`, without some that are over; and what nodes say of themselves
    may be taken over from another index, which is `like` it.
    """
    index = Index(now=state.at)
    jobs = state.jobs.values() if jobs is None else jobs
    if like is not None:
        index.places, index.sites, index.classes = like.places, like.sites, like.classes
        index.samples, index.members = like.samples, like.members
    for node in state.nodes.values() if like is None else ():
        index.join(node.spec)
    _index_past(state, index)
    index.roll.numbers = sorted(job.number for job in jobs)
    for job in jobs:
        index.count(job, None, job.state)
        if job.ended_at is not None:
            index.roll.ended(job.number, job.ended_at)
        index.await_dependencies(state, job)
        if not job.state.final:
            index.expect(job, 1)
        if job.attempt is not None:
            index.attempt_put(state, job, job.attempt)
    for job in sorted(jobs, key=lambda each: each.rank):
        if job.state is JobState.PENDING or (job.id in state.sweeps and not job.state.final):
            index.enqueue(state, job)
    for sweep in state.sweeps.values():
        _index_sweep(state, index, sweep)
    for name, device in state.devices.items():
        index.devices_at[device.spec.node][name] = None
        index.opened(state, name)
        yielding.note(state, index, device)
    for node in state.nodes.values():
        leases.watch(state, index, node)
    for cordon in state.device_cordons.values():
        if cordon.until is not None:
            index.do_later(cordons.CHORE, cordon.until)
    _index_loops(state, index)
    _index_trust(state, index, jobs)
    environments.watch(state, index)
    for name in {*state.care.nodes, *state.care.lanes}:
        index.expire_later(state, name)
    return index


def _index_past(state: State, index: Index) -> None:
    for key, count in state.past.counts.items():
        work, _, name = key.partition(" ")
        index.counts[JobState(name)] += count
        index.kinds.counts[WorkKind(work), JobState(name)] += count


def _index_loops(state: State, index: Index) -> None:
    index.loops_due = set(state.configs)
    for config in state.configs.values():
        for rest in config.rests.values():
            index.rest_loop(config.spec.name, rest.until)
        if config.paused is not None:
            index.wake_loop(config.spec.name, config.paused.until)
        if config.explored_at is not None:
            index.wake_loop(config.spec.name, config.explored_at + EXPLORATION_GAP_S)
        for name, stage in config.jobs.items():
            index.selfplaying += stage is WorkKind.SELFPLAY and state.jobs[name].attempt is not None


def _index_trust(state: State, index: Index, jobs: Collection[Job]) -> None:
    for name, doubt in state.trust.doubts.items():
        index.doubted.add(name)
        if doubt.until is not None:
            index.look_again(name, doubt.until)
    for name, proof in state.trust.proofs.items():
        if not proof.ok:
            index.look_again(name, proof.again_at)
    for job in jobs:
        if job.state is JobState.PENDING:
            for until in {*job.avoid.values(), job.vram_until} - {0.0}:
                index.reconsider(job.id, until)


def _index_sweep(state: State, index: Index, sweep: Sweep) -> None:
    index.attained_s[sweep.job] += sweep.served_s
    for lease in sweep.leases.values():
        index.chunk_put(sweep.job, lease.device, lease.expected_s)
        speed = speed_of(state, sweep, lease.device)
        index.at_work(sweep.job, lease.device, 0.0 if speed is None else speed.per_s)
