"""The story of an entry of the journal, or of an alert: what led to it, and what it led to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from hostler.model.alert_views import AlertView
from hostler.model.errors import NotFound
from hostler.model.events import AlertFired, Entry, subject as job_of_event
from hostler.web.desk import Desk
from hostler.web.pages.causes import after, before, causes
from hostler.web.pages.events import entries
from hostler.web.pages.happenings import happening
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.places import Places
from hostler.web.pages.strip import strip

BACK, AHEAD = 2000, 1000
"""Entries around the one it is about that are looked at; of its job, all."""
EFFECTS_SHOWN = 60
STEPS_SHOWN = 40


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """The entry, the chain that led to it, and what followed."""
    newest = desk.status().seq
    seq = await _number(desk, subject.name or "", newest)
    around = await _around(desk, seq, newest)
    return [strip(desk.status()), Part("tale", "parts/tale.html", await _tale(desk, seq, around))]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Which entry or alert it is."""
    name = subject.name or ""
    alert = _alert(desk, name)
    if alert is not None:
        return {"title": f"Alert {alert.id}: {alert.rule} of {alert.subject}"}
    return {"title": f"Entry {_as_number(name, desk.status().seq)} of the journal"}


STORY = Page("story", "story.html", parts, frame)


async def _tale(desk: Desk, seq: int, around: Sequence[Entry]) -> Mapping[str, Any]:
    because, places = causes(around), Places(desk, around)
    await places.meet(around)
    known = {entry.seq: entry for entry in around}

    def row(number: int, depth: int = 0) -> Mapping[str, Any]:
        entry = known[number]
        return {**happening(entry, places.place(entry.event)), "depth": min(depth, 6)}

    led = before(seq, because)[-STEPS_SHOWN:]
    followed = list(islice(after(seq, because), EFFECTS_SHOWN + 1))
    return {
        "before": [row(each) for each in led],
        "entry": row(seq),
        "after": [row(each, depth) for each, depth in followed[:EFFECTS_SHOWN]],
        "more": len(followed) > EFFECTS_SHOWN,
        "first": around[0].seq,
        "last": around[-1].seq,
    }


async def _around(desk: Desk, seq: int, newest: int) -> Sequence[Entry]:
    """Entries before and after one, in order, and with them all of its job's."""
    near = await entries(desk, max(seq - 1 - BACK, 0), min(seq + AHEAD, newest))
    own = next((entry for entry in near if entry.seq == seq), None)
    if own is None:
        raise NotFound(f"entry {seq} of the journal is not written yet")
    job = job_of_event(own.event)
    if job is None or await _is_sweep(desk, job):
        return near
    found = {entry.seq: entry for entry in (*await desk.story(job), *near)}
    return [found[each] for each in sorted(found)]


async def _is_sweep(desk: Desk, job: str) -> bool:
    try:
        return (await desk.having(job)).job().sweep is not None
    except NotFound:
        return True


async def _number(desk: Desk, name: str, newest: int) -> int:
    """The number of an entry, or of that by which an alert fired. Raises `NotFound`."""
    alert = _alert(desk, name)
    if alert is None or alert.fired_at is None:
        return _as_number(name, newest)
    low = await _first_at(desk, alert.fired_at, newest)
    for entry in await entries(desk, low - 1, min(low + BACK, newest)):
        if isinstance(entry.event, AlertFired) and entry.event.id == name:
            return entry.seq
    raise NotFound(f"there is no entry of the journal that says how alert {name} came to fire")


def _as_number(name: str, newest: int) -> int:
    if name.isdecimal() and len(name) < 16 and 1 <= int(name) <= newest:
        return int(name)
    raise NotFound(f"there is no entry {name[:100]!r} of the journal, which has {newest}, and no such alert of late")


def _alert(desk: Desk, name: str) -> AlertView | None:
    return next((each for each in desk.alerts() if each.id is not None and each.id == name), None)


async def _first_at(desk: Desk, at: float, newest: int) -> int:
    """The number of the first entry of that time or later. Times never fall, so few have to be read."""
    low, high = 1, newest
    while high - low > BACK:
        middle = (low + high) // 2
        found = await entries(desk, middle - 1, middle)
        low, high = (middle + 1, high) if found and found[0].at < at else (low, middle)
    between = await entries(desk, low - 1, high)
    return low + bisect_left([entry.at for entry in between], at)
