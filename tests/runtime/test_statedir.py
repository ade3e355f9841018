from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.model.errors import StoreBusy, StoreFull
from hostler.runtime.statedir import StateDir
from hostler.store import open_journal


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_one_controller_at_a_time(tmp_path: Path) -> None:
    first, second = StateDir(tmp_path), StateDir(tmp_path)
    first.take()
    with pytest.raises(StoreBusy, match=r"another controller.*hostler down"):
        second.take()
    first.release()
    second.take()
    second.release()


def test_the_token_is_private_and_stays_the_same(tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    token = directory.token()
    assert len(token) >= 40
    assert directory.token() == StateDir(tmp_path).token() == token
    assert mode(directory.token_file) == 0o600


def test_a_token_that_is_no_secret_is_replaced_and_made_private(tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    directory.token_file.write_text("\n")
    directory.token_file.chmod(0o644)
    assert len(directory.token()) >= 40
    assert mode(directory.token_file) == 0o600


def test_what_is_announced_can_be_read_and_withdrawn(tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    directory.announce({"url": "http://127.0.0.1:1", "pid": 7})
    assert json.loads(directory.controller_file.read_text()) == {"url": "http://127.0.0.1:1", "pid": 7}
    assert mode(directory.controller_file) == 0o600
    directory.withdraw()
    directory.withdraw()
    assert not directory.controller_file.exists()


def test_a_new_directory_is_private(tmp_path: Path) -> None:
    directory = StateDir(tmp_path / "a" / "b")
    directory.take()
    assert mode(tmp_path / "a" / "b") == 0o700
    directory.release()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StoreFull, match=r"state.*--state-dir"):
        StateDir(tmp_path / "state").take()


def test_agents_of_a_lost_journal_are_set_aside(tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    assert directory.set_aside_strangers() is None
    for _ in range(2):
        directory.agent("here").mkdir(parents=True)
        (directory.agent("here") / "out").write_text("kept")
        aside = directory.set_aside_strangers()
        assert aside is not None
        assert (aside / "here" / "out").read_text() == "kept"
        assert not directory.agent("here").exists()


def test_agents_of_this_journal_stay(tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    directory.agent("here").mkdir(parents=True)
    open_journal(tmp_path).close()
    assert directory.set_aside_strangers() is None
    assert directory.agent("here").exists()


def test_an_identity_is_the_journals(tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    directory.set_aside_strangers()
    first = directory.identity()
    assert directory.identity() == first, "asked for once for each node"
    open_journal(tmp_path).close()
    directory.set_aside_strangers()
    assert StateDir(tmp_path).identity() == first
    for path in tmp_path.glob("journal*"):
        path.unlink()
    directory.set_aside_strangers()
    assert directory.identity() != first


def test_a_node_s_token_is_its_owner_s_alone_and_made_anew_on_demand(tmp_path: Path) -> None:
    directory = StateDir(tmp_path / "state")
    assert directory.call_token("far") is None
    first = directory.make_call_token("far")
    assert directory.call_token("far") == first
    assert directory.make_call_token("far") != first
    made = [path for path in directory.path.rglob("*") if path.is_file()]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o600]


def test_a_certificate_is_made_once(tmp_path: Path) -> None:
    """Whoever is second, a command beside a controller, keeps what nodes may have been told of."""
    directory = StateDir(tmp_path / "state")
    directory.make_certificate("first")
    directory.make_certificate("second")
    assert directory.certificate.read_text() == "first"
    assert directory.certificate.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in directory.certificate.parent.iterdir()] == ["certificate.pem"]


def test_the_fleet_file_is_kept_as_it_was_read_and_what_came_through_a_pipe_is_not(tmp_path: Path) -> None:
    directory = StateDir(tmp_path / "state")
    directory.take()
    (tmp_path / "fleet.yaml").write_text("nodes: []\n")
    directory.note_fleet(tmp_path / "fleet.yaml")
    (tmp_path / "fleet.yaml").write_text("nodes: 7\n")
    assert (directory.fleet_file.read_text(), directory.fleet_path()) == ("nodes: []\n", str(tmp_path / "fleet.yaml"))
    os.mkfifo(tmp_path / "pipe")
    directory.note_fleet(tmp_path / "pipe")
    assert (directory.fleet_file.exists(), directory.fleet_path()) == (False, None)


def test_who_is_away_is_kept_over_a_restart(tmp_path: Path) -> None:
    directory = StateDir(tmp_path)
    assert directory.away() == {}
    directory.note_away({"bucket": {"since": 5.0, "suspect": False}, "attic": {"since": None, "suspect": True}})
    assert StateDir(tmp_path).away() == {
        "bucket": {"since": 5.0, "suspect": False},
        "attic": {"since": None, "suspect": True},
    }
    for nonsense in ("", "[]", '{"bucket": 5}', '{"bucket": {}}'):
        directory.away_file.write_text(nonsense)
        assert directory.away() == {}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("store", lambda directory: directory.place),
        ("token", lambda directory: directory.token()),
        ("session.key", lambda directory: directory.session_key()),
        ("controller.id", lambda directory: directory.own_id()),
        ("notified.json", lambda directory: directory.told_before()),
        ("away.json", lambda directory: directory.away()),
        ("fleet.json", lambda directory: directory.fleet_path()),
    ],
)
def test_pipe_in_the_place_of_a_small_file_is_refused_at_once(
    tmp_path: Path, name: str, read: Callable[[StateDir], object]
) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="not a regular file"):
        read(StateDir(tmp_path))
