"""The screen of `hostler status --watch`, of real views: it fits, it tells what is wrong, and unknown is `–`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.cli.watching import board
from hostler.cli.watching.board import Fleet, Speeds
from hostler.cli.watching.follow import Sight
from hostler.client import Client
from hostler.model import inputs
from hostler.model.work import Resources
from tests.cli.conftest import Hostler
from tests.core.builders import Driver, sweep
from tests.core.care.builders import told
from tests.core.test_explain import long
from tests.core.test_shown import learning
from tests.test_client import announce
from tests.web.core_desk import CoreDesk, window


@pytest.fixture
def world() -> Driver:
    """Two configs that learn, a sweep, more jobs than devices, and a node with a full disk."""
    made = learning("hex_4p", "sq_2p", price_per_h=1.0)
    for _ in range(40):
        made.step()
    made.submit(*[long(f"prep{n}", resources=Resources(device="gpu", vram_gb=20)) for n in range(4)], sweep("seeds"))
    made.tell(told(name="a", at=made.now, disk_free_gb=40.0, busy=0.73))
    return made


@pytest.fixture
def asked(world: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The same, behind HTTP."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    with window(CoreDesk(world)) as made:
        announce(tmp_path / "state", made.port)
        yield Client.from_state_dir(tmp_path / "state")


def drawn(seen: Fleet, now: float, width: int = 80, height: int | None = None, **sight: Any) -> list[str]:
    """The screen as text."""
    return [line.text for line in board.draw(Speeds(), Sight(seen, now, **sight), (), now, width, height)]


def test_it_fits(asked: Client, world: Driver) -> None:
    seen = board.look(asked)
    for width, height in itertools.product((40, 60, 80, 120, 200), (None, 12, 24, 50)):
        lines = drawn(seen, world.now, width, height)
        assert all(len(line) <= width and line.isprintable() for line in lines), (width, height)
        assert height is None or len(lines) <= height, (width, height)
        assert any("devices  " in line for line in lines), (width, height)


def test_what_matters_stands_there(asked: Client, world: Driver) -> None:
    seen = board.look(asked)
    text = "\n".join(drawn(seen, world.now))
    assert f"{seen.status['devices_busy']} of {seen.status['devices']} busy, {seen.status['nodes_up']} of" in text
    assert "73%" in text
    assert "DISK_SPACE_LOW critical" in text
    assert seen.first is not None
    assert f"next     {seen.first['job']} " in text
    assert "starts about" in text or "no start can be estimated" in text
    assert all(name in text for name in ("hex_4p", "sq_2p", "seeds", "jobs/h", "games/h", "items/s"))


def test_what_is_not_known_is_a_dash_and_never_0(asked: Client, world: Driver) -> None:
    seen = board.look(asked)
    lines = drawn(seen._replace(pace=dict.fromkeys(seen.pace)), world.now)
    row = next(line for line in lines if line.startswith("b "))
    assert row.split()[4] == "–", "no reading of b was ever taken"
    assert next(line for line in lines if line.startswith("jobs/h")).split()[1] == "–"


def test_trouble_comes_first(asked: Client, world: Driver) -> None:
    world.tell(inputs.LinkDown(node="b", why="no route to host"), after_s=60.0)
    world.tell(inputs.CordonNode(node="a", why="loud fan", who="anna"))
    lines = drawn(board.look(asked), world.now, 120)
    at = next(number for number, line in enumerate(lines) if line.startswith("NODE"))
    assert lines[at + 1].startswith("b ")
    assert "no route to host" in lines[at + 1]
    assert any("cordoned by anna: loud fan" in line for line in lines[at + 2 :])


@pytest.mark.parametrize("width", [40, 80, 120])
def test_reason_of_a_node_is_whole_at_any_width(asked: Client, world: Driver, width: int) -> None:
    why = "ssh: connect to host gpu-17.lab.example.org port 22: No route to host; tried 14 times since Monday morning"
    world.tell(inputs.LinkDown(node="b", why=why), after_s=60.0)
    lines = drawn(board.look(asked), world.now, width)
    assert all(len(line) <= width for line in lines)
    start = next(number for number, line in enumerate(lines) if line.startswith("b "))
    below = [line.strip() for line in lines[start + 1 :] if line.startswith("    ")]
    assert why.replace(" ", "") in "".join(below).replace(" ", "")


def test_nodes_without_room_are_counted_though_reasons_take_several_lines(asked: Client, world: Driver) -> None:
    seen = board.look(asked)
    down = {**seen.nodes[0], "link": "down", "trouble": "no route to host; " * 12 + "no host", "pressures": []}
    lines = drawn(seen._replace(nodes=[{**down, "name": f"n{at}"} for at in range(30)]), world.now, 80, 40)
    shown = [line for line in lines if line.startswith("n") and line[1:2].isdecimal()]
    assert f"and {30 - len(shown)} more nodes: `hostler node list`" in lines
    at = lines.index(f"and {30 - len(shown)} more nodes: `hostler node list`")
    assert lines[at - 1].rstrip().endswith("host"), "the last node that is shown has its whole reason"


def test_a_lost_controller_is_told_of_and_the_ages_stand_still(asked: Client, world: Driver) -> None:
    seen = board.look(asked)
    before = drawn(seen, world.now)
    sight = Sight(seen, world.now, (world.now + 2, "nothing answers at http://127.0.0.1:1; " + "x" * 300))
    lines = [line.text for line in board.draw(Speeds(), sight, (), world.now + 500, 80, None)]
    assert lines[1].startswith("LOST     since ")
    assert "(8m): nothing answers" in lines[1]
    assert [line for line in lines if line.startswith("a ")] == [line for line in before if line.startswith("a ")]
    silent = [line.text for line in board.draw(Speeds(), Sight(seen, world.now), (), world.now + 60, 80, None)]
    assert silent[1].startswith("no answer for 60s; ")


def test_speeds_are_as_the_controller_counts_and_bars_of_what_was_watched(asked: Client, world: Driver) -> None:
    speeds, seen = Speeds(), board.look(asked)
    pace = {"window_s": 3600.0, "attempts_per_h": 7.0, "games_per_h": None, "items_per_s": 1.5e9}
    later = seen._replace(
        status={**seen.status, "jobs": {**seen.status["jobs"], "done": seen.status["jobs"]["done"] + 2}}, pace=pace
    )
    board.draw(speeds, Sight(seen, 1000.0), (), 1000.0, 80, None)
    lines = [line.text for line in board.draw(speeds, Sight(later, 1060.0), (), 1060.0, 80, None)]
    rates = {line.split()[0]: line.split()[1] for line in lines if "/" in line[:8]}
    assert (rates["jobs/h"], rates["games/h"], rates["items/s"]) == ("7", "–", "1.5G")
    assert any(line.startswith("throughput, rates of the last 60m, bars seen since ") for line in lines)


def test_alerts_come_first_then_what_is_held_back(asked: Client, world: Driver) -> None:
    seen = board.look(asked)
    assert any(line.startswith("alerts: 0 firing; held back: ") for line in drawn(seen, world.now))
    firing = {"rule": "disk-full", "subject": "a", "state": "firing", "severity": "critical", "why": "full in 2 h"}
    lines = drawn(seen._replace(alerts=[{**firing, "since": world.now - 60}]), world.now)
    at = next(number for number, line in enumerate(lines) if line.startswith("alerts: 1 firing"))
    assert lines[at + 1] == "disk-full a for 60s: full in 2 h"


def test_hostile_names_move_nothing(asked: Client, world: Driver) -> None:
    seen = board.look(asked)
    evil = "x\x1b[2J\n[bold]\u202e"
    nodes = [{**node, "name": evil, "trouble": evil, "link": "down"} for node in seen.nodes]
    lines = drawn(seen._replace(nodes=nodes, status={**seen.status, "fleet": evil}), world.now)
    assert all(line.isprintable() for line in lines)


def test_where_there_is_no_terminal_it_is_printed_once(asked: Client, hostler: Hostler) -> None:
    said = hostler("status", "--watch")
    assert (said.status, said.err) == (0, "")
    assert all(len(line) <= 80 for line in said.out.splitlines())
    assert "NODE" in said.out
    assert "\x1b" not in said.out
