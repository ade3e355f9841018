"""Real sweeps and scripts on four hosts, while something befalls them: nothing is lost, and nothing counts twice.

`make test` plays one cut between two hosts, `make test-long` a few faults in one go. `LAB_FAULTS=all` (`make faults`)
has every one of them, for as long as they last in life.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.lab import datacentre, host, work
from tests.lab.datacentre import Datacentre
from tests.lab.host import Host
from tests.lab.work import Work

NO_LAB = datacentre.missing() or host.no_firewall()
pytestmark = pytest.mark.skipif(NO_LAB is not None, reason=NO_LAB or "")
SHORT_S = 5.0
ALL = os.environ.get("LAB_FAULTS") == "all"
in_full = pytest.mark.skipif(not ALL, reason="takes minutes: `make faults`")

Fault: TypeAlias = Callable[[Work, Host], None]
"""Befalls a host, and is over when it returns; what people are told meanwhile is looked at."""


@pytest.fixture
def lab() -> Iterator[Datacentre]:
    with datacentre.running([], [], [], []) as made:
        yield made


def silence(made: Work, at: Host, seconds: float = SHORT_S) -> None:
    with at.silent():
        stay_away(made, [at], seconds)
    come_back(made, at)


def no_cable(made: Work, at: Host, seconds: float = SHORT_S) -> None:
    with at.unplugged():
        stay_away(made, [at], seconds)
    come_back(made, at)


def no_server(made: Work, at: Host) -> None:
    with at.without_sshd():
        stay_away(made, [at], SHORT_S)
    come_back(made, at)


def other_key(made: Work, at: Host) -> None:
    with at.other_key():
        stay_away(made, [at], SHORT_S)
        made.wait(lambda: "another host key" in str(made.node(at)["trouble"]), "a refusal")
        assert made.events("node.unreachable", at.name, "another host key")
        assert "somebody stands in between" in " ".join(made.hostler("node", "list").out.split())
    come_back(made, at)


def no_agent(made: Work, at: Host) -> None:
    links = len(made.events("node.linked", at.name))
    assert at.kill_agent() >= 2, "keeper and supervisor"
    made.wait(lambda: len(made.events("node.linked", at.name)) > links, "another agent")
    assert len(made.events("node.unreachable", at.name)) >= 1
    come_back(made, at)


def no_supervisor(made: Work, at: Host) -> None:
    links = len(made.events("node.linked", at.name))
    made.wait(at.kill_supervisor, "a supervisor that dies")
    made.wait(lambda: len(made.events("node.linked", at.name)) > links, "another supervisor")
    come_back(made, at)


def no_worker(made: Work, at: Host) -> None:
    made.wait(lambda: made.has_searched(at), "workers that are up")
    made.wait(lambda: at.kill("worker.py"), "a worker that dies")
    made.wait(lambda: made.events("chunk.returned", "worker_died", "signal 9"), "its chunk, given back")
    assert made.is_up(at)


def reboot(made: Work, at: Host) -> None:
    boots = len(made.events("node.linked", at.name))
    held = made.attempts(at)
    at.reboot()
    made.wait(lambda: len(made.events("node.linked", at.name)) > boots, "another boot")
    new = (at.folder / "boot_id").read_text().strip()
    assert new in made.events("node.linked", at.name)[-1]
    made.wait(lambda: held <= made.over(), f"{held} told to be over")
    assert not held & made.lost() or made.events("attempt.ended", "the machine was started again while it ran")
    come_back(made, at)


def full_disk(made: Work, at: Host) -> None:
    with at.full_disk():
        made.wait(lambda: made.events("disk.space_low", at.name), "a word of the disk")
        assert f"{at.name}: DISK_SPACE_LOW critical" in made.hostler("node", "list").out
        time.sleep(SHORT_S)
        assert made.is_up(at), "a full disk is no reason to be out of reach"


def together(*faults: Fault) -> Fault:
    """One after another, on one host."""

    def strike(made: Work, at: Host) -> None:
        for fault in faults:
            made.wait(lambda: made.at_work(at), f"work on {at.name}")
            fault(made, at)

    return strike


def stay_away(made: Work, hosts: list[Host], seconds: float) -> None:
    """Out of reach for so long, at least; shown as that, and what it has is said to be running, not dead."""
    began = time.monotonic()
    held = set().union(*map(made.attempts, hosts))
    for each in hosts:
        made.wait(lambda each=each: made.is_down(each), f"{each.name} shown as out of reach")  # type: ignore[misc]
        assert made.events("node.unreachable", each.name)
        assert f"{each.name}: " in made.hostler("node", "list").out, "why, in words"
    others = [each for each in made.lab.hosts if each not in hosts]
    made.wait(lambda: all(map(made.is_up, others)), "all others in reach")
    with ExitStack() as stack:
        for each in hosts:  # some of what runs there ends while nobody can be told
            stack.enter_context(made.scripts_let_go(each))
        time.sleep(max(SHORT_S, began + seconds - time.monotonic()))
    assert not held & made.lost(), "out of reach is not dead"


def come_back(made: Work, at: Host) -> None:
    made.wait(lambda: made.is_up(at) and made.node(at)["trouble"] is None, f"{at.name} back")


def at_once(made: Work, *faults: tuple[Fault, Host]) -> None:
    """Faults on several hosts, each as soon as there is work on its host."""
    for fault, at in faults:
        made.wait(lambda at=at: made.at_work(at), f"work on {at.name}")  # type: ignore[misc]
        fault(made, at)


@pytest.mark.long
def test_a_cut_link_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    with datacentre.running([], []) as lab, work.on(lab, tmp_path, scripts=4) as made:
        made.begin()
        silence(made, lab.hosts[0])
        made.end()
        assert set(made.ran().values()) == {1}


@pytest.mark.long
def test_a_few_faults_after_one_another(lab: Datacentre, tmp_path: Path) -> None:
    with work.on(lab, tmp_path, scripts=12) as made:
        made.begin()
        at_once(made, *zip([silence, no_agent, reboot, no_worker], lab.hosts, strict=True))
        made.end()


ONCE: dict[str, Fault] = {
    "silence": silence,
    "no cable": no_cable,
    "no server": no_server,
    "other key": other_key,
}
"""Faults of the link alone: whatever ran goes on running, and nothing is begun anew."""


@pytest.mark.long
@in_full
@pytest.mark.parametrize("fault", ONCE.values(), ids=ONCE)
def test_what_cannot_be_reached_runs_on_and_runs_once(lab: Datacentre, tmp_path: Path, fault: Fault) -> None:
    with work.on(lab, tmp_path, scripts=12) as made:
        made.begin()
        fault(made, lab.hosts[1])
        made.end()
        assert set(made.ran().values()) == {1}


@pytest.mark.long
@in_full
@pytest.mark.parametrize("seconds", [60.0, 300.0])
def test_long_cuts(lab: Datacentre, tmp_path: Path, seconds: float) -> None:
    """Both kinds at once, on a host each; the others go on meanwhile, and take over what can be divided."""
    with work.on(lab, tmp_path, scripts=12) as made:
        made.begin()
        away = lab.hosts[:2]
        with ExitStack() as stack:
            stack.enter_context(away[0].silent())
            stack.enter_context(away[1].unplugged())
            stay_away(made, away, seconds)
        for each in away:
            come_back(made, each)
        made.end()
        assert set(made.ran().values()) == {1}


@pytest.mark.long
@in_full
@pytest.mark.parametrize(
    "fault", [no_agent, no_supervisor, no_worker, reboot, full_disk], ids=lambda fault: str(fault.__name__)
)
def test_what_dies_on_a_host(lab: Datacentre, tmp_path: Path, fault: Fault) -> None:
    with work.on(lab, tmp_path, scripts=12) as made:
        made.begin()
        fault(made, lab.hosts[1])
        made.end()


@pytest.mark.long
@in_full
def test_one_host_has_all_of_it(lab: Datacentre, tmp_path: Path) -> None:
    with work.on(lab, tmp_path, scripts=70) as made:
        made.begin()
        together(no_worker, silence, no_agent, reboot, other_key, no_server)(made, lab.hosts[2])
        made.end()


@pytest.mark.long
@in_full
def test_a_lease_that_ends(lab: Datacentre, tmp_path: Path) -> None:
    """What a host has is ended there and done elsewhere, while it is out of reach; it counts once."""
    with work.on(lab, tmp_path, scripts=12, lease_s=10) as made:
        made.begin()
        away = lab.hosts[0]
        held = made.attempts(away)
        with away.silent():
            made.wait(lambda: held <= made.lost(), "what it held given up")
            made.wait(lambda: not away.processes("task.py"), "the scripts there ended")
            made.wait(lambda: made.elsewhere(held, away), "the same jobs elsewhere")
        come_back(made, away)
        made.end()


@pytest.mark.long
@in_full
def test_a_slow_line(lab: Datacentre, tmp_path: Path) -> None:
    """1 Mbit/s and 300 ms there and back, from the agent's arrival to the last file fetched."""
    with work.on(lab, tmp_path, scripts=12) as made, lab.hosts[3].slow(1e6, 0.15):
        made.begin()
        made.end()
        assert made.was_never_away()


@pytest.mark.long
@in_full
def test_wrong_clocks(tmp_path: Path) -> None:
    """One an hour ahead from the start, one an hour behind, one that jumps while it works."""
    with (
        datacentre.running([], [], [], [], clocks=True) as lab,
        work.on(lab, tmp_path, scripts=12) as made,
        lab.hosts[0].wrong_clock(3600),
        lab.hosts[1].wrong_clock(-3600),
    ):
        made.begin()
        with lab.hosts[2].wrong_clock(3600):
            found = made.hostler("doctor", made.fleet.file, "--json").json
            clocks = {each["node"]: each["health"] for each in found if each["what"] == "clock"}
            assert [clocks[each.name] for each in lab.hosts] == ["slow", "slow", "slow", "good"]
            time.sleep(SHORT_S)
        made.end()
        assert set(made.ran().values()) == {1}
        assert made.was_never_away()
