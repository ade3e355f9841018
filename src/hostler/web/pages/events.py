"""Alerts and events: what is wrong now, what is held back, and entries of the journal, by whatever one looks for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, NamedTuple, cast

from hostler.model.errors import NotFound
from hostler.model.events import Entry, subject as job_of_event
from hostler.web.desk import Desk
from hostler.web.pages.alerts import alert_parts
from hostler.web.pages.causes import Because, causes
from hostler.web.pages.happenings import happening, told
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.places import Places
from hostler.web.pages.strip import strip

SHOWN = 100
BEHIND = 400
"""Entries before those that are shown that are looked at as well, for what led to them."""
LOOKED_AT = 2000
"""Entries that a filter goes through at a time."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "jobs": ("job.", "attempt.", "files."),
    "sweeps": ("chunk.", "sweep.", "result."),
    "learning": ("config.", "model."),
    "fleet": ("node.", "device.", "batch.", "resource.", "backpressure.", "disk.", "controller.", "trouble.", "rules."),
    "alerts": ("alert.",),
    "people": ("request.", "token."),
    "failures": (
        "job.failed",
        "attempt.lost",
        "job.requeued",
        "chunk.returned",
        "node.unreachable",
        "device.quarantined",
        "trouble.",
        "alert.fired",
    ),
}
PATIENCE_S = 1.0
"""How long is waited for entries that are being written."""
FILTERS = ("kind", "job", "node", "config", "text")


class Looked(NamedTuple):
    """Entries that were gone through, in order, and those of them that were looked for."""

    entries: Sequence[Entry]
    wanted: Sequence[Entry]
    first: int
    """Number of the first that was gone through."""
    all_of_job: bool
    """Whether these are all entries of one job, wherever they lie."""


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """What fires, what is held back, and the newest entries that the filters let through."""
    status = desk.status()
    return [
        strip(status),
        *alert_parts(desk),
        Part("pressures", "parts/pressures.html", {"pressures": status.pressures, "troubles": status.troubles}),
        Part("bans", "parts/bans.html", {"bans": [each for each in desk.bans() if each.kind != "silence"]}),
        Part("events", "parts/events.html", await _events(desk, subject, status.seq)),
    ]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """What can be filtered by."""
    return {
        "title": "Alerts and events",
        "kinds": list(KINDS),
        "nodes": sorted(node.name for node in desk.nodes()),
        "configs": sorted(config.name for config in desk.configs()),
        "rules": [each.rule.name for each in desk.alert_rules()],
    }


async def entries(desk: Desk, after: int, newest: int) -> Sequence[Entry]:
    """Entries beyond number `after` up to `newest`, as far as the journal has them: what is decided may not be
    written yet, and where it cannot be written, because the disk is full, say, what is there is shown."""
    found: list[Entry] = []
    if after >= newest:
        return found
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S), aclosing(cast(Any, desk.entries(after))) as stream:
            async for entry in stream:
                found.append(entry)
                if entry.seq >= newest:
                    break
    return found


EVENTS = Page("events", "events.html", parts, frame)


async def _events(desk: Desk, subject: Subject, newest: int) -> Mapping[str, Any]:
    before = min(_number(subject.get("before"), newest + 1), newest + 1)
    places = Places(desk, ())
    looked = await _look(desk, subject, before, places)
    shown = looked.wanted[::-1][:SHOWN]
    cut = len(looked.wanted) > SHOWN
    earlier = shown[-1].seq if cut else 1 if looked.all_of_job else looked.first
    because = causes(looked.entries)
    return {
        "rows": [_row(each, places, because) for each in shown],
        "first": looked.first if not cut else earlier,
        "last": before - 1,
        "earlier": earlier if earlier > 1 else None,
        "all_of_job": looked.all_of_job,
        "filtered": _filters(subject),
        "query": {key: value for key, value in subject.query.items() if key != "before"},
    }


async def _look(desk: Desk, subject: Subject, before: int, places: Places) -> Looked:
    """Go through all entries of a job, or through as many before number `before` as is done at a time."""
    story = await _story(desk, subject)
    if story is not None:
        found: Sequence[Entry] = [entry for entry in story if entry.seq < before]
        first = 1
    else:
        many = LOOKED_AT if _filters(subject) else SHOWN + BEHIND
        first = max(before - many, 1)
        found = await entries(desk, first - 1, before - 1)
    places.learn(found)
    await places.meet(found)
    if subject.get("node") is not None:
        await places.look_up(found)
    wanted = [entry for entry in found if _is_wanted(entry, subject, places)]
    return Looked(found, wanted, first, all_of_job=story is not None)


async def _story(desk: Desk, subject: Subject) -> Sequence[Entry] | None:
    """All entries of the job that is looked for; `None` where none is, or it is a sweep, which may have millions."""
    job = subject.get("job")
    if job is None:
        return None
    try:
        detail = (await desk.having(job)).job()
    except NotFound:
        return None
    return None if detail.sweep is not None else await desk.story(detail.job.id)


def _row(entry: Entry, places: Places, because: Because) -> Mapping[str, Any]:
    return {**happening(entry, places.place(entry.event)), "because": because.get(entry.seq, ())}


def _filters(subject: Subject) -> bool:
    return any(subject.get(name) is not None for name in FILTERS)


def _is_wanted(entry: Entry, subject: Subject, places: Places) -> bool:
    event = entry.event
    prefixes = KINDS.get(subject.get("kind") or "", ("",))
    job, config = subject.get("job"), subject.get("config")
    return (
        event.kind.startswith(prefixes)
        and (job is None or job in (job_of_event(event), places.key(event)))
        and (config is None or config == places.config(event))
        and _is_there(entry, subject.get("node"), places)
        and (subject.get("text") or "").casefold() in _words(entry, places)
    )


def _is_there(entry: Entry, node: str | None, places: Places) -> bool:
    """Whether something took place on a node. Where it is not known where it did, it may have."""
    place = places.place(entry.event)
    if node is None or (place is None and places.is_somewhere(entry.event)):
        return True
    return place == node or (place or "").startswith(f"{node}/") or getattr(entry.event, "subject", None) == node


def _words(entry: Entry, places: Places) -> str:
    row = happening(entry, places.place(entry.event))
    return f"{row['kind']} {row['name'] or ''} {row['job'] or ''} {row['place'] or ''} {told(entry.event)}".casefold()


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdecimal() and 0 < len(text) < 16 else otherwise
