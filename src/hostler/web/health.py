"""The queue and the controller's parts in numbers: what comes to an end of late, not who is alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from starlette.responses import Response

from hostler.model.readings import Gist, Pace, Part, WorkReading
from hostler.model.record import record
from hostler.model.views import PressureView
from hostler.model.work import FINAL_STATES, HELD_STATES, JobState, WorkKind
from hostler.web.answers import TheDesk, answer
from hostler.web.routing import Routes

router = Routes(tags=["fleet"])


@record
class KindStatus:
    """Jobs of one kind of work."""

    work: WorkKind
    waiting: int
    oldest_wait_s: float | None
    """For how long the one waits that was submitted first; `None`: none waits."""
    held: int
    """That have devices. A sweep counts as soon as it has one."""
    done: int
    failed: int
    cancelled: int


@record
class QueueStatus:
    """What waits, what has devices, and how fast it goes; costs the same for ten jobs and for a hundred thousand."""

    at: float
    jobs: Mapping[JobState, int]
    blocked: int
    """Of those that wait, those that wait for other jobs."""
    oldest_wait_s: float | None
    kinds: tuple[KindStatus, ...]
    """Kinds of which there ever was a job."""
    devices: int
    devices_busy: int
    nodes_up: int
    nodes: int
    pressures: tuple[PressureView, ...]
    """On the queue."""
    pace: Pace


@record
class PartHealth:
    """A part of the controller and its last activity."""

    name: str
    does: str
    last_at: float | None
    age_s: float | None
    """Since it last did something; `None`: it has done nothing since the controller began."""
    times: int | None
    fault: str | None


@record
class Health:
    """Whether the controller gets on with its work."""

    at: float
    verdict: Literal["progressing", "beginning", "idle", "stalled"]
    """`progressing`: something came to an end within the window of the pace. `beginning`: too little time to tell.

    `idle`: there is nothing to do. `stalled`: there is, and nothing came to an end.
    """
    why: str
    up_since: float
    epoch: int
    seq: int
    waiting: int
    held: int
    pace: Pace
    faults: int
    """Parts that are kept from their work."""
    parts: tuple[PartHealth, ...]


@router.get("/queue/status", response_model=QueueStatus)
async def show_queue_status(desk: TheDesk) -> Response:
    """What waits, what has devices, and how fast it goes."""
    return answer(QueueStatus, queue_status(desk.gist()))


@router.get("/daemons/health", response_model=Health)
async def show_health(desk: TheDesk) -> Response:
    """What came to an end of late, and what each part of the controller last did."""
    return answer(Health, health(desk.gist(), desk.parts()))


def queue_status(gist: Gist) -> QueueStatus:
    """The queue in numbers."""
    kinds = tuple(_kind(work, gist.at) for work in gist.works if any(work.jobs.values()))
    return QueueStatus(
        at=gist.at,
        jobs={state: sum(work.jobs[state] for work in gist.works) for state in JobState},
        blocked=gist.blocked,
        oldest_wait_s=max((kind.oldest_wait_s for kind in kinds if kind.oldest_wait_s is not None), default=None),
        kinds=kinds,
        devices=gist.devices,
        devices_busy=gist.devices_busy,
        nodes_up=gist.nodes_up,
        nodes=gist.nodes,
        pressures=gist.pressures,
        pace=gist.pace,
    )


def health(gist: Gist, parts: Sequence[Part]) -> Health:
    """The controller's health; what there is to do, against what came of it."""
    waiting, held = _count(gist, {JobState.PENDING}), _count(gist, HELD_STATES)
    verdict, why = _verdict(gist, waiting, held)
    return Health(
        at=gist.at,
        verdict=verdict,
        why=why,
        up_since=gist.begun_at,
        epoch=gist.epoch,
        seq=gist.seq,
        waiting=waiting,
        held=held,
        pace=gist.pace,
        faults=sum(part.fault is not None for part in parts),
        parts=tuple(_part(part, gist.at) for part in parts),
    )


def _verdict(gist: Gist, waiting: int, held: int) -> tuple[Literal["progressing", "beginning", "idle", "stalled"], str]:
    pace = gist.pace
    ended = (pace.games_per_h, pace.chunks_per_h, pace.attempts_per_h)
    to_do = f"{held} jobs have devices, {waiting} wait"
    if any(ended):
        return "progressing", f"{to_do}; {_words(pace)}"
    if not waiting + held:
        return "idle", "nothing waits and nothing has a device"
    if pace.window_s is None:
        return "beginning", f"{to_do}; counting began less than a minute ago"
    return "stalled", f"{to_do}; nothing came to an end within the last {pace.window_s / 60:.0f} minutes"


def _words(pace: Pace) -> str:
    told = ((pace.attempts_per_h, "attempts"), (pace.chunks_per_h, "chunks"), (pace.games_per_h, "games"))
    return ", ".join(f"{value:.3g} {what} an hour" for value, what in told if value)


def _kind(work: WorkReading, now: float) -> KindStatus:
    return KindStatus(
        work=work.work,
        waiting=work.jobs[JobState.PENDING],
        oldest_wait_s=None if work.oldest_at is None else max(now - work.oldest_at, 0.0),
        held=sum(work.jobs[state] for state in JobState if state in HELD_STATES),
        **{state.value: work.jobs[state] for state in FINAL_STATES},
    )


def _count(gist: Gist, states: set[JobState] | frozenset[JobState]) -> int:
    return sum(work.jobs[state] for work in gist.works for state in states)


def _part(part: Part, now: float) -> PartHealth:
    return PartHealth(
        name=part.name,
        does=part.does,
        last_at=part.last_at,
        age_s=None if part.last_at is None else max(now - part.last_at, 0.0),
        times=part.times,
        fault=part.fault,
    )
