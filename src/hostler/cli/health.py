"""The controller's parts: what each last did, and whether anything comes to an end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hostler.cli.show import Column, clean, duration, quantity, say, say_json, table

if TYPE_CHECKING:
    from hostler.client import Client, View


COLUMNS = (
    Column("PART"),
    Column("LAST", right=True),
    Column("TIMES", right=True),
    Column("DOES, OR WHAT KEEPS IT FROM THAT", yields=True),
)
PACE = (
    ("attempts_per_h", "attempts an hour"),
    ("failed_per_h", "of them failed"),
    ("chunks_per_h", "chunks an hour"),
    ("items_per_s", "items a second"),
    ("games_per_h", "games an hour"),
)


def report_health(asked: Client, *, as_json: bool) -> int:
    """Print whether the controller makes progress, and what each of its parts last did; 1 where it makes none."""
    view = asked.health()
    if as_json:
        say_json(view)
    else:
        say(_lines(view))
    return 1 if view["verdict"] == "stalled" else 0


def _lines(view: View) -> Iterator[str]:
    yield f"{view['verdict']}: {clean(view['why'])}"
    yield f"up for {duration(view['at'] - view['up_since'])}, epoch {view['epoch']}, entry {view['seq']}"
    if view["pace"]["window_s"] is not None:
        told = ", ".join(f"{quantity(view['pace'][name])} {words}" for name, words in PACE)
        yield f"within {duration(view['pace']['window_s'])}: {told}"
    yield ""
    yield from table(COLUMNS, map(_row, view["parts"]))


def _row(part: View) -> Sequence[object]:
    age = "never" if part["age_s"] is None else duration(part["age_s"])
    times = "" if part["times"] is None else part["times"]
    return part["name"], age, times, part["does"] if part["fault"] is None else f"! {part['fault']}"
