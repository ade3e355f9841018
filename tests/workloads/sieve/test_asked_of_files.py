"""Questions that are asked of data files: what the file says, what is said beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import SpecError


def test_draws_of_a_table_with_calls_as_people_write_them(tmp_path: Path) -> None:
    rows = [f"{value},{'noon' if i % 2 else 'night'}" for i, value in enumerate([12, 5, 877, 6, 3, 7])]
    (tmp_path / "draws.csv").write_text("\n".join(["draw,session", *rows]))
    asked = {"data": "draws.csv", "generator": "php8", "calls": "mt_rand(1,1000)", "gap": [0, 3]}
    made = spec.prepare({**asked, "filters": {"sessions": ["night"]}}, tmp_path)
    assert (made["draws"], made["generator"], made["gap"]) == ([12, 877, 3], "php-mt_rand", [0, 3])
    assert made["calls"] == [{"kind": "range", "min": 1, "max": 1000}]
    whole = spec.prepare({**asked, "filters": {"sessions": ["night"], "others": "unknown"}}, tmp_path)
    assert whole["draws"] == [12, None, 877, None, 3, None]


@pytest.mark.parametrize(
    ("beside", "complaint"),
    [
        ({}, "does not say which generator"),
        ({"generator": "php8"}, "give calls"),
        ({"generator": "php8", "calls": "nextInt(5)"}, "nextInt"),
        ({"generator": "php8", "calls": "mt_rand(1,9)", "filters": {"session": []}}, "unknown session"),
        ({"generator": "php8", "calls": "mt_rand(1,9)", "window": 8}, "unknown window"),
    ],
)
def test_what_is_not_said_is_asked_for(beside: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    (tmp_path / "draws.txt").write_text("5\n6\n-\n7\n")
    with pytest.raises(SpecError, match=complaint):
        spec.prepare({"data": "draws.txt", **beside}, tmp_path)
