"""What happened: the newest entries of the journal, by kind, job and words; and what is held back now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from hostler.model.events import Entry
from hostler.web.desk import Desk
from hostler.web.pages.happenings import happening
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip

SHOWN = 100
LOOKED_AT = 2000
"""Entries that a filter goes through at a time."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "jobs": ("job.", "attempt.", "files."),
    "sweeps": ("chunk.", "sweep.", "result."),
    "learning": ("config.", "model."),
    "fleet": ("node.", "device.", "batch.", "resource.", "backpressure.", "disk.", "controller.", "trouble.", "rules."),
    "failures": ("job.failed", "attempt.lost", "job.requeued", "chunk.returned", "node.unreachable", "trouble."),
}


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """The newest entries that the filters let through, and everything that is held back."""
    status = desk.status()
    before = _number(subject.get("before"), status.seq + 1)
    looked = await entries(desk, max(before - 1 - (LOOKED_AT if _filters(subject) else SHOWN), 0), before - 1)
    rows = [row for entry in reversed(looked) if _is_wanted(row := happening(entry), subject)]
    shown = rows[:SHOWN]
    earlier = shown[-1]["seq"] if len(rows) > SHOWN else looked[0].seq if looked else 1
    values = {"rows": shown, "earlier": earlier if earlier > 1 else None, "query": dict(subject.query)}
    return [
        strip(status),
        Part("pressures", "parts/pressures.html", {"pressures": status.pressures, "troubles": status.troubles}),
        Part("bans", "parts/bans.html", {"bans": list(desk.bans())}),
        Part("events", "parts/events.html", values),
    ]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """What can be filtered by."""
    return {"title": "Events", "kinds": list(KINDS)}


async def entries(desk: Desk, after: int, newest: int) -> Sequence[Entry]:
    """Entries beyond number `after` up to `newest`, which the journal holds already."""
    found: list[Entry] = []
    if after >= newest:
        return found
    async with aclosing(cast(Any, desk.entries(after))) as stream:
        async for entry in stream:
            found.append(entry)
            if entry.seq >= newest:
                break
    return found


EVENTS = Page("events", "events.html", parts, frame)


def _filters(subject: Subject) -> bool:
    return any(subject.get(name) is not None for name in ("kind", "job", "text"))


def _is_wanted(row: Mapping[str, Any], subject: Subject) -> bool:
    prefixes = KINDS.get(subject.get("kind") or "", ("",))
    job, text = subject.get("job"), (subject.get("text") or "").casefold()
    words = f"{row['kind']} {row['name'] or ''} {row['place'] or ''} {row['says']}".casefold()
    return str(row["kind"]).startswith(prefixes) and job in (None, row["job"]) and text in words


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 16 else otherwise
