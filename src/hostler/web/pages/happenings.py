"""Entries of the journal in words: what happened, to what, why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hostler.model.events import EXTERNAL_NAMES, Entry, Event, subject
from hostler.model.units import printable

WORDS = 240
TELLING = ("why", "reason", "evidence", "error", "what", "failure", "where")
"""Fields that say in words what was the matter, the best first."""
PLACES = ("device", "node", "config", "subject")
"""Fields that say where, or whom it is about."""
PEOPLE = ("who",)


def happening(entry: Entry, place: str | None = None) -> Mapping[str, Any]:
    """An entry as a row: its number, time, kind, whom it is about, and what it says. `place` is where, if known."""
    event = entry.event
    return {
        "seq": entry.seq,
        "at": entry.at,
        "kind": event.kind,
        "name": EXTERNAL_NAMES.get(type(event)),
        "job": subject(event),
        "place": place or _place(event),
        "says": printable(told(event), WORDS),
    }


def told(event: Event) -> str:
    """What an event says, all of it."""
    who = [f"by {value}" for name in PEOPLE if (value := getattr(event, name, None)) is not None]
    words = [str(value) for name in TELLING if (value := getattr(event, name, None)) is not None]
    return "; ".join([*words, *who] if words else [_values(event)])


def _place(event: Any) -> str | None:
    found = next((value for name in PLACES if (value := getattr(event, name, None)) is not None), None)
    return found if isinstance(found, str) else getattr(found, "name", None)


def _values(event: Any) -> str:
    """Plain values of an event without words of its own."""
    skipped = {"kind", "job", *PLACES}
    names = [each.name for each in fields(event) if each.name not in skipped and not each.name.endswith("_at")]
    named = ((name, getattr(event, name)) for name in names)
    return ", ".join(f"{name} {_value(value)}" for name, value in named if isinstance(value, str | int | float))


def _value(value: str | int | float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
