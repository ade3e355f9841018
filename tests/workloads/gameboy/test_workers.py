"""Workers in processes of their own: who is dead is begun anew, who is stopped keeps nobody waiting."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import psutil
import pytest
import torch

from hostler.workloads.gameboy import workers
from hostler.workloads.gameboy.batch import WrongValue
from hostler.workloads.gameboy.fragments import Fragment
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.policy import Network
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.seeing import Eyes
from hostler.workloads.gameboy.workers import Here, NoWorker, Plan, Processes

PATIENCE_S = 200.0


def plan(game: Game, cart: Cartridge, **changes: int) -> Plan:
    asked = Plan(game=game, cartridge=cart, workers=2, machines=2, steps=16, seed=1)
    return replace(asked, **changes)  # type: ignore[arg-type]


@pytest.fixture
def network(keyrooms: Game) -> Network:
    torch.manual_seed(0)
    return Network(Eyes(keyrooms).width, None, len(keyrooms.actions))


@pytest.fixture
def two(keyrooms: Game, cart: Cartridge, network: Network) -> Iterator[Processes]:
    """Two workers."""
    made = Processes(plan(keyrooms, cart), network)
    yield made
    made.close()


def taken(source: Processes, enough: Callable[[Sequence[Fragment]], bool]) -> list[Fragment]:
    """What comes, until that is enough."""
    found: list[Fragment] = []
    ends_at = time.monotonic() + PATIENCE_S
    while not enough(found):
        assert time.monotonic() < ends_at, f"{len(found)} fragments, {source.troubles()}"
        found += source.take(1.0)
    return found


def test_the_same_seed_gives_the_same_fragments_here(keyrooms: Game, cart: Cartridge, network: Network) -> None:
    stories = []
    for _ in range(2):
        source = Here(plan(keyrooms, cart))
        source.offer(network, 3)
        stories.append([source.take(0)[0] for _ in range(3)])
        source.close()
    for one, other in zip(*stories, strict=True):
        assert (one.version, one.features.tobytes()) == (3, other.features.tobytes())
        assert one.actions.tobytes() == other.actions.tobytes()


def test_fragments_come_with_the_newest_policy(two: Processes, network: Network) -> None:
    taken(two, lambda found: len(found) > 2)
    with torch.no_grad():
        network.choice.bias[4] = 100.0
    two.offer(network, 5)
    (last,) = taken(two, lambda found: any(each.version == 5 for each in found))[-1:]
    assert last.version == 5
    assert (last.actions == 4).all()
    assert last.steps == 32


def test_a_worker_that_was_killed_is_begun_anew_and_told(two: Processes) -> None:
    taken(two, lambda found: len(found) > 1)
    killed = two.pids[0]
    os.kill(killed, signal.SIGKILL)
    told: list[str] = []

    def has_come_back(_: Sequence[Fragment]) -> bool:
        told.extend(two.troubles())
        return bool(told) and len(two.pids) == 2 and killed not in two.pids

    taken(two, has_come_back)
    assert told == ["worker 0 ended: signal 9"]
    taken(two, lambda found: len(found) > 6)
    assert two.troubles() == []


def test_a_worker_that_stands_still_keeps_nobody_waiting(two: Processes) -> None:
    taken(two, lambda found: len(found) > 1)
    os.kill(two.pids[0], signal.SIGSTOP)
    try:
        taken(two, lambda found: len(found) > 20)
    finally:
        os.kill(two.pids[0], signal.SIGCONT)


def test_nothing_is_left_of_workers(keyrooms: Game, cart: Cartridge, network: Network) -> None:
    source = Processes(plan(keyrooms, cart), network)
    blocks = {source._policy.block.name, *(each.fragments.block.name for each in source._workers)}
    assert len(blocks & set(os.listdir("/dev/shm"))) == 3
    taken(source, lambda found: len(found) > 1)
    pids = source.pids
    assert len(pids) == 2
    source.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not blocks & set(os.listdir("/dev/shm"))


def test_workers_that_cannot_live_are_given_up_with_what_they_died_of(
    keyrooms: Game, cart: Cartridge, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "LIVES", 2)
    source = Processes(plan(keyrooms, replace(cart, rom=cart.rom[:100]), workers=1), network)
    try:
        with pytest.raises(NoWorker, match=r"no worker is left: .*NoCartridge: PyBoy cannot take the ROM"):
            taken(source, lambda found: False)
    finally:
        source.close()


def test_a_value_beyond_its_bound_ends_it_as_it_does_without_workers(
    keyrooms: Game, cart: Cartridge, network: Network
) -> None:
    wrong = replace(keyrooms, values={**keyrooms.values, "x": replace(keyrooms.values["x"], below=3)})
    source = Processes(plan(wrong, cart, workers=1), Network(Eyes(wrong).width, None, len(wrong.actions)))
    try:
        with pytest.raises(WrongValue, match="x at 0xc002 is"):
            taken(source, lambda found: False)
    finally:
        source.close()


def test_what_goes_on_begins_with_the_policy_that_it_has(keyrooms: Game, cart: Cartridge, network: Network) -> None:
    source = Processes(replace(plan(keyrooms, cart, workers=1), version=40), network)
    try:
        assert {each.version for each in taken(source, lambda found: len(found) > 1)} == {40}
    finally:
        source.close()
