"""`hostler top`: what each device runs and how it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.cli.watching import devices
from hostler.cli.watching.follow import Sight
from hostler.client import Client
from hostler.model import inputs
from tests.cli.conftest import Hostler
from tests.core.builders import Driver, fleet, script, sweep
from tests.core.care.builders import told
from tests.core.test_shown import learning
from tests.core.trust.test_trust import in_quarantine
from tests.test_client import announce
from tests.web.core_desk import CoreDesk, window


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "state"


@pytest.fixture
def world() -> Driver:
    """Four devices: a job that runs, one that is being started, two at a sweep."""
    made = fleet(devices=4)
    made.submit(script("first"), script("second"), sweep("seeds"))
    made.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    return made


@pytest.fixture
def asked(world: Driver, state: Path) -> Iterator[Client]:
    with window(CoreDesk(world)) as made:
        announce(state, made.port)
        yield Client.from_state_dir(state)


def drawn(seen: devices.Devices, now: float, width: int = 80) -> list[str]:
    return [line.text for line in devices.draw(Sight(seen, now), (), now, width, None)]


def test_what_runs_and_since_when(asked: Client, world: Driver) -> None:
    lines = drawn(devices.look(asked, ()), world.now + 30)
    assert lines[0] == "4 devices, 4 busy, utilisation –"
    rows = {line.split()[0]: line.split() for line in lines[3:]}
    assert rows["n/cpu0"][1:5] == ["j1.1", "script", "first", "30s"]
    assert rows["n/cpu1"][1:6] == ["j2.1", "script", "second", "(leased)", "–"], "it has not started"
    assert rows["n/cpu2"][1:3] == ["sweep", "j3.1"]
    assert "seeds" in rows["n/cpu2"]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_fits(asked: Client, world: Driver, width: int) -> None:
    assert all(len(line) <= width for line in drawn(devices.look(asked, ()), world.now, width))


def test_readings_with_their_age(state: Path) -> None:
    made = learning("hex_4p", price_per_h=1.0)
    made.tell(told(name="a", at=made.now, busy=0.73, disk_free_gb=400.0))
    with window(CoreDesk(made)) as served:
        announce(state, served.port)
        seen = devices.look(Client.from_state_dir(state), ["a"])
    rows = [line for line in drawn(seen, made.now + 12) if line.startswith("a/")]
    assert rows
    assert all("73%" in row and row.endswith("12s") for row in rows)
    assert all(node["name"] == "a" for node in seen.nodes)


def test_what_is_kept_out_says_so(state: Path) -> None:
    made = in_quarantine()
    with window(CoreDesk(made)) as served:
        announce(state, served.port)
        seen = devices.look(Client.from_state_dir(state), ())
    assert any("in quarantine" in line for line in drawn(seen, made.now))


def test_a_node_out_of_reach_is_named(asked: Client, world: Driver) -> None:
    world.tell(inputs.LinkDown(node="n", why="no route to host"))
    assert "n is out of reach: no route to host" in drawn(devices.look(asked, ()), world.now)


def test_on_the_command_line(asked: Client, hostler: Hostler) -> None:
    assert hostler("top").out == hostler("top", "n").out == hostler("top", "--watch").out
    assert [device["id"] for device in hostler("top", "--json").json] == [f"n/cpu{n}" for n in range(4)]
    said = hostler("top", "x")
    assert (said.status, "there is no node 'x'" in said.err) == (2, True)
