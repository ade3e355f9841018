"""The queue: what waits and why, when it is expected to begin, what runs, and shares against quotas."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.listed import JobMatch
from hostler.model.steering import QuotaView
from hostler.model.views import HoldView, JobView, NodeView, QueueRow
from hostler.model.work import JobState
from hostler.web.desk import Desk
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import counts, strip

WAITING = 50
FORETOLD, ASKED = 15, 500
"""Rows whose start is worked out, and how many devices may be asked for that: each of them, for each row."""
RUNNING = 100
NEWEST = 25
STEP_S = 5.0
LISTED = 100
LOOKED_THROUGH = 5000
"""Jobs that are compared with a filter for one page, at most: the store does not search for owners."""
PIECE = 500
SOME = "No job among those that were looked through is like that; later ones may be."


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """What waits, what runs, what came last, and who is owed what."""
    status = desk.status()
    foretold = min(FORETOLD, ASKED // max(status.devices, 1))
    waiting = {
        "rows": [_row(desk, row, foretold, status.at) for row in desk.queue(WAITING)],
        "of": status.jobs[JobState.PENDING],
    }
    made = [strip(status), Part("waiting", "parts/waiting.html", waiting)]
    # On a large fleet each of these takes a while; nobody else is to wait for all of them together.
    await asyncio.sleep(0)
    made.append(Part("running", "parts/running.html", _running(desk.nodes())))
    await asyncio.sleep(0)
    latest = {"rows": newest(desk, NEWEST), "empty": "Nothing was ever asked for."}
    return [
        *made,
        Part("newest", "parts/jobs.html", latest),
        Part("shares", "parts/shares.html", shares(desk.quotas())),
    ]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """The form for something new."""
    return {"title": "Queue"}


async def job_list_parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """Jobs in order of submission, some at a time."""
    found, more = await _listed(desk, subject)
    return [
        strip(desk.status()),
        Part("jobs", "parts/jobs.html", {"rows": found, "empty": SOME if more else "No job is like that."}),
        Part("more", "parts/more.html", {"query": None if more is None else {**_asked(subject), "after": more}}),
    ]


def job_list_frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """What can be chosen."""
    return {"title": "Jobs", "states": [str(state) for state in JobState], "counts": counts(desk.status().jobs)}


def kind_of(row: QueueRow | HoldView) -> str:
    """The kind of a job in the word of its owner: a batch of function calls is scheduled as a sweep."""
    return "calls" if row.calls else str(row.work)


def newest(desk: Desk, limit: int) -> Sequence[JobView]:
    """The jobs that were submitted last, the newest first."""
    submitted = sum(desk.status().jobs.values())
    return list(desk.jobs(None, max(submitted - limit, 0), limit))[::-1]


QUEUE = Page("queue", "queue.html", parts, frame)
JOBS = Page("jobs", "jobs.html", job_list_parts, job_list_frame)


def _row(desk: Desk, row: QueueRow, foretold: int, now: float) -> Mapping[str, Any]:
    start = desk.explain(row.job).start if row.place <= foretold else None
    return {
        "place": row.place,
        "job": row.job,
        "name": row.name,
        "work": kind_of(row),
        "priority": row.priority,
        "since": _step(now - row.waited_s, 1.0),
        "waits_for": row.waits_for,
        "asked": row.place <= foretold,
        "at": None if start is None else _step(start.at),
        "late_at": None if start is None else _step(start.late_at),
        "why": None if start is None else start.why,
        "ahead": None if start is None else start.ahead,
    }


def _running(nodes: Sequence[NodeView]) -> Mapping[str, Any]:
    held = [(each, device.id) for node in nodes for device in node.devices for each in device.held]
    rows = [
        {
            "job": each.job,
            "name": each.name,
            "work": kind_of(each),
            "config": each.config,
            "device": device,
            "since": each.since,
            "why": each.why,
        }
        for each, device in held[:RUNNING]
    ]
    return {"rows": rows, "of": len(held)}


def shares(view: QuotaView) -> Mapping[str, Any]:
    """Targets against what was had, rounded to what is seen."""
    return {
        "tiers": [
            {
                "tier": tier.tier,
                "devices": tier.devices,
                "rows": [
                    (row.name, row.pattern, round(row.target, 3), _third(row.had), row.holds, row.wants)
                    for row in (*tier.patterns, *tier.configs)
                    if row in tier.configs or len(row.configs) > 1
                ],
            }
            for tier in view.tiers
        ],
        "kinds": [(str(each.work), _third(each.target), _third(each.had), round(each.holds, 2)) for each in view.kinds],
        "contradictions": view.contradictions,
        "conflicts": () if view.plan is None else view.plan.conflicts,
    }


def _asked(subject: Subject) -> Mapping[str, str]:
    """What a list of jobs is narrowed to, as its query has it."""
    return {name: value for name in ("state", "owner", "group") if (value := subject.get(name)) is not None}


async def _listed(desk: Desk, subject: Subject) -> tuple[Sequence[JobView], str | None]:
    """A page of jobs, and the number behind which the next one begins; a page may come short and have a next one."""
    states, given = subject.get("state"), subject.get("after") or "0"
    wanted = frozenset({JobState(states)}) if states in {str(state) for state in JobState} else None
    after, owner = int(given) if given.isdecimal() else 0, subject.get("owner")
    match = JobMatch(group=subject.get("group"))
    if owner is None:
        found = await desk.all_jobs(wanted, after, LISTED + 1, match=match)
        return found[:LISTED], _cursor(found[LISTED - 1]) if len(found) > LISTED else None
    kept: list[JobView] = []
    for _ in range(0, LOOKED_THROUGH, PIECE):
        piece = await desk.all_jobs(wanted, after, PIECE, match=match)
        kept += [job for job in piece if job.owner == owner]
        if len(kept) > LISTED:
            return kept[:LISTED], _cursor(kept[LISTED - 1])
        if len(piece) < PIECE:
            return kept, None
        after = int(_cursor(piece[-1]))
    return kept, str(after)


def _cursor(job: JobView) -> str:
    return job.id.removeprefix("j")


def _third(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _step(at: float | None, step_s: float = STEP_S) -> float | None:
    """A moment that is only expected, no more exactly than it is worth."""
    return None if at is None else round(at / step_s) * step_s
