"""A command line in front of a served world."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from hostler.cli.main import run
from tests.cli.fake_groups import FakeController
from tests.test_client import announce
from tests.web.core_desk import Window, window


@dataclass
class Said:
    """What a command line printed and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The decoded output."""
        return json.loads(self.out)


Hostler: TypeAlias = Callable[..., Said]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    """A fleet of two devices, announced in the state directory that commands use."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # `submit` sends the files of the working folder
    with window() as made:
        announce(tmp_path / "state", made.port)
        yield made


@pytest.fixture
def hostler(capfd: pytest.CaptureFixture[str]) -> Hostler:
    """`hostler` with some words, in this process."""

    def call(*words: str) -> Said:
        capfd.readouterr()
        status = run(words)
        return Said(status, *capfd.readouterr())

    return call


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeController:
    """A controller in memory that commands on jobs and job groups ask, in an empty folder."""
    made = FakeController()
    for command in ("jobs", "waiting", "results", "fetching"):
        monkeypatch.setattr(f"hostler.cli.{command}.client", lambda *_: made)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("hostler.cli.fetching.RESTS_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr("hostler.cli.waiting.POLL_S", (0.0,))
    monkeypatch.chdir(tmp_path)
    return made
