"""Workers in processes of their own: who is dead is begun anew, who is stopped keeps nobody waiting."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from hostler.workloads.gameboy import shared, workers
from hostler.workloads.gameboy.batch import WrongValue
from hostler.workloads.gameboy.fragments import Fragment
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.policy import Network
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.seeing import Eyes
from hostler.workloads.gameboy.workers import Here, NoWorker, Plan, Processes
from tests.workloads.gameboy import standing
from tests.workloads.gameboy.test_main import begun, order, told

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


@pytest.mark.long
def test_fragments_come_with_the_newest_policy(two: Processes, network: Network) -> None:
    taken(two, lambda found: len(found) > 2)
    with torch.no_grad():
        network.choice.bias[4] = 100.0
    two.offer(network, 5)
    (last,) = taken(two, lambda found: any(each.version == 5 for each in found))[-1:]
    assert last.version == 5
    assert (last.actions == 4).all()
    assert last.steps == 32


@pytest.mark.long
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


def presses_a(game: Game) -> Network:
    """A policy that does nothing else."""
    made = Network(Eyes(game).width, None, len(game.actions))
    with torch.no_grad():
        made.choice.bias[game.actions.index("a")] = 100.0
    return made


@pytest.mark.long
def test_a_worker_whose_machine_stands_still_for_ever_is_begun_anew_and_told(keyrooms: Game) -> None:
    """It would be waited for as long as the training lasts."""
    cart = standing.at_a()
    source = Processes(plan(keyrooms, cart, workers=1), presses_a(keyrooms))
    told: list[str] = []
    try:
        first = source.pids
        taken(source, lambda _: bool(told_so_far(source, told)) and source.pids != first)
    finally:
        source.close()
    assert told[0].startswith(f"worker 0 ended: {cart.named} stands still at 0x01")


def told_so_far(source: Processes, told: list[str]) -> list[str]:
    told.extend(source.troubles())
    return told


@pytest.mark.long
def test_a_learner_whose_own_machine_stands_still_for_ever_ends_and_says_so() -> None:
    program = (
        "from hostler.workloads.gameboy.order import keyrooms\n"
        "from hostler.workloads.gameboy.workers import Here\n"
        "from tests.workloads.gameboy import standing\n"
        "from tests.workloads.gameboy.test_workers import plan, presses_a\n"
        "source = Here(plan(keyrooms(), standing.at_a()))\n"
        "source.offer(presses_a(keyrooms()), 0)\n"
        "source.take(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == workers.STUCK, done.stderr
    assert "stands still at 0x01" in json.loads(done.stdout)["trouble"]


@pytest.mark.long
def test_a_worker_that_stands_still_keeps_nobody_waiting(two: Processes) -> None:
    taken(two, lambda found: len(found) > 1)
    os.kill(two.pids[0], signal.SIGSTOP)
    try:
        taken(two, lambda found: len(found) > 20)
    finally:
        os.kill(two.pids[0], signal.SIGCONT)


def blocks(pid: int | str = "self") -> int:
    """How many pieces of memory for fragments and policies a process has mapped."""
    return sum(shared.MEMORY in line for line in maps(pid))


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what is mapped is told by Linux alone")
def test_nothing_is_left_of_workers(keyrooms: Game, cart: Cartridge, network: Network) -> None:
    before, named = blocks(), set(os.listdir("/dev/shm"))
    source = Processes(plan(keyrooms, cart), network)
    pids = source.pids
    until(lambda: [blocks(pid) for pid in pids] == [2, 2])
    assert blocks() - before == 3
    taken(source, lambda found: len(found) > 1)
    mine = {
        line.split("/dev/shm/")[1] for line in Path("/proc/self/maps").read_text().splitlines() if "/dev/shm/" in line
    }
    assert not mine - named, "memory with a name outlives a group of processes that is killed at once"
    source.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert blocks() == before


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what is mapped is told by Linux alone")
def test_nothing_is_left_of_a_group_that_is_killed_at_once(tmp_path: Path) -> None:
    """Learner, workers and whoever tidies up after them: nobody of them does anything any more."""
    path = order(tmp_path, workers=2, crowded=True)
    learner = begun(path, start_new_session=True)
    try:
        told(learner, 2)
        group = grouped(learner.pid)
        until(lambda: sum(blocks(each.pid) == 2 for each in group) == 2)
        named = {line.split("/dev/shm/")[1] for each in group for line in maps(each.pid) if "/dev/shm/" in line}
        inodes = {line.split()[4] for line in maps(learner.pid) if shared.MEMORY in line}
        assert len(inodes) == 3
    finally:
        os.killpg(learner.pid, signal.SIGKILL)
        learner.communicate()
    until(lambda: not any(maps(each.pid) for each in group))  # the dead have none, also where nobody buries them
    assert not named & set(os.listdir("/dev/shm"))
    left = {line.split()[4] for each in psutil.pids() for line in maps(each) if shared.MEMORY in line}
    assert not inodes & left


def until(holds: Callable[[], bool]) -> None:
    """Workers are begun one after the other, and the first may have made something before the last one lives."""
    ends_at = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.05)


def grouped(leader: int) -> list[psutil.Process]:
    """All processes of a group."""
    found = []
    for each in psutil.process_iter():
        with suppress(ProcessLookupError):
            found += [each] if os.getpgid(each.pid) == leader else []
    return found


def maps(pid: int | str) -> list[str]:
    """What a process has mapped; nothing, where it is gone."""
    try:
        return Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return []


class Stuck:
    """A process that ends when it is killed, and then only if it may; with the time that is waited for it."""

    def __init__(self, clock: list[float], *, kills: bool = True) -> None:
        self.clock, self.lives, self.kills = clock, True, kills

    def kill(self) -> None:
        self.lives = not self.kills

    def join(self, timeout: float) -> None:
        if self.lives:
            self.clock[0] += timeout

    def is_alive(self) -> bool:
        return self.lives


@pytest.mark.parametrize(("kills", "longest"), [(True, 1), (False, 2)])
def test_all_workers_that_stand_still_are_waited_for_together(kills: bool, longest: int) -> None:
    clock = [0.0]
    stuck: list[Any] = [Stuck(clock, kills=kills) for _ in range(84)]
    workers.ended(stuck, lambda: clock[0])
    assert clock[0] == pytest.approx(longest * workers.ENDS_S)
    assert not any(each.lives for each in stuck) or not kills


@pytest.mark.long
def test_workers_that_stand_still_are_killed_in_the_end(
    keyrooms: Game, cart: Cartridge, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "ENDS_S", 0.5)
    source = Processes(plan(keyrooms, cart), network)
    taken(source, lambda found: len(found) > 1)
    pids = source.pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    source.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.parametrize("lives", [1, pytest.param(2, marks=pytest.mark.long)])
def test_workers_that_cannot_live_are_given_up_with_what_they_died_of(
    keyrooms: Game, cart: Cartridge, network: Network, monkeypatch: pytest.MonkeyPatch, lives: int
) -> None:
    monkeypatch.setattr(workers, "LIVES", lives)
    source = Processes(plan(keyrooms, replace(cart, rom=cart.rom[:100]), workers=1), network)
    try:
        with pytest.raises(NoWorker, match=r"no worker is left: .*NoCartridge: PyBoy cannot take the ROM"):
            taken(source, lambda found: False)
    finally:
        source.close()


@pytest.mark.long
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


@pytest.mark.long
def test_what_goes_on_begins_with_the_policy_that_it_has(keyrooms: Game, cart: Cartridge, network: Network) -> None:
    source = Processes(replace(plan(keyrooms, cart, workers=1), version=40), network)
    try:
        assert {each.version for each in taken(source, lambda found: len(found) > 1)} == {40}
    finally:
        source.close()
