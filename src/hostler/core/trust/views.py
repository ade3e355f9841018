"""Everything that is held back for a while because something failed: by whom, why, until when."""

from __future__ import annotations

from collections.abc import Iterator

from hostler.core.state import State
from hostler.core.trust import canary as proving
from hostler.model.views import BanView


def bans(state: State, now: float) -> list[BanView]:
    """All bans there are, those of devices first. Nothing is decided on them."""
    return [*_devices(state, now), *_jobs(state, now), *_sweeps(state), *_stages(state, now)]


def lasting(state: State, now: float) -> list[BanView]:
    """The same without what single jobs keep away from: no job is looked at."""
    return [*_devices(state, now), *_sweeps(state), *_stages(state, now)]


def quarantine(state: State, device: str, now: float) -> BanView | None:
    """The quarantine of a device; `None` where it is trusted."""
    doubt = state.trust.doubts.get(device)
    if doubt is None or doubt.until is None:
        return None
    why = doubt.why if now < doubt.until else f"on probation, one job at a time: {doubt.why}"
    return BanView(
        kind="quarantine", what=device, of=None, owner="scheduler", why=why, since=doubt.since, until=doubt.until
    )


def canary(state: State, device: str, now: float) -> BanView | None:
    """What keeps a device out until its canary has given the right answer; `None` where that has, or need not."""
    if state.trust.is_proved(device):
        return None
    proof = state.trust.proofs[device]
    why = proving.explained(device, proof, now).removeprefix(f"{device} ")
    until = None if proof.why is None else proof.again_at
    return BanView(kind="canary", what=device, of=None, owner="scheduler", why=why, since=proof.since, until=until)


def _devices(state: State, now: float) -> Iterator[BanView]:
    found = (
        *(quarantine(state, name, now) for name in state.trust.doubts),
        *(canary(state, name, now) for name in state.trust.proofs),
    )
    return (each for each in found if each is not None)


def _jobs(state: State, now: float) -> Iterator[BanView]:
    for job in state.jobs.values():
        if job.state.final:
            continue
        for place, until in job.avoid.items():
            if until > now:
                why = job.why or "it failed there"
                yield BanView(
                    kind="avoidance", what=place, of=job.id, owner="scheduler", why=why, since=None, until=until
                )
        if job.vram_above is not None and job.vram_until > now:
            why = f"{job.vram_above:g} GB of VRAM were too few for it"
            yield BanView(
                kind="avoidance", what="devices with no more VRAM", of=job.id, owner="scheduler", why=why,
                since=None, until=job.vram_until,
            )  # fmt: skip


def _sweeps(state: State) -> Iterator[BanView]:
    for sweep in state.sweeps.values():
        if state.jobs[sweep.job].state.final:
            continue
        for device, why in sweep.barred.items():
            yield BanView(kind="barred", what=device, of=sweep.job, owner="scheduler", why=why, since=None, until=None)


def _stages(state: State, now: float) -> Iterator[BanView]:
    for config in state.configs.values():
        for stage, rest in config.rests.items():
            if rest.until > now:
                yield BanView(
                    kind="rest", what=stage, of=config.spec.name, owner="loop", why=rest.why, since=rest.since,
                    until=rest.until,
                )  # fmt: skip
