"""`hostler account usage` on a terminal of 80 columns."""

from __future__ import annotations

import pytest

from hostler.cli.usage import _time
from hostler.model.errors import UsageError
from hostler.model.inputs import EndHour, Submit
from tests.cli.conftest import Hostler
from tests.core.builders import ended, script
from tests.web.core_desk import Window

HOUR_S = 3600.0


@pytest.fixture
def used(served: Window) -> Window:
    """An hour and a half of a script, in 1970."""
    served.tell(Submit(specs=(script("a"),)))
    served.call(lambda: served.desk.driver.tell(EndHour(), after_s=1.5 * HOUR_S))
    served.tell(ended("j1.1"))
    return served


@pytest.mark.parametrize("by", [(), ("work",), ("device", "work"), ("node", "model", "provider")])
@pytest.mark.parametrize("per", ["hour", "day", "week", "month"])
def test_tables_fit(used: Window, hostler: Hostler, per: str, by: tuple[str, ...]) -> None:
    said = hostler("account", "usage", "--per", per, *(word for each in by for word in ("--by", each)))
    assert (said.status, said.err) == (0, "")
    assert all(line.isprintable() and len(line) <= 80 for line in said.out.splitlines())
    assert said.out.split()[: 1 + len(by)] == [per.upper(), *(each.upper() for each in by)]


def test_lines_tell_hours_shares_and_what_is_unknown(used: Window, hostler: Hostler) -> None:
    out = hostler("account", "usage", "--by", "device", "--since", "1970-01-01").out.splitlines()
    assert out[0].split() == ["DAY", "DEVICE", "HELD", "IDLE", "USED", "BUSY", "COST", "DONE", "FAILED"]
    assert out[1].split() == ["1970-01-01", "n/cpu0", "1.5", "0.0", "100.0%", "?", "?", "1", "0"]
    assert out[2].split() == ["1970-01-01", "n/cpu1", "0.0", "1.5", "0.0%", "?", "0.00", "0", "0"]
    (row,) = hostler("account", "usage", "--only", "work=script", "--json").json
    assert row["held_s"] == pytest.approx(1.5 * HOUR_S, abs=5)
    assert hostler("account", "usage", "--only", "node=elsewhere").out == "nothing is known of that time\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--since", "yesterday"), "is no time"),
        (("--since", "2026-02-30"), "is no time"),
        (("--by", "colour"), "there are node, device"),
        (("--only", "node"), "NAME=VALUE"),
        (("--only", "colour=red"), "there are node, device"),
        (("--only", "work=sleep"), "work"),
        (("--per", "year"), "--per"),
        (("--by", "node", "--by", "node"), "name each once"),
        (("--since", "1970-01-02", "--until", "1970-01-01"), "is not before"),
    ],
)
def test_what_cannot_be_asked_says_why(used: Window, hostler: Hostler, words: tuple[str, ...], why: str) -> None:
    said = hostler("account", "usage", *words)
    assert said.status == 2
    assert why in said.err


def test_times_as_people_write_them() -> None:
    assert _time("--since", None, 5.0) is None
    assert _time("--since", "2h", 10_000.0) == 2800.0
    assert _time("--since", "8w", 10.0) == 0.0
    assert _time("--since", "1970-01-02", 0.0) == 86_400.0
    with pytest.raises(UsageError):
        _time("--until", "2h ago", 0.0)
