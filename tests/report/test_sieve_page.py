"""The page of searches for seeds: what it says, what it draws, and that texts stay texts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="reports need the extra `report`")

from hostler.report.searches import Sample, SearchTold, Survivor
from hostler.report.sieve_page import make_sieve_page, verdict

AT = 1_790_000_000.0


def search(**more: Any) -> SearchTold:
    """A search that found one."""
    given: dict[str, Any] = {
        "job": "j1",
        "title": "php-mt_rand, mt_rand(1, 6)",
        "question": [("generator", "php-mt_rand")],
        "draws": [1, 6, None, 3, 2, 5, 5, 1, 4],
        "lowest": 1,
        "values": 6,
        "start": 0,
        "stop": 1 << 40,
        "done": [(0, 1 << 40)],
        "expected": 1e-6,
        "survivors": [Survivor(77, 1e-6, 8, "skip 3", "4 4 1")],
        "control": (0, 1.0),
        "curve": [Sample(1, 3.0), Sample(2, 1.0), Sample(8, -6.0)],
        "known": 8,
    }
    return SearchTold(**{**given, **more})


def test_the_page_says_what_was_found_and_draws_it() -> None:
    page = make_sieve_page([search()], AT)
    assert "Found: 1 survived that chance does not explain (E-value 1e-06)." in page
    for text in (">77<", ">0x4d<", "skip 3", "4 4 1", "8 of 8", "100.0 %"):
        assert text in page
    assert page.count("<svg") == 6
    assert not re.search(r"(src|href)=[\"']?https?:", page)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"survivors": []}, "Excluded"),
        ({"survivors": [], "done": [(0, 1 << 39)]}, "Nothing so far: 50.0 %"),
        ({"survivors": [Survivor(1, 3.0, 8, "", "")]}, "Not settled"),
    ],
)
def test_the_verdict_is_no_more_than_what_is_known(more: dict[str, Any], said: str) -> None:
    assert said in verdict(search(**more)).text


@pytest.mark.parametrize(
    ("more", "pictures", "said"),
    [
        ({"survivors": []}, 5, "Nobody survived."),
        pytest.param({"done": [], "survivors": []}, 4, "Nothing is searched yet.", marks=pytest.mark.long),
        pytest.param({"curve": []}, 5, "Not worked out", marks=pytest.mark.long),
        pytest.param({"draws": []}, 4, "no plain numbers", marks=pytest.mark.long),
        pytest.param({"draws": [1, 2], "known": 2}, 5, "too few draws", marks=pytest.mark.long),
        pytest.param(
            {"expected": 4e5, "control": None, "survivors": [Survivor(i, 1.0, 8, "", "") for i in range(300)]},
            6,
            "none",
            marks=pytest.mark.long,
        ),
        ({"lowest": -(2**63), "values": 2**64, "draws": [-(2**63), 2**63 - 1, 0] * 5, "known": 15}, 6, "Found"),
    ],
)
def test_what_is_not_there_is_said_and_not_drawn(more: dict[str, Any], pictures: int, said: str) -> None:
    page = make_sieve_page([search(**more)], AT)
    assert page.count("<svg") == pictures
    assert said in page


def test_texts_stay_texts_and_several_searches_are_listed() -> None:
    hostile = "<script>alert(1)</script>\u202e$x_1^2$"
    page = make_sieve_page([search(title=hostile), replace(search(done=[], survivors=[]), job="j2")], AT)
    assert "<script>" not in page
    assert "\u202e" not in page
    assert 'href="#j2"' in page
