"""From the text of a list to nodes as they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from hostler.backends.ssh import Target
from hostler.runtime.elsewhere import target
from hostler.settings import load
from hostler.settings.importing import Imported, Kind, fleet_text, imported, read_text

Targets: TypeAlias = Callable[..., Mapping[str, Target | None]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, with an empty `~/.ssh`."""
    made = tmp_path / "home"
    (made / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(made))
    return made


@pytest.fixture
def targets(tmp_path: Path) -> Targets:
    """How to get to each node that a list gives, by its name; `None` of this machine itself."""

    def loaded_targets(text: str, kind: Kind | None = None, only: str | None = None) -> Mapping[str, Target | None]:
        path = tmp_path / "fleet.yaml"
        path.write_text(fleet_text(taken(text, kind, only), "a list"), encoding="utf-8")
        loaded = load(path, {})
        return {node.name: target(loaded, node) if node.backend == "ssh" else None for node in loaded.fleet.nodes}

    return loaded_targets


def taken(text: str, kind: Kind | None = None, only: str | None = None) -> Imported:
    """What becomes of a list."""
    return imported(read_text(text, "list", kind)[1], only)


def left_out(text: str, kind: Kind | None = None) -> dict[str, str]:
    """What is left out of a list, with the reason."""
    return {each.name: each.why for each in taken(text, kind).left_out}
