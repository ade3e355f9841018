"""run_all.py: the page is made of what the benchmarks left."""

import json
from pathlib import Path

import pytest

import run_all
from common import Bar, report


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of documents in which one benchmark has left its figures."""
    figures = tmp_path / "performance"
    figures.mkdir()
    monkeypatch.setattr(run_all, "DOCS", tmp_path)
    monkeypatch.setattr(run_all, "FIGURES", figures)
    rows = [{"minute": 5.0, "Elo": None}, {"minute": 1234.5, "Elo": 3}, {"against": "greedy", "p": 3.25e-9}]
    bars = [Bar("p", 3.25e-9, 0.01, "<"), Bar("q", None, 0.01, "<", "too short")]
    report("learning", rows, bars, figures / "learning.json")
    return tmp_path


def test_tables_of_different_shape_stand_apart_and_small_numbers_stay_small(docs: Path) -> None:
    lines = _section(docs).splitlines()
    assert "| minute | Elo |" in lines
    assert "| 1,234 | 3 |" in lines
    assert "| 5 | – |" in lines
    assert "| greedy | 3.25e-09 |" in lines
    assert "| p | 3.25e-09 | < 0.01 | met |" in lines
    assert "| q | – | < 0.01 | not measured: too short |" in lines


def test_a_picture_is_shown_where_there_is_one(docs: Path) -> None:
    assert "![" not in _section(docs)
    (docs / "performance" / "learning.svg").write_text("<svg/>")
    assert "![learning](performance/learning.svg)" in _section(docs)


def _section(docs: Path) -> str:
    return run_all._section(json.loads((docs / "performance" / "learning.json").read_text()))
