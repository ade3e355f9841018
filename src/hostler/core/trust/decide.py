"""Which devices to quarantine or to trust again, and what a job that failed keeps away from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from hostler.core.index import Index
from hostler.core.state import Attempt, Device, Job, State
from hostler.core.trust import canary
from hostler.core.trust.state import Doubt, Record
from hostler.model.events import DeviceQuarantined, DeviceTrusted, Event, JobRequeued
from hostler.model.fleet import DeviceSpec, Link
from hostler.model.work import FailureClass
from hostler.policy import quarantine, retry
from hostler.policy.fit import Gate, Refusal, Site
from hostler.policy.quarantine import Witness
from hostler.policy.retry import Verdict, Where

Emit: TypeAlias = Callable[[Event], None]


def review(state: State, index: Index, emit: Emit) -> None:
    """Judge the devices about which something has been learnt."""
    while index.doubted:
        name = min(index.doubted)
        index.doubted.discard(name)
        doubt = state.trust.doubts.get(name)
        if doubt is not None and name in state.devices:
            _review(state, index, state.devices[name].spec, doubt, emit)


def gate(state: State, device: str, now: float) -> Refusal | None:
    """Why a device that is not trusted is given nothing more now; `None` where it may get something.

    Once its rest is over it may have one thing at a time, until one has succeeded; where it has a canary, nothing else
    until that has.
    """
    held, doubt = state.devices[device], state.trust.doubts.get(device)
    if doubt is not None and doubt.until is not None and now < doubt.until:
        return Refusal(gate=Gate.QUARANTINE, why=f"{device} rests {doubt.until - now:.0f} s more: {doubt.why}")
    refused = canary.refusal(state, device, now)
    busy = bool(held.attempts or held.chunks)
    if refused is not None or doubt is None or state.trust.takes(device, now, busy=busy):
        return refused
    return Refusal(gate=Gate.QUARANTINE, why=f"{device} is on probation, one job at a time: {doubt.why}")


def retry_gate(job: Job, site: Site, now: float) -> Refusal | None:
    """Why a job that has failed before keeps away from a device; `None` where it does not.

    It keeps away only where it had another place to go to when it failed, and never for longer than half an hour.
    """
    if not job.avoid and job.vram_above is None:
        return None
    return retry.refusal(job.avoid, job.vram_above, job.vram_until, site.device, now)


def environment(job: Job, device: DeviceSpec) -> dict[str, str]:
    """What a process of the job is told on a device because of what failed before."""
    scale = retry.scale_on(job.batch_scale, job.vram_above, device)
    return {} if scale == 1.0 else {"HOSTLER_BATCH_SCALE": f"{scale:g}"}


def where(state: State, job: Job) -> Where:
    """Where the job's attempt runs, as far as it matters for what to do when it has failed."""
    if job.attempt is None:
        return retry.ANYWHERE
    device = state.devices[job.attempt.device]
    return Where(
        vram_gb=device.spec.vram_gb,
        shared=_is_shared(device),
        batch_scale=retry.scale_on(job.batch_scale, job.vram_above, device.spec),
    )


def against(
    state: State, job: Job, failure: FailureClass, *, reported: bool, doubtful: bool = False
) -> tuple[str, ...]:
    """The devices that a failure of the job's attempt speaks against; `reported`: by its node, which was there.

    `doubtful`: it may have been the device's fault as well as the job's.
    """
    attempt = job.attempt
    if attempt is None:
        return ()
    device = state.devices[attempt.device]
    node = state.nodes[device.spec.node]
    lost = not reported or node.link is not Link.UP or node.since > attempt.leased_at
    small = not _is_shared(device) and quarantine.is_small(job.spec.resources.vram_gb, device.spec.vram_gb)
    speaks = quarantine.speaks_against(failure, node_lost=lost, small=small, doubtful=doubtful)
    return attempt.devices if speaks else ()


def requeued(
    state: State,
    index: Index,
    job: Job,
    failure: FailureClass | None,
    verdict: Verdict,
    why: str,
    takes: Callable[[str], bool],
    against: tuple[str, ...] = (),
) -> JobRequeued:
    """The job goes back to the queue. It keeps away from where it failed, as long as there is somewhere else.

    `takes`: whether a device may have the job, as far as more than failures keeps it off.
    """
    until = index.now + verdict.avoid_s
    places = _places(state, job.attempt, verdict)
    keeps_away = bool(places) or verdict.vram_above is not None
    avoid = {**job.avoid, **dict.fromkeys(places, until)}
    elsewhere = keeps_away and _has_place(state, index, job, avoid, verdict, takes)
    return JobRequeued(
        job=job.id,
        failure=failure,
        not_before=index.now + verdict.rest_s,
        why=why,
        against=against,
        avoid=places[0] if places and elsewhere else None,
        avoid_until=until if elsewhere else 0.0,
        vram_above=verdict.vram_above if elsewhere else None,
        batch_scale=verdict.batch_scale if failure is FailureClass.MEMORY else 1.0,
    )


def _review(state: State, index: Index, device: DeviceSpec, doubt: Doubt, emit: Emit) -> None:
    if doubt.until is not None and doubt.proved is not None:
        # A canary asks less of a device than work does: what came before is not forgotten.
        bans = doubt.bans if device.id in state.trust.proofs else 0
        emit(DeviceTrusted(device=device.id, why=f"{doubt.proved} succeeded on it", bans=bans))
    elif doubt.until is not None and doubt.strikes:
        _review_probe(state, index, device, doubt, emit)
    elif doubt.until is None:
        witnesses = {each.family: _witness(state, each.family, device) for each in doubt.strikes}
        why = quarantine.verdict(state.rules.quarantine, doubt.strikes, witnesses)
        if why is not None:
            _ban(state, index, device, doubt, why, emit)


def _review_probe(state: State, index: Index, device: DeviceSpec, doubt: Doubt, emit: Emit) -> None:
    strike = doubt.strikes[-1]
    if quarantine.counts(strike, doubt.strikes, _witness(state, strike.family, device)):
        _ban(state, index, device, doubt, f"{strike.job} failed on it ({strike.failure}) as a probe", emit)


def _ban(state: State, index: Index, device: DeviceSpec, doubt: Doubt, why: str, emit: Emit) -> None:
    strikes = doubt.bans + 1
    until = index.now + quarantine.rest_s(state.rules.quarantine, strikes)
    emit(DeviceQuarantined(device=device.id, why=why, until=until, strikes=strikes))


def _witness(state: State, name: str, device: DeviceSpec) -> Witness:
    record = state.trust.records.get(name) or Record()
    return Witness(
        succeeded_at=max(record.succeeded.values(), default=None),
        elsewhere_at=_latest(record.succeeded, device.id),
        failed_at=_latest(record.failed, device.node),
    )


def _latest(places: Mapping[str, float], but: str) -> float | None:
    return max((at for name, at in places.items() if name != but), default=None)


def _is_shared(device: Device) -> bool:
    return len(device.attempts) + len(device.chunks) > 1


def _places(state: State, attempt: Attempt | None, verdict: Verdict) -> tuple[str, ...]:
    if attempt is None or verdict.avoid is None:
        return ()
    return (attempt.device,) if verdict.avoid == "device" else (state.devices[attempt.device].spec.node,)


def _has_place(
    state: State,
    index: Index,
    job: Job,
    avoid: Mapping[str, float],
    verdict: Verdict,
    takes: Callable[[str], bool],
) -> bool:
    """Whether a device can be reached that takes the job and that the job does not keep away from."""
    now = index.now
    bounds = (verdict.vram_above, job.vram_above if job.vram_until > now else None)
    bound = max((each for each in bounds if each is not None), default=None)
    return any(
        retry.refusal(avoid, bound, now + verdict.avoid_s, state.devices[name].spec, now) is None
        and gate(state, name, now) is None
        and takes(name)
        for name in _fitting(state, index, job)
    )


def _fitting(state: State, index: Index, job: Job) -> Iterator[str]:
    for cls, members in index.members.items():
        if index.misfit(job.spec.resources, job.spec.work, cls) is None:
            yield from filter(state.puts_work_on, members)
