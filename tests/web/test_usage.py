"""How devices were used, over HTTP: by period and group, in pages, and what cannot be asked."""

from __future__ import annotations

import pytest

from hostler.model.inputs import EndHour, Submit, Tick
from tests.core.builders import ended, script
from tests.web.core_desk import Window, walk

URL = "/api/v1/usage"
HOUR_S = 3600.0


@pytest.fixture
def used(served: Window) -> Window:
    """A script on one of two devices for about two hours and a half, of which one is not over."""
    served.tell(Submit(specs=(script("a"),)))
    served.call(lambda: served.desk.driver.tell(EndHour(), after_s=2 * HOUR_S))
    served.tell(ended("j1.1"))
    served.call(lambda: served.desk.driver.tell(Tick(), after_s=600.0))
    return served


def test_hours_add_up_to_days_and_the_present_one_is_there(used: Window) -> None:
    (day,) = used.get(f"{URL}?since=0").json
    assert day["of"] == {}
    assert (day["begins"], day["ends"], day["done"], day["failed"]) == (0.0, 86_400.0, 1, 0)
    assert day["held_s"] == pytest.approx(2 * HOUR_S, abs=5)
    assert day["idle_s"] + day["held_s"] == day["up_s"]
    assert (day["utilization"], day["cost"], day["unpriced_s"]) == (None, None, day["held_s"])
    hours = used.get(f"{URL}?since=0&per=hour").json
    assert [each["begins"] for each in hours] == [0.0, HOUR_S, 2 * HOUR_S]
    assert sum(each["held_s"] for each in hours) == day["held_s"]


def test_groups_are_told_apart_and_picked_out(used: Window) -> None:
    rows = used.get(f"{URL}?since=0&by=device&by=work").json
    assert [each["of"] for each in rows] == [
        {"device": "n/cpu0", "work": "idle"},
        {"device": "n/cpu0", "work": "script"},
        {"device": "n/cpu1", "work": "idle"},
    ]
    (row,) = used.get(f"{URL}?since=0&by=model&work=script&device=n%2Fcpu0&node=n").json
    assert (row["of"], row["idle_s"]) == ({"model": None}, 0.0)
    assert used.get(f"{URL}?since=0&node=other").json == []
    assert walk(used, f"{URL}?since=0&per=hour&by=device&by=work&limit=2") == (
        used.get(f"{URL}?since=0&per=hour&by=device&by=work").json
    )


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ("per=year", 422, "per"),
        ("by=colour", 422, "by"),
        ("by=node&by=node", 422, "name each once"),
        ("since=soon", 422, "since"),
        ("since=nan", 422, "since"),
        ("since=1e300", 422, "since"),
        ("since=-1", 422, "since"),
        ("since=10&until=10", 422, "is not before"),
        ("since=99999999999", 422, "is not before"),
        ("limit=0", 422, "limit"),
        ("after=bm9wZQ", 422, "after"),
        ("work=sleeping", 422, "work"),
        ("node=", 422, "node"),
        ("device=%00", 422, "NUL"),
        ("pool=a%00b", 422, "NUL"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(used: Window, query: str, status: int, why: str) -> None:
    reply = used.get(f"{URL}?{query}")
    assert reply.status == status, reply.body
    assert why in reply.json["message"]
