"""Workers on a real Ray cluster of four nodes: spread, killed, refused."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.workloads.gameboy import reaching
from hostler.workloads.gameboy.checkpoints import Checkpoints
from hostler.workloads.gameboy.fragments import Fragment
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.policy import Network
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.run import Spread, read_run
from hostler.workloads.gameboy.seeing import Eyes
from hostler.workloads.gameboy.training import Training
from hostler.workloads.gameboy.workers import Plan
from tests.raytown.town import BARE
from tests.workloads.gameboy import standing
from tests.workloads.gameboy.test_main import begun, order, told
from tests.workloads.gameboy.test_workers import presses_a

ray = pytest.importorskip("ray", reason="there is no Ray: `make ray` installs it")
rays = pytest.importorskip("hostler.workloads.gameboy.rays")

# Warnings are Ray's, which leaves sockets to the collector.
pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]
STORE_BYTES = 80 << 20
STEPS = 16
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that works nothing, and three nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": STORE_BYTES, **BARE})
    try:
        for _ in range(3):
            made.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
        ray.init(address=made.address, log_to_driver=False)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def network(game: Game) -> Network:
    return Network(Eyes(game).width, game.screen, len(game.actions))


def plan(game: Game, cart: Cartridge, workers: int) -> Plan:
    return Plan(game=game, cartridge=cart, workers=workers, machines=2, steps=STEPS, seed=1)


@pytest.fixture
def actors(cluster: Any, keyrooms: Game, cart: Cartridge) -> Iterator[Any]:
    """Three workers, each on a node of its own."""
    made = rays.Actors(plan(keyrooms, cart, 3), network(keyrooms), Spread(strategy="STRICT_SPREAD"))
    yield made
    made.close()


def taken(source: Any, count: int) -> list[Fragment]:
    """At least so many fragments."""
    found: list[Fragment] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += source.take(5.0)
    assert len(found) >= count
    return found


def troubles(source: Any) -> Sequence[str]:
    """What is told sooner or later."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        source.take(1.0)
        if found := source.troubles():
            return list(found)
    raise AssertionError("nothing was told")


@given(st.integers(1, 20), st.lists(st.integers(0, 8), max_size=8), st.sampled_from(["SPREAD", "STRICT_SPREAD"]))
def test_what_fits_is_as_many_as_there_is_room_for(workers: int, cpus: list[int], strategy: Any) -> None:
    nodes = [{"CPU": float(each)} for each in cpus]
    room = sum(min(each, 1) if strategy == "STRICT_SPREAD" else each for each in cpus)
    fault = rays.misfit(workers, Spread(strategy=strategy), nodes)
    assert (fault is None) == (room >= workers)
    assert fault is None or f"room for {room}" in fault


def test_each_is_on_a_node_of_its_own_and_samples_with_the_newest_policy(actors: Any, keyrooms: Game) -> None:
    assert len({node for node, _ in actors.places()}) == 3
    actors.offer(network(keyrooms), 7)
    found = taken(actors, 12)
    assert {each.version for each in found} == {0, 7}
    assert all(each.steps == 2 * STEPS for each in found)
    assert ray.cluster_resources().get("GPU", 0) == 0


def test_a_worker_that_is_killed_is_begun_anew(actors: Any) -> None:
    taken(actors, 3)
    pid = actors.places()[0][1]
    os.kill(pid, signal.SIGKILL)
    assert any("worker 0 ended" in each for each in troubles(actors))
    taken(actors, 3)
    assert pid not in [each for _, each in actors.places()]


def test_a_worker_whose_machine_stands_still_for_ever_is_begun_anew(cluster: Any, keyrooms: Game) -> None:
    made = rays.Actors(plan(keyrooms, standing.at_a(), 1), presses_a(keyrooms))
    try:
        assert any("worker 0 ended" in each for each in troubles(made))
    finally:
        made.close()


def test_what_can_never_fit_is_refused_with_the_sum(cluster: Any, keyrooms: Game, cart: Cartridge) -> None:
    """Ray waits for it for ever, and says nothing."""
    with pytest.raises(rays.NoRoom, match=r"5 workers with 1 CPU each .* room for 3"):
        rays.Actors(plan(keyrooms, cart, 5), network(keyrooms), Spread())
    with pytest.raises(rays.NoRoom, match=r"4 workers .* no two on one node"):
        rays.Actors(plan(keyrooms, cart, 4), network(keyrooms), Spread(strategy="STRICT_SPREAD"))


def test_what_has_no_room_now_is_refused_after_a_while(actors: Any, keyrooms: Game, cart: Cartridge) -> None:
    with pytest.raises(rays.NoRoom, match="0 CPU are free"):
        rays.Actors(plan(keyrooms, cart, 1), network(keyrooms), Spread(room_s=1.0))


def nodes() -> list[str]:
    return [each["NodeID"] for each in ray.nodes() if each["Alive"] and each["Resources"].get("CPU")]


def test_a_folder_that_all_nodes_reach_is_proved_and_left_as_it_was(cluster: Any, tmp_path: Path) -> None:
    assert len(nodes()) == 3
    rays.prove(tmp_path, nodes())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing_is_told_with_the_nodes(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(rays.Apart, match=r"missing is to keep checkpoints.*; mount it there") as caught:
        rays.prove(tmp_path / "missing", nodes())
    for each in nodes():
        assert f"({each[:8]}): No such file or directory" in str(caught.value)


def test_a_training_whose_nodes_do_not_see_its_folder_does_not_begin(
    cluster: Any, keyrooms: Game, cart: Cartridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this process writes is written elsewhere, as if each had a folder of its own under that name."""
    (tmp_path / "own").mkdir()
    kept, real = Checkpoints(tmp_path / "kept", {}), reaching.write
    monkeypatch.setattr(reaching, "write", lambda folder, *words: real(tmp_path / "own", *words))
    monkeypatch.setattr(reaching, "keeps", lambda folder: True)
    monkeypatch.setattr(rays, "BETWEEN_S", 0.01)
    spread = {"address": cluster.address, "strategy": "STRICT_SPREAD", "room_s": 5}
    asked = {"steps": 64, "workers": 3, "batch_steps": 64, "ray": spread}
    for _ in range(2):  # the first has given its room back
        with pytest.raises(rays.Apart, match="does not see what here wrote; it is another folder there: share one"):
            Training(read_run(asked), keyrooms, cart, kept).run()
    assert list((tmp_path / "kept").iterdir()) == []


def test_training_goes_on_when_a_node_dies(cluster: Any, keyrooms: Game, cart: Cartridge) -> None:
    asked = {
        "steps": 4096,
        "workers": 3,
        "envs_per_worker": 2,
        "batch_steps": 256,
        "fragment_steps": STEPS,
        "course": {"epochs": 1},
        "ray": {"address": cluster.address, "strategy": "SPREAD"},
    }
    told: list[Any] = []
    victim = cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)

    def tell(each: Any) -> None:
        told.append(each)
        if len(told) == 3:
            cluster.remove_node(next(iter(cluster.worker_nodes - {victim})), allow_graceful=False)

    done = Training(read_run(asked), keyrooms, cart, told=tell).run()
    assert done.steps >= 4096
    assert [each["steps"] for each in told if "steps" in each] == sorted(
        each["steps"] for each in told if "steps" in each
    )


def test_a_driver_that_is_killed_is_gone_on_from(cluster: Any, tmp_path: Path) -> None:
    """And its workers give their CPUs back: Ray ends what belongs to a driver that is gone."""
    path = order(tmp_path, workers=2, ray={"address": cluster.address})
    first = begun(path)
    try:
        before = told(first, 3)
        first.kill()
        first.wait(PATIENCE_S)
        second = begun(order(tmp_path, workers=2, ray={"address": cluster.address}, steps=before["steps"] + 1024))
        lines = second.communicate(timeout=PATIENCE_S)[0].splitlines()
        out = [json.loads(line) for line in lines if line.startswith("{")]  # Ray tells of nodes that died, too
    finally:
        first.kill()
        assert first.stdout is not None
        first.stdout.close()
    went_on = next(each for each in out if "updates" in each)
    assert went_on["updates"] > 2
    assert went_on["steps"] > 2 * 256, "steps are counted on"
    assert out[-1]["done"]
    assert out[-1]["steps"] >= before["steps"] + 1024
