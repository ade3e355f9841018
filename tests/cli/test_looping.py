"""`hostler train pause|resume` and `hostler train spawn`, in front of a loop on the real core."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.cli.looping import span_s
from hostler.model.errors import UsageError
from hostler.model.work import JobState, WorkKind
from tests.cli.conftest import Hostler
from tests.core.loop.builders import NAME, Loop, loop, order_of, small
from tests.test_client import announce
from tests.web.core_desk import CoreDesk, Window, window


@pytest.fixture
def world() -> Loop:
    """A loop with self-play at work."""
    made = loop(small(), devices=2)
    made.until(lambda: made.running(WorkKind.SELFPLAY) and made.waiting(WorkKind.SELFPLAY))
    return made


@pytest.fixture(autouse=True)
def served(world: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    """The same, behind HTTP."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LOGNAME", "anna")
    with window(CoreDesk(world)) as made:
        announce(tmp_path / "state", made.port)
        yield made


def test_a_pause_and_its_end(world: Loop, hostler: Hostler) -> None:
    said = hostler("train", "pause", NAME, "--why", "games repeat", "--for", "2h")
    assert said.status == 0, said.err
    assert said.out.startswith(f"{NAME}: paused until ")
    pause = world.config().paused
    assert pause is not None
    assert (pause.who, pause.why, pause.until - pause.since) == ("anna", "games repeat", 7200)
    lines = hostler("hold", "list").out.splitlines()
    assert any(line.split()[:2] == ["pause", NAME] and line.split()[-1] == "anna" for line in lines)
    assert "games repeat; `hostler train resume" in " ".join(lines)
    assert "paused by anna for 2h 00m more: games repeat" in " ".join(hostler("train", "list").out.split())
    assert hostler("train", "resume", NAME).out.startswith(f"{NAME}: goes on; next: ")
    assert world.config().paused is None
    assert hostler("train", "resume", NAME, "--json").json["paused"] is None


def test_a_pause_wants_a_reason_and_an_end(world: Loop, hostler: Hostler) -> None:
    assert hostler("train", "pause", NAME).status == 2
    said = hostler("train", "pause", NAME, "--why", "x", "--for", "31d")
    assert (said.status, "for 2592000 s at most" in said.err) == (2, True)
    said = hostler("train", "pause", NAME, "--why", "x", "--for", "soon")
    assert (said.status, "is no length of time" in said.err) == (2, True)
    assert (hostler("train", "pause", "no_2p", "--why", "x").status, world.config().paused) == (2, None)


def test_one_more_job(world: Loop, hostler: Hostler) -> None:
    said = hostler("train", "spawn", NAME, "--games", "9", "--why", "thin opening", "--key", "k")
    assert said.status == 0, said.err
    name = said.out.strip()
    assert order_of(world.state.jobs[name])["games"] == 9
    assert world.job_state(name) is JobState.PENDING
    assert "asked for by anna, beyond what the loop orders: thin opening" in " ".join(
        hostler("explain", name).out.split()
    )
    assert hostler("train", "spawn", NAME, "--games", "9", "--key", "k").out.strip() == name
    assert hostler("train", "spawn", NAME, "--json").json["work"] == "selfplay"
    assert hostler("train", "spawn", NAME, "--stage", "chess").status == 2
    said = hostler("train", "spawn", NAME, "--stage", "training")
    assert (said.status, "no training of tiny_2p can be ordered now" in said.err) == (2, True)


def test_over_http_a_reason_is_asked_for_and_bodies_are_strict(world: Loop, served: Window) -> None:
    path = f"/api/v1/configs/{NAME}"
    assert served.post(f"{path}/pause").status == 422
    assert served.post(f"{path}/pause", {"why": ""}).status == 422
    assert served.post(f"{path}/pause", {"why": "x", "for_s": -1}).status == 422
    assert served.post(f"{path}/pause", {"why": "x", "for_s": 1e8}).status == 422
    assert served.post("/api/v1/configs/no_2p/pause", {"why": "x"}).status == 404
    assert served.post(f"{path}/spawn", {"games": "7"}).status == 422
    assert served.post(f"{path}/spawn", {"games": True}).status == 422
    assert served.post(f"{path}/spawn", {"stage": "sweep"}).status == 422
    assert served.post(f"{path}/spawn", {"key": "j1"}).status == 422
    made = served.post(f"{path}/spawn")
    assert (made.status, made.json["state"]) == (201, "pending")
    paused = served.post(f"{path}/pause", {"why": "\x1b[2J"})
    assert (paused.status, paused.json["paused"]["who"]) == (200, "operator")
    assert served.post(f"{path}/spawn").status == 409
    assert served.post(f"{path}/resume").json["paused"] is None
    assert json.loads(served.get("/api/v1/bans").body) == []


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1.5m", 90), ("2h", 7200), ("3d", 259_200)])
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert span_s(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "-2h", "2 h", "2h30m", "1e3s", "٣h٣"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(UsageError, match="no length of time"):
        span_s(text)
