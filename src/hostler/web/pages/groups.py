"""Job groups: a list of them, and one with its jobs in a table: their parameters, states, durations and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hostler.client.outcomes import reason_of
from hostler.client.results import Field, fields_of
from hostler.model.groups import GroupResult, GroupView
from hostler.model.work import JobState
from hostler.web.desk import Desk
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip

LISTED = 50
JOBS_LISTED = 100
COLUMNS = 16
"""Parameters and result fields in the table at most; `hostler results` prints all of them."""
VALUE_SHOWN = 200
OPEN = ("pending", "running")
FIXED = ("job", "outcome", "duration")
"""Columns of `fields_of` that stand in the row of each job anyway."""


async def list_parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """Groups, the newest first, some at a time."""
    found = desk.newest_groups(_number(subject.get("before")), LISTED + 1, subject.get("owner"))
    more = found[LISTED - 1].id.removeprefix("g") if len(found) > LISTED else None
    shown = {"rows": [_row(each) for each in found[:LISTED]], "more": more, "owner": subject.get("owner")}
    return [strip(desk.status()), Part("groups", "parts/groups.html", shown)]


def list_frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """The title; the choices of the filter are those of the viewer."""
    return {"title": "Job groups"}


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """A group in numbers, and a page of its jobs."""
    group = desk.group(subject.name or "")
    after = _number(subject.get("after")) or 0
    found = await desk.group_results(group.id, after, JOBS_LISTED + 1)
    shown = found[:JOBS_LISTED]
    more = shown[-1].job.removeprefix("j") if len(found) > JOBS_LISTED else None
    first = int(group.first.removeprefix("j"))
    places = (int(shown[0].job.removeprefix("j")) - first + 1 if shown else 0, after >= first)
    return [
        strip(desk.status()),
        Part("head", "parts/group_head.html", {"group": _row(group)}),
        Part(
            "jobs",
            "parts/group_jobs.html",
            {**table(shown), "group": group.id, "of": group.size, "place": places[0], "later": places[1], "more": more},
        ),
    ]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Which group it is."""
    group = desk.group(subject.name or "")
    return {"title": f"Group {group.id} {group.name}", "group": group.id, "owner": group.owner}


GROUPS = Page("groups", "groups.html", list_parts, list_frame)
GROUP = Page("group", "group.html", parts, frame)


def table(rows: Sequence[GroupResult]) -> Mapping[str, Any]:
    """Jobs as the rows of a table whose columns are their parameters and the fields of their results."""
    fields = fields_of([asdict(row) for row in rows])
    places = {each.name: at for at, each in enumerate(fields)}
    parameters, results = fields[1 : places["outcome"]], fields[places["duration"] + 1 :]
    shown = [*parameters[:COLUMNS], *results[: max(COLUMNS - len(parameters), 0)]]
    left_out = len(parameters) + len(results) - len(shown)
    given = min(len(parameters), COLUMNS)
    return {
        "parameters": [_column(each) for each in shown[:given]],
        "results": [_column(each) for each in shown[given:]],
        "left_out": left_out,
        "rows": [
            {
                "job": row.job,
                "name": row.name,
                "state": str(row.state),
                "duration_s": row.duration_s,
                "began": row.started_at if row.state in (JobState.RUNNING, JobState.COLLECTING) else None,
                "device": row.device,
                "reason": _reason(row),
                "parameters": [_value(each, at) for each in shown[:given]],
                "results": [_value(each, at) for each in shown[given:]],
            }
            for at, row in enumerate(rows)
        ],
    }


def _reason(row: GroupResult) -> str | None:
    """Why a job has ended without a result, as far as it is shown in a row."""
    if row.state not in (JobState.FAILED, JobState.CANCELLED):
        return None
    text = reason_of({"why": row.why})
    return text if len(text) <= VALUE_SHOWN else text[: VALUE_SHOWN - 1] + "…"


def _column(field: Field) -> tuple[str, bool]:
    return field.title, field.is_number


def _value(field: Field, at: int) -> str | None:
    """A value as text: numbers with six digits, texts as far as they are shown."""
    value = field.values[at]
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if len(text) <= VALUE_SHOWN else text[: VALUE_SHOWN - 1] + "…"


def _row(group: GroupView) -> Mapping[str, Any]:
    return {
        "id": group.id,
        "name": group.name,
        "owner": group.owner,
        "size": group.size,
        "counts": dict(group.jobs),
        "open": sum(group.jobs.get(state, 0) for state in OPEN),
        "first": group.first,
        "last": group.last,
        "submitted_at": group.submitted_at,
        "ended_at": group.ended_at,
        "max_running": group.max_running,
        "max_failures": group.max_failures,
    }


def _number(text: str | None) -> int | None:
    """A number of the query; one that cannot be read is as if it were not there."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) <= 18 else None
