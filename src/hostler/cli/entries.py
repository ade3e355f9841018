"""Journal entries as lines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hostler.cli.show import clean, compact, plural, shortened, wrapped

if TYPE_CHECKING:
    from hostler.client import View

SUBJECTS = ("attempt", "chunk", "job", "of", "node", "subject", "where")
"""Fields that say what an event is about, the most telling first."""
UNTOLD = frozenset({*SUBJECTS, "kind"})


def entry_lines(entry: View) -> list[str]:
    """One entry: number, local time, kind, subject, and its other fields, wrapped beside the number and the time."""
    return wrapped(*_title_and_text(entry))


def entry_line(entry: View, width: int) -> str:
    """The same on one line of a live screen, as far as there is room."""
    return shortened("".join(_title_and_text(entry)), width)


def _title_and_text(entry: View) -> tuple[str, str]:
    event = entry["event"]
    clock = time.strftime("%H:%M:%S", time.localtime(entry["at"]))
    fields = " ".join(f"{name}={_value(name, value)}" for name, value in event.items() if _matters(name, value))
    return f"{entry['seq']:>7} {clock} ", f"{event['kind']:<20} {clean(_subject(event))} {clean(fields)}".rstrip()


def _subject(event: View) -> str:
    about = next((event[name] for name in SUBJECTS if event.get(name) is not None), "")
    return str(about["name"] if isinstance(about, dict) else about)


def _matters(name: str, value: Any) -> bool:
    return name not in UNTOLD and value not in (None, [], {}, "")


def _value(name: str, value: Any) -> str:
    """A field's value; of a text of several lines the first one, and how many follow (`--json` has them)."""
    if isinstance(value, str) and "\n" in value.strip():
        first, *others = value.strip().splitlines()
        return f"{compact(first)} (+{plural(len(others), 'line')})"
    return compact(value["name"] if name == "spec" else value)
