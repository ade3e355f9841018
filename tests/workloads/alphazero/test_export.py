import os
import resource
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostler.workloads.alphazero import artifacts as artifacts_module, dataset, export, gathering, segments, selfplay
from hostler.workloads.alphazero.artifacts import DATASET, SEGMENT
from hostler.workloads.alphazero.gate import PROPERTIES
from hostler.workloads.alphazero.model import Manifest, publish
from hostler.workloads.alphazero.network import build
from hostler.workloads.alphazero.stage import OrderError
from hostler.workloads.beacons.game import make as beacons
from tests.integration.conftest import small_disk
from tests.workloads.alphazero.stages import (
    CONFIG,
    GAME,
    Node,
    call_on,
    export_order,
    games_of,
    segment_of,
    selfplay_order,
    with_header,
)

GAMES = games_of(GAME, 60)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def run(node: Node, offered: Sequence[dict[str, Any]], **changed: Any) -> tuple[int, dict[str, Any]]:
    status, result = node.run(export.run, export_order(offered, **changed))
    for told in result.get("segments", []):
        assert told["accepted"] + sum(told["rejected"].values()) == told["games"]
        assert told["refused"] is None or told["accepted"] == 0
    return status, result


def test_games_that_self_play_left_become_a_dataset(node: Node) -> None:
    played = node.run(selfplay.run, selfplay_order())[1]
    offered = [{"sha256": each["sha256"], "games": each["games"]} for each in played["segments"]]
    status, result = run(node, offered, min_games=30)
    assert status == 0
    accepted = sum(each["accepted"] for each in result["segments"])
    found = dataset.read(node.artifacts.read(result["dataset"]["sha256"], DATASET))
    assert result["dataset"]["games"] == found.header["games"] == accepted
    assert result["dataset"]["positions"] == found.header["positions"] == len(found.states)
    assert found.header["segments"] == [each["sha256"] for each in offered]
    assert set(result["quality"]) == set(PROPERTIES)
    assert found.header["quality"] == result["quality"]
    lengths = np.bincount(found.game)
    assert result["lengths"] == {"mean": lengths.mean(), "sd": pytest.approx(lengths.std()), "games": accepted}
    assert result["bootstrap"] is True
    assert result["cpu_s"] > 0


def test_the_same_order_twice_is_the_same_dataset(node: Node) -> None:
    offered = [node.publish(segment_of(GAMES[:20]))]
    assert run(node, offered)[1]["dataset"] == run(node, offered)[1]["dataset"]


def test_segments_that_cannot_be_used_are_refused_by_name_and_the_rest_goes_on(node: Node) -> None:
    good = node.publish(segment_of(GAMES[:10]))
    corrupt = node.publish(segment_of(GAMES[10:20]))
    path = node.artifacts.path(corrupt["sha256"], SEGMENT)
    path.write_bytes(path.read_bytes()[:-1])
    other_rules = node.publish(with_header(segment_of(GAMES[20:30]), rules_version=2))
    other_config = node.publish(with_header(segment_of(GAMES[30:40]), config="hex8_2p"))
    miscounted = {**node.publish(segment_of(GAMES[40:50])), "games": 11}
    nonsense = {"sha256": node.artifacts.publish(SEGMENT, b"games").sha256, "games": 7}
    offered = [corrupt, other_rules, good, other_config, miscounted, nonsense]
    status, result = run(node, offered)
    assert status == 0
    assert result["dataset"]["games"] == 10
    refused = {each["sha256"]: each["refused"] for each in result["segments"]}
    for each, told in (
        (corrupt, "is damaged"),
        (other_rules, "rules_version is 2, but 1 is asked for"),
        (other_config, "config is 'hex8_2p', but 'spacing_2p'"),
        (miscounted, "holds 10 games, not 11"),
        (nonsense, "archive of 5 bytes is damaged"),
    ):
        assert told in refused[each["sha256"]]
        assert each["sha256"] in refused[each["sha256"]]
    assert refused[good["sha256"]] is None
    assert [each["rejected"] for each in result["segments"] if each["refused"]] == [
        {"unreadable": games} for games in (10, 10, 10, 11, 7)
    ]


def test_no_accepted_game_is_a_failure_with_its_numbers(node: Node) -> None:
    cut = [replace(game, plies=game.plies[:-1]) for game in GAMES[:20]]
    offered = [node.publish(segment_of(cut)), {"sha256": node.artifacts.publish(SEGMENT, b"games").sha256, "games": 5}]
    before = node.files()
    status, result = run(node, offered)
    assert status == 1
    assert result["dataset"] is None
    assert result["lengths"] is None
    assert result["error"].startswith(
        "0 of 25 games were accepted, a dataset needs 1; rejected: undecided: 20, unreadable: 5; "
        "2 of 2 segments were refused, the first because: its quality is below 0.7: decided 0.00"
    )
    assert [each["accepted"] for each in result["segments"]] == [0, 0]
    assert node.files() == before


def test_too_few_games_are_a_failure_and_nothing_is_published(node: Node) -> None:
    offered = [node.publish(segment_of(GAMES[:20]))]
    before = node.files()
    status, result = run(node, offered, min_games=21)
    assert (status, result["dataset"]) == (1, None)
    assert "20 of 20 games were accepted, a dataset needs 21; rejected: none" in result["error"]
    assert node.files() == before
    assert run(node, offered, min_games=20)[0] == 0


def test_no_segments_at_all_are_a_failure(node: Node) -> None:
    status, result = run(node, [])
    assert status == 1
    assert "0 of 0 games were accepted" in result["error"]
    assert result["quality"] == dict.fromkeys(PROPERTIES)


def test_bad_games_of_a_good_segment_do_not_enter_the_dataset(node: Node) -> None:
    lie = replace(GAMES[3], ranking=GAMES[3].ranking[::-1])
    offered = [node.publish(segment_of([*GAMES[:3], lie, *GAMES[4:20], GAMES[0]]))]
    _, result = run(node, offered)
    assert result["segments"][0]["rejected"] == {"replay": 1, "duplicate": 1}
    found = dataset.read(node.artifacts.read(result["dataset"]["sha256"], DATASET))
    assert found.header["games"] == 19
    assert len(found.states) == sum(len(game.plies) for game in GAMES[:20]) - len(lie.plies)


def test_after_a_promotion_weak_games_are_refused_and_the_bootstrap_is_over(node: Node) -> None:
    weak = node.publish(segment_of(GAMES[:20]))
    sha256, strong = gumbel_games(node)
    floor = {"floor": 800, "players": {f"gumbel-2@{sha256}": 1000, "heuristic": 700}}
    status, result = run(node, [weak, strong], strength=floor)
    assert status == 0
    assert result["bootstrap"] is False
    assert result["segments"][0]["rejected"] == {"weak generator": 20}
    assert result["segments"][0]["refused"] == "its quality is below 0.7: strength 0.00"
    assert result["segments"][1]["accepted"] > 0
    assert result["quality"]["strength"] == pytest.approx(12 / 32)
    found = dataset.read(node.artifacts.read(result["dataset"]["sha256"], DATASET))
    assert found.header["models"] == [sha256]


def model(node: Node, seed: int) -> str:
    manifest = Manifest.untrained(GAME, CONFIG, channels=8, blocks=1, seed=seed)
    network = build(GAME, channels=8, blocks=1, seed=seed)
    for parameter in network.places.parameters():
        # An untrained network says little of the places: make it outspoken, as a trained one is.
        parameter.data *= 8
    return publish(node.artifacts, network, manifest).sha256


def gumbel_games(node: Node, seed: int = 1) -> tuple[str, dict[str, Any]]:
    sha256 = model(node, seed)
    order = selfplay_order(player=f"gumbel-2@{sha256}", games=12, segment_games=12)
    told = node.run(selfplay.run, order)[1]["segments"][0]
    return sha256, {"sha256": told["sha256"], "games": told["games"]}


def test_games_are_recognised_by_the_model_they_name(node: Node) -> None:
    _, offered = gumbel_games(node)
    _, result = run(node, [offered])
    assert result["segments"][0]["quality"]["provenance"] == 1.0


def test_games_that_name_another_model_than_their_own_are_refused(node: Node) -> None:
    _, offered = gumbel_games(node)
    other = model(node, 2)
    segment = segments.read(node.artifacts.read(offered["sha256"], SEGMENT))
    lie = node.publish(with_header(segment, model=other, player=f"gumbel-2@{other}"))
    status, result = run(node, [lie])
    assert status == 1
    assert "provenance" in result["segments"][0]["refused"]
    assert result["segments"][0]["rejected"]["provenance"] > 0


def naming(node: Node, offered: dict[str, Any], sha256: str) -> dict[str, Any]:
    """The same games, said to be of another model."""
    segment = segments.read(node.artifacts.read(offered["sha256"], SEGMENT))
    return node.publish(with_header(segment, model=sha256, player=f"gumbel-2@{sha256}"))


@pytest.mark.parametrize("what", ["segment", "model"])
def test_what_is_not_here_is_trouble_of_the_node_and_no_verdict_on_games(node: Node, what: str) -> None:
    sha256, offered = gumbel_games(node)
    lacking = offered["sha256"] if what == "segment" else sha256
    path = node.artifacts.path(lacking, SEGMENT if what == "segment" else ".safetensors")
    content = path.read_bytes()
    path.unlink()
    window = [node.publish(segment_of(GAMES[:20])), offered]
    status, result = run(node, window)
    assert (status, set(result)) == (1, {"error"})
    assert f"{path} cannot be read: No such file" in result["error"]
    path.write_bytes(content)
    status, result = run(node, window)
    assert (status, [each["refused"] for each in result["segments"]]) == (0, [None, None])


@pytest.mark.parametrize("damage", ["other config", "no channels", "a billion blocks", "overflow"])
def test_games_whose_model_is_of_no_use_are_refused_not_believed(node: Node, damage: str) -> None:
    _, offered = gumbel_games(node)
    config = "hex8_2p" if damage == "other config" else CONFIG
    size = {"no channels": {"channels": -1}, "a billion blocks": {"blocks": 10**9}}.get(damage, {})
    manifest = replace(Manifest.untrained(GAME, config, channels=8, blocks=1, seed=1), **size)
    network = build(GAME, channels=8, blocks=1, seed=1)
    if damage == "overflow":
        for parameter in network.parameters():
            parameter.data *= 1e30
    sha256 = publish(node.artifacts, network, manifest).sha256
    offered = naming(node, offered, sha256)
    status, result = run(node, [node.publish(segment_of(GAMES[:20])), offered])
    assert (status, result["dataset"]["games"]) == (0, 20)
    assert sha256 in result["segments"][1]["refused"] or damage == "overflow"
    assert damage != "overflow" or "not finite" in result["segments"][1]["refused"]
    assert result["segments"][1]["quality"]["provenance"] is None


@pytest.mark.parametrize("board", ["hex8", pytest.param("square8", marks=pytest.mark.long)])
@pytest.mark.parametrize("players", [2, pytest.param(3, marks=pytest.mark.long), 4])
def test_the_reference_game_is_exported_whole(node: Node, board: str, players: int) -> None:
    game = beacons(board, players)
    reference = {"factory": "hostler.workloads.beacons.game:make", "params": {"board": board, "players": players}}
    offered = [node.publish(segment_of(games_of(game, 30), game))]
    status, result = run(node, offered, game=reference)
    assert status == 0
    assert result["dataset"]["games"] == 30
    assert result["segments"][0]["score"] > 0.95


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("holder", "name", "times"),
    [
        (export.gate, "measure", 2),
        pytest.param(gathering, "replay", 2, marks=pytest.mark.long),
        pytest.param(artifacts_module, "_write_through", 1, marks=pytest.mark.long),
        (artifacts_module, "_hash_of", 1),
    ],
    ids=["measuring", "gathering", "before writing", "before the rename"],
)
def test_a_killed_export_leaves_no_artifact_and_the_next_life_succeeds(
    node: Node, monkeypatch: pytest.MonkeyPatch, holder: Any, name: str, times: int
) -> None:
    offered = [node.publish(segment_of(GAMES[:20])), node.publish(segment_of(GAMES[20:40]))]
    before = node.files()
    order = export_order(offered)
    dying: Callable[[], None] = lambda: call_on(times, kill, holder, name, monkeypatch)  # noqa: E731
    assert node.run_forked(export.run, order, dying) == -signal.SIGKILL
    left = node.files() - before
    assert all(name.endswith(".tmp") for name in left)
    assert len(left) == (name == "_hash_of")
    assert not node.result_path.exists()
    status, result = node.run(export.run, order)
    assert status == 0
    assert node.files() - before == {
        f"objects/{result['dataset']['sha256'][:2]}/{result['dataset']['sha256']}{DATASET}"
    }


def test_a_full_disk_is_a_failure_with_numbers_and_leaves_nothing_half_way(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "128k") as disk:
        node = Node(tmp_path, disk / "artifacts")
        offered = [node.publish(segment_of(GAMES))]
        ballast(disk, 4096)
        before = node.files()
        status, result = run(node, offered)
        assert status == 1
        assert "cannot be written: No space left on device" in result["error"]
        assert f"bytes are free in {node.root}" in result["error"]
        assert node.files() == before
        (disk / "ballast").unlink()
        assert run(node, offered)[0] == 0


def ballast(disk: Path, spare: int) -> None:
    """Leave so many bytes on the disk, less than a dataset takes."""
    numbers = os.statvfs(disk)
    (disk / "ballast").write_bytes(b"\0" * (numbers.f_bavail * numbers.f_frsize - spare))


def test_a_file_that_may_not_grow_is_a_failure_that_leaves_nothing(node: Node) -> None:
    offered = [node.publish(segment_of(GAMES))]
    before = node.files()

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    assert node.run_forked(export.run, export_order(offered), limited) == 1
    assert "cannot be written: File too large" in node.result()["error"]
    assert node.files() == before


def test_self_play_on_a_full_disk_fails_with_what_it_had_closed_and_goes_on_later(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "256k") as disk:
        node = Node(tmp_path, disk / "artifacts")
        ballast(disk, 4 * 4096)
        order = selfplay_order()
        status, told = node.run(selfplay.run, order)
        assert status == 1
        assert "No space left on device" in told["error"]
        assert 0 < len(told["segments"]) < 5
        assert not [name for name in node.files() if name.endswith(".tmp")]
        (disk / "ballast").unlink()
        status, result = node.run(selfplay.run, order)
        assert (status, result["games"]) == (0, 40)
        assert result["segments"][: len(told["segments"])] == told["segments"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"min_games": 0}, "order.min_games"),
        ({"quality": 1.1}, "order.quality"),
        ({"strength": {"floor": 1}}, r"order\.strength\.players: missing"),
        ({"strength": {"floor": None, "players": {}}}, r"order\.strength\.floor"),
        ({"strength": {"floor": 1, "players": {"heuristic": "strong"}}}, r"order\.strength\.players\.heuristic"),
        ({"lengths": {"mean": 1, "sd": -1, "games": 3}}, r"order\.lengths\.sd"),
        ({"include_evaluation": 0}, r"order\.include_evaluation"),
        ({"segments": [{"sha256": "x", "games": 1}]}, r"order\.segments\[0\]\.sha256"),
        ({"segments": [{"sha256": "ab" * 32, "games": 1}] * 2}, "names a segment twice"),
        ({"more": 1}, "order: unknown more"),
    ],
)
def test_a_wrong_order_is_named(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(OrderError, match=told):
        export.read_order(export_order([], **changed))


def test_games_that_get_lost_in_the_gate_are_an_error(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = export.gate.judge

    def losing(*arguments: Any) -> Any:
        return [replace(each, rejected={}, accepted=each.accepted[1:]) for each in judge(*arguments)]

    monkeypatch.setattr(export.gate, "judge", losing)
    with pytest.raises(AssertionError, match="games of a segment were lost"):
        node.run(export.run, export_order([node.publish(segment_of(GAMES[:5]))]))
    assert "lost in the gate" in node.result()["error"]
