"""learning.py: what a journal and a history say of a loop that learnt, and how likely chance is."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from scipy.stats import binomtest
from tests.patience import PATIENCE_S

from learning import bars, draw, final_row, model_rows, stage_rows, sum_row, time_rows
from learning_final import Final, sign_test, untrained_player
from learning_run import Told
from learning_story import Story, Sum, tell

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FIRST, SECOND, THIRD = (digit * 64 for digit in "123")
BEGAN = 1_000.0
FINAL = Final("gumbel-32@" + SECOND, "greedy", won=60, even=30, lost=10, score=0.75)
OVER_UNTRAINED = Final("gumbel-32@" + SECOND, "gumbel-32@" + FIRST, won=90, even=10, lost=0, score=0.95)


@given(won=st.integers(0, 300), lost=st.integers(0, 300))
def test_the_sign_test_is_the_exact_binomial_one(won: int, lost: int) -> None:
    if won + lost == 0:
        assert sign_test(won, lost) == 1.0
        return
    exact = binomtest(won, won + lost, alternative="greater").pvalue
    assert sign_test(won, lost) == pytest.approx(exact, rel=1e-9, abs=1e-300)


@given(amounts=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=30), at=st.integers(-1, 51))
def test_a_sum_until_a_time_is_that_of_what_came_till_then(amounts: list[tuple[int, int]], at: int) -> None:
    growing = Sum()
    for when, amount in sorted(amounts):
        growing.add(when, amount)
    assert growing.until(at) == sum(amount for when, amount in amounts if when <= at)
    assert growing.total == sum(amount for _, amount in amounts)


def _entry(at: float, kind: str, **fields: Any) -> dict[str, Any]:
    return {"seq": 0, "at": at, "event": {"kind": kind, **fields}}


def _attempt(job: str, stage: str, at: float, cpu_s: float | None, exit_code: int = 0) -> list[dict[str, Any]]:
    return [
        _entry(at - 5, "job.submitted", job=job, spec={"payload": {"kind": stage}}),
        _entry(at - 4, "attempt.leased", job=job, attempt=f"{job}.1"),
        _entry(at, "attempt.ended", attempt=f"{job}.1", cpu_s=cpu_s, exit_code=exit_code),
    ]


def _segments(at: float, player: str, *games: int) -> dict[str, Any]:
    return _entry(at, "config.segments", player=player, segments=[{"games": n, "positions": 60 * n} for n in games])


JOURNAL = [
    _entry(BEGAN, "controller.started"),
    *_attempt("j1", "training", BEGAN + 60, 10.0),
    _segments(BEGAN + 120, "gumbel-32@" + FIRST, 16, 16),
    *_attempt("j2", "selfplay", BEGAN + 120, 30.0),
    *_attempt("j3", "export", BEGAN + 180, 5.0, exit_code=1),
    _segments(BEGAN + 200, "evaluation", 40),
    *_attempt("j4", "evaluation", BEGAN + 240, 20.0),
]


def _rating(elo: float) -> dict[str, Any]:
    return {"elo": elo, "low": elo - 50, "high": elo + 50, "games": 64}


def _model(number: int, sha256: str, status: str, at: float, elo: float | None) -> dict[str, Any]:
    rating = None if elo is None else _rating(elo)
    return {"number": number, "sha256": sha256, "status": status, "made_at": at - 1, "decided_at": at, "steps": 100,
            "rating": rating, "after": None}  # fmt: skip


def _told(**config: Any) -> Told:
    told = {"name": "hex4_2p", "player": "gumbel-32@" + SECOND, "current": SECOND, "generation": 1, "datasets": 1,
            "models": 3, "promotions": 1, "rejections": 1, **config}  # fmt: skip
    history = {
        "config": told,
        "models": [
            _model(0, FIRST, "promoted", BEGAN + 60, 100.0),
            _model(1, SECOND, "promoted", BEGAN + 190, 620.0),
            _model(2, THIRD, "rejected", BEGAN + 300, 600.0),
        ],
        "ratings": [
            {"at": BEGAN + 100, "player": "gumbel-32@" + FIRST, "rating": _rating(90.0)},
            {"at": BEGAN + 200, "player": "gumbel-32@" + SECOND, "rating": _rating(650.0)},
        ],
        "players": {"random": _rating(0.0), "greedy": _rating(594.0), "gumbel-32@" + SECOND: _rating(620.0)},
    }
    return Told(history, JOURNAL, at=BEGAN + 360, cpu_s=80.0)


@pytest.fixture(scope="module")
def story() -> Story:
    return tell(JOURNAL)


def test_a_journal_tells_what_was_spent_until_when(story: Story) -> None:
    assert story.began == BEGAN
    assert [story.cpu_s.until(BEGAN + at) for at in (0, 60, 119, 120, 240)] == [0, 10, 10, 40, 65]
    assert story.stages["export"].failed == 1
    assert story.stages["selfplay"].failed == 0


def test_recorded_games_of_evaluations_are_no_self_play(story: Story) -> None:
    assert (story.games.total, story.positions.total) == (32, 1920)


def test_the_rating_of_a_time_is_the_one_that_was_known_then(story: Story) -> None:
    rows = list(time_rows(_told(), story))
    assert [row["minute"] for row in rows] == pytest.approx([6 * step / 9 for step in range(1, 10)])
    assert [row["Elo"] for row in rows] == [None, None, 90.0, 90.0, 650.0, 650.0, 650.0, 650.0, 650.0]
    assert [row["model"] for row in rows] == [None, None, 0, 0, 1, 1, 1, 1, 1]
    assert [row["CPU-s of jobs"] for row in rows] == [0, 10, 40, 40, 45, 65, 65, 65, 65]


def test_models_that_became_current_are_listed_with_what_they_had_cost(story: Story) -> None:
    rows = list(model_rows(_told(), story))
    assert [(row["promoted model"], row["CPU-s of jobs"], row["Elo at the end"]) for row in rows] == [
        (0, 10.0, 100.0),
        (1, 45.0, 620.0),
    ]


def test_what_no_stage_took_is_the_controllers(story: Story) -> None:
    rows = {row["stage"]: row for row in stage_rows(_told(), story)}
    assert rows["controller, agent, jobs not ended"]["CPU-s"] == 15.0
    assert sum(row["share %"] for row in rows.values()) == pytest.approx(100)


def test_an_unknown_cost_is_not_zero() -> None:
    story = tell([*JOURNAL, *_attempt("j5", "selfplay", BEGAN + 300, None)])
    rows = {row["stage"]: row for row in stage_rows(_told(), story)}
    assert (rows["selfplay"]["CPU-s"], rows["selfplay"]["share %"]) == (None, None)
    assert rows["training"]["CPU-s"] == 10.0


def test_the_sum_counts_games_by_the_hour(story: Story) -> None:
    row = sum_row(_told(), story)
    assert (row["minutes"], row["games"], row["games/h"]) == (6.0, 32, 320.0)


def test_the_untrained_opponent_searches_as_the_current_model_does() -> None:
    assert untrained_player(_told().history) == "gumbel-32@" + FIRST
    assert untrained_player(_told(current=FIRST, player="gumbel-32@" + FIRST).history) is None


def test_the_bars_are_the_chances_that_nothing_was_learnt() -> None:
    untrained, greedy = bars(_told().history, [OVER_UNTRAINED, FINAL], quick=False)
    assert (untrained.value, greedy.value) == (sign_test(90, 0), sign_test(60, 10))
    assert (untrained.met, greedy.met) == (True, True)
    assert final_row(_told().history, OVER_UNTRAINED)["against"] == "model 0"


def test_without_a_promotion_the_bar_is_missed() -> None:
    untrained, greedy = bars(_told(current=FIRST).history, [FINAL], quick=False)
    assert (untrained.met, untrained.note) == (False, "nothing was promoted")
    assert greedy.met


def test_a_quick_run_sets_no_bar_but_tells_its_figure() -> None:
    for bar in bars(_told().history, [OVER_UNTRAINED, FINAL], quick=True):
        assert (bar.value, bar.met) == (None, None)
        assert "here " in bar.note


def test_the_picture_names_the_anchors_and_is_the_same_for_the_same_numbers(story: Story, tmp_path: Path) -> None:
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    draw(_told(), story, first)
    draw(_told(), story, second)
    assert ">greedy <" in first.read_text()
    assert first.read_bytes() == second.read_bytes()


def test_there_is_no_picture_without_a_rating(story: Story, tmp_path: Path) -> None:
    told = _told()
    told.history["ratings"] = []
    draw(told, story, tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()


@pytest.mark.long
def test_a_fleet_file_that_is_refused_ends_the_benchmark_with_the_reason(tmp_path: Path) -> None:
    assert "nowhere" in _failed("name: x\nnowhere: 1\n", tmp_path)


@pytest.mark.long
def test_a_fleet_file_without_the_one_config_is_refused(tmp_path: Path) -> None:
    assert "has 0 training configs" in _failed("name: x\nnodes: [{name: here, cpu_slots: 1}]\n", tmp_path)


def _failed(fleet: str, folder: Path) -> str:
    """What the benchmark says of a fleet file, in a process tree of its own."""
    file = folder / "fleet.yaml"
    file.write_text(fleet)
    command = [sys.executable, str(BENCHMARKS / "learning.py"), "--config", str(file), "--minutes", "1"]
    ended = subprocess.run(command, env={**os.environ, "TMPDIR": str(folder)}, stderr=subprocess.PIPE, text=True,
                           timeout=PATIENCE_S, check=False)  # fmt: skip
    assert ended.returncode == 1
    assert [each.name for each in folder.iterdir()] == ["fleet.yaml"], "it leaves nothing"
    return ended.stderr
