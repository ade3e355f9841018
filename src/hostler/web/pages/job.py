"""One job: its attempts in time, why it waits or runs, what it wrote and left, and what can be done about it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hostler.client.outcomes import reason_of
from hostler.model import codec
from hostler.model.events import (
    AttemptEnded,
    AttemptLaunching,
    AttemptLeased,
    AttemptLost,
    AttemptStarted,
    Entry,
    JobDone,
    JobFailed,
    JobRequeued,
    PreemptRequested,
)
from hostler.model.views import Explanation, JobDetail
from hostler.model.work import JobState, ScriptPayload, StagePayload, SweepPayload
from hostler.web.desk import Desk
from hostler.web.hiding import shown
from hostler.web.pages.endings import Endings
from hostler.web.pages.happenings import happening
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip

ATTEMPTS_SHOWN = 50
STORY_SHOWN = 100
WIDTH = 1000
SHORTEST_S = 0.01
"""What an attempt has just been given takes up some of the line, too."""
RESULT_SHOWN = 4000
PRINTED = " Its last lines:\n"
"""Comes before what a build printed, in the reason of a job (`policy.retry.PRINTED`)."""


@dataclass
class Try:
    """One attempt, as the journal tells of it."""

    id: str
    device: str
    leased_at: float
    why: str
    started_at: float | None = None
    ended_at: float | None = None
    outcome: str | None = None
    said: str | None = None


class Bar(NamedTuple):
    """An attempt on the line of time: from where to where, in thousandths of its length."""

    x: float
    waited: float
    ran: float
    outcome: str | None
    words: str


def page(endings: Endings) -> Page:
    """The page of a job; the outputs of failed attempts are read once for all who look, by `endings`."""

    async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
        return await _parts(desk, subject, endings)

    return Page("job", "job.html", parts, frame)


async def _parts(desk: Desk, subject: Subject, endings: Endings) -> Sequence[Part]:
    """What is known of a job; its story is read from the journal."""
    seen = await desk.having(subject.name or "")
    detail = seen.job()
    story = [] if detail.sweep is not None else await desk.story(detail.job.id)
    tries = attempts(story)
    return [
        strip(desk.status()),
        Part("failed", "parts/job_failed.html", await _failure(desk, detail, tries, endings)),
        Part("head", "parts/job_head.html", _head(detail)),
        Part("attempts", "parts/attempts.html", _attempts(detail, tries)),
        Part("explain", "parts/explain.html", _explained(seen.explain())),
        Part("result", "parts/result.html", _result(detail)),
        Part("story", "parts/story.html", {"rows": [happening(each) for each in story[-STORY_SHOWN:]][::-1]}),
    ]


async def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """What does not change of it."""
    detail = (await desk.having(subject.name or "")).job()
    return {
        "title": f"Job {detail.job.id} {detail.job.name}",
        "job": detail.job.id,
        "is_sweep": detail.sweep is not None,
        "is_calls": detail.job.calls,
        "owner": detail.job.owner,
        "priority": detail.job.priority,
        "spec": json.dumps(json.loads(shown(codec.adapter(type(detail.spec)).dump_json(detail.spec))), indent=2),
        "command": _command(detail.spec.payload),
    }


def attempts(story: Sequence[Entry]) -> Sequence[Try]:
    """Attempts by the entries of a job, oldest first."""
    made: dict[str, Try] = {}
    for entry in story:
        event = entry.event
        if isinstance(event, AttemptLeased):
            made[event.attempt] = Try(event.attempt, event.device, entry.at, event.why)
        elif (attempt := made.get(getattr(event, "attempt", None) or "")) is not None:
            _fold(attempt, entry)
        elif isinstance(event, JobRequeued | JobFailed) and made:
            last = made[next(reversed(made))]
            last.outcome, last.said = _failed(event), event.why
    return list(made.values())


def _failed(event: JobRequeued | JobFailed) -> str:
    return "yielded" if event.failure is None else str(event.failure)


def _fold(attempt: Try, entry: Entry) -> None:
    match entry.event:
        case AttemptLaunching():
            pass
        case AttemptStarted():
            attempt.started_at = entry.at
        case AttemptEnded() as end:
            attempt.ended_at, attempt.outcome = entry.at, _ending(end)
            attempt.said = end.error or end.reason or attempt.said
        case AttemptLost() as lost:
            attempt.ended_at, attempt.outcome, attempt.said = entry.at, "lost", lost.evidence
        case PreemptRequested() as asked:
            attempt.said = asked.why
        case JobDone():
            attempt.outcome = "done"


def _ending(end: AttemptEnded) -> str:
    if end.signal is not None:
        return f"signal {end.signal}"
    return "ended" if end.exit_code is None else f"exit {end.exit_code}"


async def _failure(desk: Desk, detail: JobDetail, tries: Sequence[Try], endings: Endings) -> Mapping[str, Any]:
    """The reason of a failed job, and the end of what its last attempt wrote; empty for any other job."""
    job = detail.job
    if job.state is not JobState.FAILED:
        return {"failed": False}
    reason, _, printed = (job.why or "").partition(PRINTED)
    ending = await endings.of(desk, tries[-1].id) if tries and tries[-1].started_at is not None else None
    return {
        "failed": True,
        "reason": reason_of({"why": reason}),
        "printed": printed,
        "ending": ending,
        "attempt": tries[-1].id if tries else None,
    }


def _head(detail: JobDetail) -> Mapping[str, Any]:
    job = detail.job
    return {
        "job": job,
        "attempt": detail.attempt,
        "after": detail.after,
        "failures": {str(kind): count for kind, count in detail.failures.items() if count},
        "config": detail.spec.serves,
        "parameters": dict(detail.spec.parameters),
        "total": None if detail.sweep is None else detail.sweep.total,
        "began": job.started_at if job.state in (JobState.RUNNING, JobState.COLLECTING) else None,
    }


def _attempts(detail: JobDetail, tries: Sequence[Try]) -> Mapping[str, Any]:
    shown = list(tries[-ATTEMPTS_SHOWN:])
    return {
        "job": detail.job.id,
        "is_sweep": detail.sweep is not None,
        "is_calls": detail.job.calls,
        "tries": shown[::-1],
        "more": len(tries) - len(shown),
        "bars": _bars(detail, shown),
        "submitted_at": detail.job.submitted_at,
        "ended_at": detail.job.ended_at,
    }


def _bars(detail: JobDetail, tries: Sequence[Try]) -> Sequence[Bar]:
    """Attempts on a line from submission to the end; what still goes on ends where the line does."""
    if not tries:
        return ()
    begin = detail.job.submitted_at
    ends = [at for each in tries for at in (each.leased_at, each.started_at, each.ended_at) if at is not None]
    over = detail.job.ended_at or max(ends)
    span = max(over - begin, SHORTEST_S) * (1.0 if detail.job.ended_at else 1.15)
    return [_bar(each, begin, begin + span) for each in tries]


def _bar(each: Try, begin: float, end: float) -> Bar:
    started = each.started_at or each.ended_at or end
    stop = each.ended_at or end
    scale = WIDTH / (end - begin)
    x, middle, right = ((at - begin) * scale for at in (each.leased_at, max(started, each.leased_at), stop))
    words = f"{each.id} on {each.device}: {each.outcome or 'goes on'}"
    return Bar(round(x, 1), round(max(middle - x, 0), 1), round(max(right - middle, 2), 1), each.outcome, words)


def _explained(told: Explanation) -> Mapping[str, Any]:
    return {
        "summary": told.summary,
        "reasons": told.reasons,
        "groups": [(each.cls, each.gate, each.count, each.says, each.devices[:6]) for each in told.groups],
        "changes": told.changes,
        "start": told.start,
    }


def _result(detail: JobDetail) -> Mapping[str, Any]:
    text = None if detail.result is None else json.dumps(detail.result, indent=2, ensure_ascii=False)
    return {"result": None if text is None else text[:RESULT_SHOWN], "files": detail.files, "job": detail.job.id}


def _command(payload: ScriptPayload | SweepPayload | StagePayload) -> Sequence[str]:
    return payload.worker if isinstance(payload, SweepPayload) else payload.argv
