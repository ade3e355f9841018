"""Results of groups as rows: what any reader of JSON and CSV can read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler.client.results import fields_of, rows_of

ROW: dict[str, Any] = {
    "job": "j1",
    "state": "done",
    "started_at": 1.0,
    "ended_at": 2.0,
    "duration_s": 1.0,
    "result": {"loss": 0.5},
}


@pytest.mark.parametrize("text", ["1e999", "-1e999", "nan", "NaN", "inf", "Infinity", "-Infinity"])
def test_parameter_that_is_no_finite_number_stays_a_text(text: str) -> None:
    rows = rows_of([{**ROW, "parameters": {"lr": text}}, {**ROW, "parameters": {"lr": "0.1"}}])
    assert [row["lr"] for row in rows] == [text, "0.1"]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


def test_parameters_that_are_numbers_become_numbers() -> None:
    (row,) = rows_of([{**ROW, "parameters": {"lr": "1e-3", "bs": "16"}}])
    assert (row["lr"], row["bs"]) == (0.001, 16)
    assert [each.is_number for each in fields_of([{**ROW, "parameters": {"lr": "1e-3"}}])][1]
