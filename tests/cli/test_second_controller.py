"""`up` where a controller runs already: one message, before anything slow is imported."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Hostler


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A state directory whose lock a controller holds."""
    state = tmp_path / "state"
    state.mkdir()
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield state


def words_on(held: Path) -> str:
    return (
        f"hostler: error: a controller runs for {held} already; `hostler down` lets it end once nothing runs, "
        "`hostler down --now` at once. Or name another directory with --state-dir\n"
    )


@pytest.mark.parametrize("more", [[], ["--detach"]])
def test_up_beside_a_running_controller_is_refused_at_once(
    held: Path, hostler: Hostler, more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for slow in ("hostler.runtime.up", "hostler.settings.loading"):
        monkeypatch.setitem(sys.modules, slow, None)  # to import it is an error
    said = hostler("up", "--state-dir", str(held), *more)
    assert (said.status, said.out, said.err) == (2, "", words_on(held))


@pytest.mark.parametrize("more", [[], ["--detach"]])
def test_state_directory_of_a_fleet_file_is_looked_at(
    held: Path, hostler: Hostler, more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOSTLER_STATE_DIR", raising=False)
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(f"state_dir: {held}\nnodes: [{{name: here}}]\n")
    said = hostler("up", str(fleet), *more)
    assert (said.status, said.err) == (2, words_on(held))
