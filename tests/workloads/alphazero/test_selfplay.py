import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hostler.workloads.alphazero import artifacts as artifacts_module, segments, selfplay
from hostler.workloads.alphazero.artifacts import SEGMENT
from hostler.workloads.alphazero.model import Manifest, publish
from hostler.workloads.alphazero.network import build
from hostler.workloads.alphazero.replay import Verdict, replay
from hostler.workloads.alphazero.segments import Segment
from hostler.workloads.alphazero.selfplay import read_order
from hostler.workloads.alphazero.shelf import Order, numbers_of, spans
from hostler.workloads.alphazero.stage import OrderError
from tests.workloads.alphazero.stages import CONFIG, GAME, Node, call_on, common_order, selfplay_order
from tests.workloads.alphazero.trivial import Spacing

TIMES = {"cpu_s", "search_s", "network_s"}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def without_times(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in TIMES}


def read(node: Node, told: dict[str, Any]) -> Segment:
    return segments.read(node.artifacts.read(told["sha256"], SEGMENT))


def played(result: dict[str, Any]) -> list[int]:
    """The games of a result, which must be in one segment each."""
    return sorted(number for each in result["segments"] for number in numbers_of(each["numbers"]))


def model(node: Node, seed: int = 1) -> str:
    manifest = Manifest.untrained(GAME, CONFIG, channels=8, blocks=1, seed=seed)
    return publish(node.artifacts, build(GAME, channels=8, blocks=1, seed=seed), manifest).sha256


def test_the_result_holds_what_was_ordered_and_every_game_replays(node: Node) -> None:
    status, result = node.run(selfplay.run, selfplay_order(games=43))
    assert status == 0
    assert [each["games"] for each in result["segments"]] == [8, 8, 8, 8, 8, 3]
    assert result["games"] == 43
    assert result["positions"] == sum(each["positions"] for each in result["segments"])
    assert result["cpu_s"] > 0
    assert (result["search_s"], result["network_s"]) == (0.0, 0.0)
    for told in result["segments"]:
        segment = read(node, told)
        assert told["bytes"] == len(node.artifacts.read(told["sha256"], SEGMENT))
        assert (segment.header.games, segment.header.positions) == (told["games"], told["positions"])
        assert (segment.header.player, segment.header.seed, segment.header.purpose) == ("heuristic", 17, "selfplay")
        assert (replay(GAME, segment).verdicts == Verdict.SOUND).all()


def test_games_are_the_same_whatever_the_size_of_the_table(node: Node) -> None:
    results = [
        node.run(selfplay.run, selfplay_order(options={"parallel": parallel}))[1] for parallel in (1, 3, 64)
    ]  # fmt: skip
    assert without_times(results[0]) == without_times(results[1]) == without_times(results[2])


def test_another_seed_is_other_games(node: Node) -> None:
    results = [node.run(selfplay.run, {**selfplay_order(), "seed": seed})[1] for seed in (1, 2)]
    first, second = ({each["sha256"] for each in result["segments"]} for result in results)
    assert not first & second


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def dying(monkeypatch: pytest.MonkeyPatch, times: int, holder: Any, name: str, how: Callable[[], None]) -> Any:
    return lambda: call_on(times, how, holder, name, monkeypatch)


@pytest.mark.parametrize(
    ("times", "holder", "name", "closed"),
    [
        pytest.param(1, Spacing, "apply", 0, marks=pytest.mark.long),
        (25, Spacing, "apply", 2),
        pytest.param(45, Spacing, "apply", 4, marks=pytest.mark.long),
        pytest.param(1, artifacts_module, "_write_through", 0, marks=pytest.mark.long),
        (1, artifacts_module, "_hash_of", 0),
        pytest.param(2, artifacts_module, "_write_through", 0, marks=pytest.mark.long),
        (3, artifacts_module, "_write_through", 1),
        pytest.param(9, artifacts_module, "_fsync_folder", 3, marks=pytest.mark.long),
        (1, shutil, "rmtree", 5),
    ],
    ids=[
        "at once", "playing", "playing late", "before the first segment", "before its rename", "before it is noted",
        "before the report", "after a rename", "before the work folder goes",
    ],
)  # fmt: skip
def test_a_killed_order_goes_on_and_leaves_what_it_would_have_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, holder: Any, name: str, closed: int
) -> None:
    whole, killed = Node(tmp_path / "whole"), Node(tmp_path / "killed")
    for each in (whole, killed):
        each.folder.mkdir()
    order = selfplay_order()
    expected = without_times(whole.run(selfplay.run, order)[1])
    assert killed.run_forked(selfplay.run, order, dying(monkeypatch, times, holder, name, kill)) == -signal.SIGKILL
    if killed.result_path.exists():
        told = killed.result()
        assert told["games"] == sum(each["games"] for each in told["segments"])
        assert all(each in expected["segments"] for each in told["segments"])
    memory = next((killed.root / "work").glob("*")) / "closed.json"
    assert len(json.loads(memory.read_text())["closed"]) == closed if closed else not memory.exists()
    applied: list[int] = []
    with monkeypatch.context() as watching:
        original = Spacing.apply
        watching.setattr(Spacing, "apply", lambda self, *rest: applied.append(len(rest[0])) or original(self, *rest))
        status, result = killed.run(selfplay.run, order)
    assert (status, without_times(result)) == (0, expected)
    assert sum(applied) == sum(each["positions"] for each in expected["segments"][closed:])
    assert killed.files() == whole.files()


def test_sigterm_leaves_what_is_closed_and_the_next_life_goes_on(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = selfplay_order()
    assert node.run_forked(selfplay.run, order, dying(monkeypatch, 25, Spacing, "apply", terminate)) == 143
    told = node.result()
    assert 0 < len(told["segments"]) < 5
    assert "error" not in told
    status, result = node.run(selfplay.run, order)
    assert status == 0
    assert [each for each in result["segments"] if each in told["segments"]] == told["segments"]
    assert result["games"] == 40
    assert result["cpu_s"] > told["cpu_s"]


def test_a_segment_that_was_lost_meanwhile_is_played_again(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order = selfplay_order()
    node.run_forked(selfplay.run, order, dying(monkeypatch, 25, Spacing, "apply", terminate))
    lost = node.artifacts.path(node.result()["segments"][0]["sha256"], SEGMENT)
    lost.write_bytes(lost.read_bytes()[:-1])
    status, result = node.run(selfplay.run, order)
    assert (status, result["games"]) == (0, 40)
    assert f"{lost} is damaged" in capsys.readouterr().err
    assert sum(read(node, told).header.games for told in result["segments"]) == 40
    assert played(result) == list(range(40))


def test_sigterm_closes_segments_with_the_games_that_are_there(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    order = selfplay_order(segment_games=40)
    assert node.run_forked(selfplay.run, order, dying(monkeypatch, 25, Spacing, "apply", terminate)) == 143
    (told,) = node.result()["segments"]
    assert 0 < told["games"] < 40
    assert len(list(numbers_of(told["numbers"]))) == told["games"]
    assert (replay(GAME, read(node, told)).verdicts == Verdict.SOUND).all()
    status, result = node.run(selfplay.run, order)
    assert (status, len(result["segments"]), played(result)) == (0, 2, list(range(40)))


def test_what_was_closed_elsewhere_is_not_played_again(tmp_path: Path) -> None:
    whole, other = Node(tmp_path / "whole"), Node(tmp_path / "other")
    for each in (whole, other):
        each.folder.mkdir()
    order = selfplay_order()
    expected = whole.run(selfplay.run, order)[1]
    closed = [expected["segments"][each] for each in (1, 4)]
    status, result = other.run(selfplay.run, {**order, "closed": {"segments": closed, "cpu_s": 1000.0}})
    assert (status, without_times(result)) == (0, without_times(expected))
    assert result["cpu_s"] > 1000
    assert len([name for name in other.files() if name.endswith(SEGMENT)]) == 3


def test_what_this_node_closed_is_dropped_where_others_closed_the_same_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, back = Node(tmp_path / "whole"), Node(tmp_path / "back")
    for each in (whole, back):
        each.folder.mkdir()
    order = selfplay_order()
    theirs = whole.run(selfplay.run, selfplay_order(segment_games=20))[1]["segments"][0]
    back.run_forked(selfplay.run, order, dying(monkeypatch, 45, Spacing, "apply", kill))
    assert len(back.result()["segments"]) == 4
    status, result = back.run(selfplay.run, {**order, "closed": {"segments": [theirs], "cpu_s": 0.0}})
    assert (status, played(result)) == (0, list(range(40)))
    assert theirs in result["segments"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"numbers": "0-7,x"}, "tells no numbers"),
        ({"numbers": "0-6"}, "holds 8 games and names 7"),
        ({"numbers": "36-43"}, "different games of the 40"),
        ({"sha256": "f"}, "must be a SHA-256"),
        ({"more": 1}, "unknown more"),
    ],
)
def test_what_is_said_to_be_closed_elsewhere_is_checked(changed: dict[str, Any], told: str) -> None:
    closed = {"sha256": "a" * 64, "bytes": 10, "games": 8, "positions": 80, "numbers": "0-7", **changed}
    with pytest.raises(OrderError, match=told):
        read_order({**selfplay_order(), "closed": {"segments": [closed], "cpu_s": 0.0}})


@given(st.sets(st.integers(0, 300)))
def test_numbers_can_be_read_from_their_text(numbers: set[int]) -> None:
    assert sorted(numbers) == ([] if not numbers else list(numbers_of(spans(sorted(numbers)))))


def test_with_a_network_games_carry_its_values_and_its_name(node: Node) -> None:
    sha256 = model(node)
    status, result = node.run(selfplay.run, selfplay_order(player=f"gumbel-4@{sha256}", games=10))
    assert (status, result["games"]) == (0, 10)
    assert result["network_s"] > 0
    assert result["search_s"] > 0
    segment = read(node, result["segments"][0])
    assert (segment.header.model, segment.header.engine, segment.header.simulations) == (sha256, "gumbel", 4)
    assert np.isfinite(segment.network_value).all()
    assert np.isfinite(segment.root_value).all()
    assert (replay(GAME, segment).verdicts == Verdict.SOUND).all()


def test_with_a_network_a_killed_order_counts_every_game_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    order = selfplay_order(player=f"gumbel-2@{model(node)}", games=30, segment_games=5)
    node.run_forked(selfplay.run, order, dying(monkeypatch, 60, Spacing, "apply", terminate))
    told = node.result()["segments"]
    status, result = node.run(selfplay.run, order)
    assert (status, result["games"]) == (0, 30)
    assert 0 < len(told) < 6
    assert all(each in result["segments"] for each in told)
    seeds = np.concatenate([read(node, each).game_seed for each in result["segments"]])
    assert len(set(seeds.tolist())) == 30


@pytest.mark.parametrize("seed", [None, 2])
def test_a_model_that_cannot_be_used_is_a_failure_that_names_it(node: Node, seed: int | None) -> None:
    if seed is None:
        sha256, told = "ab" * 32, "cannot be read"
    else:
        manifest = Manifest.untrained(GAME, "hex8_2p", channels=8, blocks=1, seed=seed)
        sha256 = publish(node.artifacts, build(GAME, channels=8, blocks=1, seed=seed), manifest).sha256
        told = "'hex8_2p', that of the order is 'spacing_2p'"
    status, result = node.run(selfplay.run, selfplay_order(player=f"gumbel-4@{sha256}"))
    assert status == 1
    assert sha256 in result["error"]
    assert told in result["error"]


def test_what_is_not_said_has_its_default() -> None:
    order = read_order(selfplay_order(options={}))
    assert (order.considered, order.parallel, order.sampled_plies) == (16, 64, 3)
    assert isinstance(order, Order)
    assert read_order(selfplay_order(options={"sampled_plies": 0})).sampled_plies == 0


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"player": "greedy"}, "order.player: greedy does not record"),
        ({"player": f"policy@{'ab' * 32}"}, "order.player: policy"),
        ({"player": "gumbel-4"}, "order.player"),
        ({"games": 0}, "order.games"),
        ({"segment_games": None}, "order.segment_games"),
        ({"options": {"paralel": 3}}, "order.options: unknown paralel"),
        ({"options": None}, "order.options"),
        ({"more": 1}, "order: unknown more"),
    ],
)
def test_a_wrong_order_is_named(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(OrderError, match=told):
        read_order(selfplay_order(**changed))


def test_a_wrong_order_ends_with_status_2(node: Node) -> None:
    order = {**common_order(), "stage": "selfplay"}
    assert node.run(selfplay.run, order)[0] == 2


@pytest.mark.parametrize("content", ["", "[]", '{"closed": [{}], "spent": {}}', "[" * 100_000])
def test_a_damaged_memory_is_said_and_all_is_played_again(
    node: Node, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    order = selfplay_order(games=8)
    clean = node.run(selfplay.run, order)[1]
    (node.artifacts.work(order) / "closed.json").write_text(content)
    status, result = node.run(selfplay.run, order)
    assert (status, without_times(result)) == (0, without_times(clean))
    assert "closed.json is damaged" in capsys.readouterr().err
