"""`hostler train` and `hostler model` in front of a loop that the real core has driven to its promotions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.model.events import ModelRolledBack
from hostler.model.learning import ModelStatus
from tests.cli.conftest import Hostler
from tests.core.loop.builders import NAME, Loop, loop, small
from tests.test_client import announce
from tests.web.core_desk import CoreDesk, window


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    """A loop with three promotions, served."""
    made = loop(small(), devices=2)
    made.step_s = 97.0
    made.until(lambda: made.config().promotions >= 3, steps=3000)
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    with window(CoreDesk(made)) as served:
        announce(tmp_path / "state", served.port)
        yield made


def test_what_the_core_says_is_shown(world: Loop, hostler: Hostler) -> None:
    config = world.config()
    (shown,) = hostler("train", "list", "--json").json
    assert (shown["name"], shown["current"], shown["promotions"]) == (NAME, config.current, 3)
    assert (shown["games"], shown["models"]) == (
        sum(each.games for each in config.segments.values()),
        len(config.models),
    )
    lines = hostler("train", "list").out.splitlines()
    assert lines[1].split()[:2] == [NAME, str(shown["generation"])]
    assert all(len(line) <= 80 for line in lines)


def test_the_history_has_every_model_and_rating(world: Loop, hostler: Hostler) -> None:
    config = world.config()
    told = hostler("train", "history", NAME, "--json").json
    assert [each["sha256"] for each in told["models"]] == list(config.models)
    assert len(told["ratings"]) == len(config.rating_history) > 3
    lines = hostler("train", "history", NAME).out.splitlines()
    assert all(len(line) <= 80 and line.isprintable() for line in lines)
    assert sum(line.count("▲") for line in lines) == 3
    promoted = [model for model in config.models.values() if model.status is ModelStatus.PROMOTED]
    assert sum("promoted" in line for line in lines) == len(promoted) == 4


def test_a_roll_back_is_an_event(world: Loop, hostler: Hostler) -> None:
    first, last = next(iter(world.config().models)), world.config().current
    number = world.config().models[last].number
    said = hostler("model", "rollback", NAME, "0", "--why", "to see")
    assert said.out == f"{NAME}: the current model is 0 ({first[:12]}), was {number} ({last[:12]})\n"
    event = next(entry.event for entry in reversed(world.entries) if isinstance(entry.event, ModelRolledBack))
    assert event == ModelRolledBack(config=NAME, model=first, was=last, why="to see")
    said = hostler("model", "rollback", NAME, "0")
    assert (said.status, "is the current model of tiny_2p already" in said.err) == (2, True)


@pytest.mark.long
def test_a_report_of_real_facts(world: Loop, hostler: Hostler, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra report is not installed")
    file = tmp_path / "page.html"
    assert hostler("train", "report", "-o", str(file)).status == 0
    text = file.read_text(encoding="utf-8")
    assert f"from journal entry {world.state.seq}." in text
    assert all(name[:12] in text for name in world.config().models)
