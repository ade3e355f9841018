"""What searches will be worth: who is left out and why, what is told, how long the fleet takes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hostler.cli.prospects import MOST_CPU_S, Planned, check, eta, sorted_out, told_of_many
from hostler.cli.sieving import LeftOut, Search
from hostler.client import Client
from hostler.model.errors import UsageError
from hostler.workloads.sieve.prospect import Prospect

PARAMS: dict[str, Any] = {"schema": 1, "generator": "x", "output": {"kind": "exact"}, "draws": [1], "skip": 0}


def planned(name: str = "php-mt_rand", *, expected: float = 1e-9, needed: int | None = 4, **plan: Any) -> Planned:
    search = Search(name, "mt_rand(1, 6)", PARAMS, (0, 1 << 32))
    return Planned(search, Prospect(1 << 32, 12, expected, needed), {"method": "lanes", "why": "w", **plan})


class _Fleet:
    """A controller with CPU devices on nodes that are there, are not, or are held back."""

    def nodes(self) -> list[dict[str, Any]]:
        cpus, gpu = [{"kind": "cpu"}] * 4, {"kind": "gpu"}
        return [
            {"link": "up", "cordon": None, "devices": [*cpus, gpu]},
            {"link": "lost", "cordon": None, "devices": cpus},
            {"link": "up", "cordon": {"state": "drained"}, "devices": cpus},
        ]


def test_searches_among_many_are_left_out_for_a_reason() -> None:
    found = [
        planned("good", cpu_s=100.0),
        planned("dear", cpu_s=1e9),
        planned("vague", cpu_s=1.0, expected=1e6, needed=40),
        planned("hopeless", cpu_s=1.0, expected=1e6, needed=None),
        planned("odd", refused="no method searches for this (lanes: no)"),
    ]
    kept, left = sorted_out(found, 3600.0)
    assert [each.search.generator for each in kept] == ["good"]
    assert {each.generator: each.why for each in left} == {
        "dear": "32 years of one core",
        "vague": "1M by chance: 40 known draws would do",
        "hopeless": "1M by chance: no number of draws would do",
        "odd": "no method searches for this (lanes: no)",
    }


def test_one_search_is_refused_where_nothing_searches_or_years_were_not_asked_for() -> None:
    with pytest.raises(UsageError, match="cannot be planned: no method"):
        check(planned(refused="no method searches for this"), named=True)
    long = planned(cpu_s=2 * MOST_CPU_S)
    with pytest.raises(UsageError, match="20 years of one core; say with --range"):
        check(long, named=False)
    check(long, named=True)


def test_many_are_told_in_eighty_columns_with_a_warning_for_those_that_settle_nothing() -> None:
    left = [LeftOut("v8-random", "Math.floor(Math.random() * 100)", "a long reason " * 20)]
    lines = list(told_of_many([planned(cpu_s=3.0), planned("java-random", expected=7.0, cpu_s=1.0)], left))
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["GENERATOR", "CALLS", "METHOD", "BY", "CHANCE", "ONE", "CORE"]
    assert any(line.startswith("WARNING: survivors of 1 of these") for line in lines)
    assert any(line.startswith("v8-random") for line in lines)


@pytest.mark.parametrize(
    ("cost", "times", "said"),
    [
        (98.0, 1, "ETA: about 25 s on 4 free CPU devices"),
        (98.0, 2, "ETA: about 50 s on 4 free CPU devices, control included"),
        (0.001, 1, "ETA: about 2 s on 4 free CPU devices"),
    ],
)
def test_the_fleet_takes_so_long_by_the_devices_that_are_there(cost: float, times: int, said: str) -> None:
    assert eta(cast(Client, _Fleet()), [planned(cpu_s=cost)], times) == said


def test_what_is_not_known_is_not_made_up() -> None:
    unknown = Planned(planned().search, planned().worth, None)
    assert "hostler status" in eta(cast(Client, _Fleet()), [unknown], 1)
    assert sorted_out([unknown], 1.0) == ([unknown], [])
