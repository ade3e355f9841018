"""How devices were used: by the hour, day, week or month, and by what they are or had to do."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from hostler.cli.common import Json, StateDir, client
from hostler.cli.declarations import Option
from hostler.cli.show import UNKNOWN, Column, quantity, say, say_json, share, table
from hostler.model.errors import UsageError

if TYPE_CHECKING:
    from hostler.client import View


Per = Literal["hour", "day", "week", "month"]

BY = ("node", "device", "model", "pool", "provider", "work")
HOUR_S = 3600.0
UNITS_S = {"h": HOUR_S, "d": 24 * HOUR_S, "w": 7 * 24 * HOUR_S}
SHOWN = {"hour": "%m-%d %H:00", "day": "%Y-%m-%d", "week": "%Y-%m-%d", "month": "%Y-%m"}
NUMBERS = (
    Column("HELD", right=True),
    Column("IDLE", right=True),
    Column("USED", right=True),
    Column("BUSY", right=True),
    Column("COST", right=True),
    Column("DONE", right=True),
    Column("FAILED", right=True),
)


def usage(
    per: Annotated[Per, Option("--per", help="What hours are summed up to.")] = "day",
    by: Annotated[
        list[str] | None,
        Option("--by", metavar="|".join(BY), help="What is told apart; again for more. By default nothing is."),
    ] = None,
    since: Annotated[
        str | None, Option("--since", metavar="TIME", help="36h, 30d, 8w ago, or a date: 2026-01-31.")
    ] = None,
    until: Annotated[
        str | None,
        Option("--until", metavar="TIME", help="The same; by default now. That day is not part of it."),
    ] = None,
    only: Annotated[
        list[str] | None,
        Option("--only", metavar="NAME=VALUE", help="Only that: node=rig-1, work=training, work=idle."),
    ] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show how devices were used in the last year, hour by hour: how much, how busy, at what cost, what was done.

    HELD and IDLE are device-hours with work on them and without; USED is the share of HELD in both. BUSY is the mean
    utilisation that drivers told, ? where none did. COST is of HELD, in the currency of the fleet file; where a part of
    it has no known price, there is a + behind it. DONE and FAILED are jobs, and chunks of sweeps. Times are UTC, weeks
    begin on Monday, and the present period is told as far as it has come.

    Example:
      hostler account usage --by work --since 30d
      hostler account usage --per hour --by device --only node=rig-1
      hostler account usage --per month --by model --since 2026-01-01 --json
    """
    now = time.time()
    first, last = _time("--since", since, now), _time("--until", until, now)
    wanted = dict(_named(each) for each in only or ())
    apart = [_known("--by", each) for each in by or ()]
    told = client(state_dir).usage(per, apart, first, last, wanted)
    if as_json:
        say_json(told)
        return
    say(_lines(per, apart, told) if told else ["nothing is known of that time"])


def _lines(per: Per, by: Sequence[str], told: Sequence[View]) -> Iterator[str]:
    columns = (Column(per.upper()), *((Column(each.upper(), yields=True)) for each in by), *NUMBERS)
    return table(
        columns, [(_period(per, each), *(_name(each["of"].get(name)) for name in by), *_numbers(each)) for each in told]
    )


def _period(per: Per, row: View) -> str:
    return datetime.fromtimestamp(row["begins"], UTC).strftime(SHOWN[per])


def _name(value: str | None) -> str:
    return "-" if value is None else value


def _numbers(row: View) -> Iterator[str]:
    both = row["held_s"] + row["idle_s"]
    yield _hours(row["held_s"])
    yield _hours(row["idle_s"])
    yield share(row["held_s"] / both) if both else UNKNOWN
    yield share(row["utilization"])
    yield UNKNOWN if row["cost"] is None else f"{row['cost']:.2f}" + ("+" if row["unpriced_s"] else "")
    yield quantity(row["done"])
    yield quantity(row["failed"])


def _hours(seconds: float) -> str:
    hours = seconds / HOUR_S
    return f"{hours:.1f}" if hours < 1000 else quantity(round(hours))


def _time(option: str, word: str | None, now: float) -> float | None:
    """A time as people write it: so long ago, or a day."""
    if word is None:
        return None
    ago = re.fullmatch(r"([0-9]{1,6})([hdw])", word)
    if ago is not None:
        return max(now - int(ago[1]) * UNITS_S[ago[2]], 0.0)
    try:
        return datetime.strptime(word, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise UsageError(f"{option} {word!r} is no time; write 36h, 30d or 8w, or a date: 2026-01-31") from None


def _named(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not value:
        raise UsageError(f"--only {word!r} names nothing; write NAME=VALUE: node=rig-1, work=idle")
    return _known("--only", name), value


def _known(option: str, name: str) -> str:
    if name not in BY:
        raise UsageError(f"{option} {name!r} is nothing that usage is told by; there are {', '.join(BY)}")
    return name
