"""What the API and the pages say of trainings: on a real server, in front of outputs of all sorts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from hostler.model.inputs import Submit, Tick
from hostler.model.rl_views import RlAxisView
from hostler.model.work import WorkKind
from hostler.web.pages.rl import CELLS, chosen, grid
from hostler.web.rl.trainings import PLACES_SHOWN
from tests.core.builders import ended, script
from tests.web.core_desk import Window, window
from tests.web.pages.test_pages import page
from tests.web.rl.builders import ADVICE, line, output, png, told

HARM = "<img src=x onerror=alert(1)>\"'{{7*7}}\x02 \x021.000 ago\x03\u202e"
DASH = '<abbr class="unknown" title="unknown">–</abbr>'


def rl(name: str, **spec: Any) -> Any:
    """A job that learns by reinforcement."""
    return script(name, work_as=WorkKind.RL, **spec)


@pytest.fixture
def learning() -> Iterator[Window]:
    """Of two jobs that learn one runs and has told something; a third is another job, a fourth waits."""
    with window() as served:
        served.tell(Submit(specs=(rl("first", key="k/1"), script("other"), rl("second"), rl("third"))))
        served.desk.logs["j1.1", "out"] = (
            b"Loading...\n" + output(20) + line({"trouble": "worker 3 ended"}) + b'{"rl"\n'
        )
        yield served


def test_numbers_are_those_of_the_last_line(learning: Window) -> None:
    detail = learning.get("/api/v1/rl/k%2F1").json
    row = detail["row"]
    assert (row["job"]["id"], row["attempt"], row["fault"], row["lines"], row["skipped"]) == ("j1", "j1.1", None, 21, 1)
    numbers = row["numbers"]
    assert (numbers["steps"], numbers["per_s"], numbers["per_s_mean"], numbers["window_s"]) == (
        40_000,
        1000.0,
        1000.0,
        30.0,
    )
    assert numbers["per_cpu_s"] == pytest.approx(1000.0)
    assert (numbers["alarms"], numbers["done"]) == (["rooms"], None)
    assert [each["name"] for each in detail["spent"]] == ["emulate", "encode", "policy", "transport", "learn"]
    assert sum(each["share"] for each in detail["spent"]) == pytest.approx(1.0)
    assert [(each["name"], each["is_alarm"]) for each in detail["parts"]] == [
        ("rooms", True),
        ("keys", False),
        ("falls", False),
    ]
    assert detail["explored"][0] == {"number": 0, "episodes": 200}
    assert [each["says"] for each in detail["troubles"]] == ["worker 3 ended"]
    assert detail["advice"] is None


def test_a_curve_has_a_point_for_each_line(learning: Window) -> None:
    points = learning.get("/api/v1/rl/j1/curve").json
    assert [each["steps"] for each in points] == [2000 * number for number in range(1, 21)]
    assert {each["per_s"] for each in points} == {None, 1000.0}


def test_pictures_are_pictures(learning: Window) -> None:
    reply = learning.get("/api/v1/rl/j1/pictures/4")
    assert (reply.status, reply.headers["content-type"], reply.body) == (200, "image/png", png(grey=0))
    assert reply.headers["x-content-type-options"] == "nosniff"
    for env in ("16", "999999"):
        assert learning.get(f"/api/v1/rl/j1/pictures/{env}").status == 404
    assert learning.get("/api/v1/rl/j1/pictures/-1").status == 422


def test_other_jobs_are_none(learning: Window) -> None:
    for path in ("/api/v1/rl/j2", "/api/v1/rl/j2/curve", "/api/v1/rl/j2/pictures/0", "/api/v1/rl/j99", "/pages/rl/j2"):
        reply = learning.get(path)
        assert reply.status == 404, path
    assert b"is no rl job but a script job" in learning.get("/pages/rl/j2").body


def test_what_was_not_told_is_unknown(learning: Window) -> None:
    learning.desk.logs["j1.1", "out"] = b'{"rl": 1, "steps": 5, "seconds": 0}\n'
    numbers = learning.get("/api/v1/rl/j1").json["row"]["numbers"]
    assert (numbers["steps"], numbers["reward"], numbers["per_s"], numbers["per_s_mean"]) == (5, None, None, None)
    text = page(learning, "rl/j1")
    assert DASH in text.partition('id="numbers"')[2]
    assert page(learning, "rl").count(DASH) > 3


def test_one_that_has_not_begun_has_a_page(learning: Window) -> None:
    assert "no attempt has begun" in page(learning, "rl/j4")
    assert learning.get("/api/v1/rl/j4").json["row"]["attempt"] is None


def test_where_output_cannot_be_read_it_says_why(learning: Window) -> None:
    assert learning.get("/api/v1/rl/j3").json["row"]["fault"] is not None
    assert "Its output cannot be read now" in page(learning, "rl/j3")
    assert "cannot be read" in page(learning, "rl")


def test_those_that_run_come_first(learning: Window) -> None:
    learning.tell(ended("j1.1", exit_code=0))
    learning.desk.ended.add("j1.1")
    text = page(learning, "rl")
    assert re.findall(r'href="/pages/rl/(j\d+)"', text) == ["j4", "j3", "j1"]
    learning.tell(Submit(specs=(rl("new"),)))
    assert 'href="/pages/rl/j5"' in page(learning, "rl")


def test_one_that_is_over_is_still_shown(learning: Window) -> None:
    learning.desk.logs["j1.1", "out"] += line({"done": True})
    learning.tell(ended("j1.1", exit_code=0))
    assert learning.get("/api/v1/rl/j1").json["row"]["attempt"] == "j1.1"
    text = page(learning, "rl/j1")
    assert "says it is done" in text
    assert "at last, over" in text


def test_one_that_runs_and_tells_nothing_is_silent_and_has_no_rate(learning: Window) -> None:
    learning.desk.driver.now = 2000.0
    learning.tell(Tick())
    row = page(learning, "rl").partition('href="/pages/rl/j1"')[2].partition("</tr>")[0]
    assert ("silent" in row, '<td class="num">1 k</td>' in row) == (True, True), "that is the mean"
    assert row.count(DASH) == 1, "and the rate is unknown"
    assert "silent" in page(learning, "rl/j1").partition('id="head"')[2].partition("<dl")[0]


def test_the_page_shows_what_was_told(learning: Window) -> None:
    text = page(learning, "rl/j1")
    for words in ("worker 3 ended", "1 left out", "rooms makes up more", "emulate", "room_x from left to right"):
        assert words in text, words
    assert 'class="heat heat-8"' in text
    assert "Advice" not in text
    assert text.count("<img") > 10


def test_advice_is_shown_where_there_is_any(learning: Window) -> None:
    learning.desk.logs["j1.1", "out"] = line(told(1, advice=ADVICE, alarms=["advice calls"]))
    text = page(learning, "rl/j1")
    shown = text.partition('id="advice"')[2]
    for words in ("86.0 %", "timeout", "0.25 s", "no answer within 5 s", ">50<"):
        assert words in shown, words
    assert "alarm: advice calls" in text
    assert "makes up more" not in text, "calls are no component of the reward"
    assert learning.get("/api/v1/rl/j1").json["advice"]["success"] == 0.86


@pytest.mark.parametrize("env", ["3", "0", "15"])
def test_an_environment_is_chosen_and_has_neighbours(learning: Window, env: str) -> None:
    text = page(learning, f"rl/j1?env={env}")
    assert f"environment {env} of 16" in text
    number = int(env)
    assert f'href="/pages/rl/j1?env={(number - 1) % 16}" data-stay data-key="ArrowLeft"' in text
    assert f'href="/pages/rl/j1?env={(number + 1) % 16}" data-stay data-key="ArrowRight"' in text


@pytest.mark.parametrize("env", ["-1", "16", "x", "%D9%A3", "9" * 50, "%3Cb%3E", ""])
def test_an_environment_that_there_cannot_be_is_not_chosen(learning: Window, env: str) -> None:
    assert "environment 0 of 16" in page(learning, f"rl/j1?env={env}")


def test_what_means_harm_is_but_text(learning: Window) -> None:
    harmful = told(
        1,
        parts={HARM: 1.0},
        shares={HARM: 1.0},
        alarms=[HARM],
        map=[[HARM, 4], [HARM, 4]],
        spent={HARM: 1.0},
        update={HARM: 1.0},
        advice={HARM: 1.0, "trouble": HARM, "alarm": HARM, "calls": {HARM: {"calls": 1}}},
    )
    learning.desk.logs["j1.1", "out"] = line(harmful) + line({"trouble": HARM})
    for path in ("rl", "rl/j1"):
        text = page(learning, path)
        assert "<img src=x" not in text
        assert HARM.partition("\x02")[0] in unescape(text)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00\xff\xfe" * 1000,
        b"{" * 100_000,
        output(3)[:-40],
        line(told(1, steps=10**400)),
        b'{"rl": 1, "steps": NaN, "seconds": 1}\n',
        line(told(1, seconds=1e-300, steps=2**53)) + line(told(1, seconds=2e-300, steps=2**53)),
        line(told(1, spent={"emulate": 5e-324, "learn": 1e15})) + line(told(2, spent={"emulate": 0.0})),
        line(told(1, parts={"rooms": -1e15}, episodes=1, reward=1e15, places=1e15)),
        line(told(1, explored={str(n): 2**53 for n in range(65536)}, episodes=0, map=[["x", 256], ["y", 256]])),
        line(told(1, explored={"65535": 1}, map=[["x", 2], ["y", 2]])),
        line(told(1, map=[["x", 65536]], explored={"5": 0})),
        line(told(1, map=[["x", 1], ["y", 65536]], episodes=None)),
        line(told(1, envs=0)),
        line(told(1, envs=1_000_000, pictures={})),
        line(told(1, at=0, of=0)),
    ],
)
def test_whatever_is_written_is_no_error(learning: Window, raw: bytes) -> None:
    learning.desk.logs["j1.1", "out"] = raw
    for path in ("rl", "rl/j1", "rl/j1?env=3"):
        assert "failed to make this page" not in page(learning, path)
    for path in ("/api/v1/rl/j1", "/api/v1/rl/j1/curve"):
        assert learning.get(path).status == 200
    assert learning.desk.status().troubles == 0


def test_of_a_large_map_several_places_make_a_cell() -> None:
    axes = (RlAxisView(name="x", width=100), RlAxisView(name="y", width=256))
    places = {number: number % 7 for number in range(0, 25600, 3)}
    found = grid(axes, places, 7)
    assert found is not None
    assert (found["columns"], found["rows"], found["across"], found["down"]) == (25, CELLS, 4, 8)
    assert len(found["cells"]) <= 25 * CELLS
    assert not found["numbered"]
    assert all(each.x < 25 and each.y < CELLS and 1 <= each.heat <= 8 for each in found["cells"])


def test_of_many_places_all_are_on_the_map(learning: Window) -> None:
    places = {str(number): 1 + number % 9 for number in range(65_536)}
    axes = [["x", 256], ["y", 256]]
    learning.desk.logs["j1.1", "out"] = line(told(1, explored=places, map=axes))
    detail = learning.get("/api/v1/rl/j1").json
    assert (len(detail["explored"]), detail["places_explored"]) == (PLACES_SHOWN, 65_536)
    assert {each["episodes"] for each in detail["explored"]} == {9}
    assert page(learning, "rl/j1").count('class="heat heat-8"') == CELLS * CELLS


def test_the_last_value_is_the_fastest() -> None:
    axes = (RlAxisView(name="x", width=4), RlAxisView(name="y", width=3))
    found = grid(axes, {5: 1}, 4)
    assert found is not None
    assert [(each.x, each.y, each.share, each.words) for each in found["cells"]] == [(1, 2, 0.25, "x 1, y 2")]
    assert grid(axes[:1], {}, 1) is None


def test_the_first_environment_with_a_picture_is_looked_at() -> None:
    assert chosen(None, 16, [5, 7]) == 5
    assert chosen("7", None, [5, 7]) == 7
    assert chosen("3", None, [5, 7]) == 5
    assert chosen(None, 16, []) is None
