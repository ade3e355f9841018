"""Who survived, in words and as JSON lines."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from hostler.cli.survivors import FINAL, Control, Outcome, json_lines, progress, told
from hostler.client.shapes import SweepView
from hostler.model.work import JobState


def sweep(job: str = "j1", *, done: int = 100, total: int = 100, **more: Any) -> SweepView:
    """As the controller tells of one."""
    view = {"job": job, "start": 0, "stop": total, "total": total, "done": done, "state": "done", "hits": 0}
    return cast(SweepView, {**view, "per_s": None, "left_s": None, **more})


def outcome(*hits: dict[str, Any], job: str = "j1", searches: int = 1, **more: Any) -> Outcome:
    """A search with these survivors."""
    found = [{"draws": 10, "next": [7, 8], **hit} for hit in hits]
    control = Control("j2", sweep("j2"), 0)
    given: dict[str, Any] = {"sweep": sweep(job), "control": control, **more}
    return Outcome(job, "php-mt_rand", "mt_rand(1, 6)", {}, hits=found, done=[(0, 100)], searches=searches, **given)


def test_survivors_come_with_their_e_value_and_what_is_next() -> None:
    lines = list(told([outcome({"at": 42, "chance": 1e-6})]))
    assert lines == [
        "j1: 1 survived:",
        "SEED  E-VALUE  NEXT",
        "  42   0.0001  7 8",
        "j2, the same draws shuffled: 0 survived",
    ]


def test_where_alignments_and_shares_were_searched_they_are_told() -> None:
    lines = list(told([outcome({"at": 42, "chance": 1e-6, "fitting": 9, "skip": 3, "gap": 1})]))
    assert lines[1].split() == ["SEED", "E-VALUE", "FIT", "SKIP,GAP", "NEXT"]
    assert lines[2].split() == ["42", "0.0001", "9/10", "3,1", "7", "8"]


def test_nobody_is_said_and_how_much_of_the_range_that_is() -> None:
    assert next(told([outcome()])) == "j1: 0 survived; no seed of the range made these draws"
    assert next(told([outcome(sweep=sweep(done=25))])).startswith("j1, 25.0% searched so far: 0 survived")


def test_searches_that_are_told_together_count_together_the_surest_first() -> None:
    one = outcome({"at": 1, "chance": 1e-4}, searches=2)
    other = outcome({"at": 2, "chance": 1e-8}, job="j3", searches=2)
    lines = list(told([one, other]))
    assert lines[0] == "2 searches: 2 survived:"
    assert [line.split()[-4:-2] for line in lines[2:4]] == [["2", "2e-06"], ["1", "0.02"]]
    assert lines[-2:] == ["2 controls, the same draws shuffled: 0 survived", "E-values count all 2 searches"]
    assert [json.loads(line)["e_value"] for line in json_lines([one, other])] == [0.02, 2e-06]


def test_of_very_many_the_surest_are_shown() -> None:
    lines = list(told([outcome(*({"at": item, "chance": 1.0} for item in range(250)))]))
    assert len(lines) == 104
    assert lines[-2] == "and 150 more, less sure than these; `hostler sieve survivors --json` has all"


def test_json_has_one_object_a_line() -> None:
    (line,) = json_lines([outcome({"at": 42, "chance": 1e-6})])
    assert json.loads(line) == {
        "job": "j1", "generator": "php-mt_rand", "calls": "mt_rand(1, 6)", "at": 42, "chance": 1e-6, "draws": 10,
        "next": [7, 8], "e_value": pytest.approx(1e-4),
    }  # fmt: skip


def test_states_that_end_are_those_of_jobs() -> None:
    assert {state.value for state in JobState if state.final} == FINAL


def test_how_far_they_are_is_told_in_a_line() -> None:
    assert progress([sweep(done=50, per_s=2e6, left_s=12.0)]) == "j1: 50.0%, 2M items/s, 12s left"
    assert progress([sweep(done=0)]) == "j1: 0.0%"
    assert progress([sweep(), sweep("j2", state="running", per_s=1e3)]) == "1 of 2 searches done, 1000 items/s"
