"""From settings to the door of the web."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from starlette.datastructures import Headers

from hostler.backends.dialin import self_signed
from hostler.model.access import Scope, TokenView
from hostler.model.errors import UsageError
from hostler.runtime import door
from hostler.runtime.clock import SteadyClock
from hostler.runtime.statedir import StateDir
from hostler.settings import Loaded, load
from hostler.web.sessions import Ended, Sessions

TOKEN = TokenView(name="ci", scope=Scope.READ, created_at=0.0, expires_at=None, left_s=None, expired=False)


def loaded(folder: Path, **api: object) -> Loaded:
    file = folder / "fleet.yaml"
    file.write_text(yaml.safe_dump({"api": api}))
    return load(file, {}, {"state_dir": str(folder)})


def test_secrets_are_made_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    first, again = (door.door(loaded(tmp_path), StateDir(tmp_path), SteadyClock()) for _ in range(2))
    assert (first.token, first.key) == (again.token, again.key)
    assert len(first.key) == 64
    assert first.token not in repr(first)
    assert first.key.decode() not in repr(first)
    assert {oct((tmp_path / name).stat().st_mode & 0o777) for name in ("token", "session.key")} == {"0o600"}


def test_sessions_that_were_ended_are_known_to_the_next(tmp_path: Path) -> None:
    first = door.door(loaded(tmp_path), StateDir(tmp_path), SteadyClock())
    assert (first.ended, first.keep is None) == (Ended(), False)
    assert first.keep is not None
    ended = Ended(sessions={"a": 2, "b": 1}, until=7)
    first.keep(ended)
    again = door.door(loaded(tmp_path), StateDir(tmp_path), SteadyClock())
    assert again.ended == ended
    assert list(again.ended.sessions) == ["a", "b"]


@pytest.mark.parametrize("damage", ["", "[1]", '{"sessions": [], "until": 0}', '{"sessions": {"a": "x"}, "until": 0}'])
def test_where_nobody_knows_which_were_ended_all_are_over(tmp_path: Path, damage: str) -> None:
    sessions = Sessions(b"key", time.time)
    before = Headers({"Cookie": f"{sessions.cookie}={sessions.begin('0' * 64)}"})
    assert sessions.found(before) is not None
    (tmp_path / "ended.json").write_text(damage)
    ended = door.door(loaded(tmp_path), StateDir(tmp_path), SteadyClock()).ended
    assert Sessions(b"key", time.time, ended).found(before) is None
    later = Headers({"Cookie": f"{sessions.cookie}={Sessions(b'key', lambda: time.time() + 2).begin('0' * 64)}"})
    assert Sessions(b"key", time.time, ended).found(later) is not None


def test_a_key_that_is_none_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "session.key").write_text("short\n")
    assert len(StateDir(tmp_path).session_key()) == 64


@pytest.mark.parametrize(
    ("api", "url"),
    [
        ({}, "http://127.0.0.1:9"),
        ({"host": "::1"}, "http://[::1]:9"),
        ({"host": "0.0.0.0", "certificate": "c.pem"}, "https://127.0.0.1:9"),
        ({"host": "::", "insecure_remote": True}, "http://[::1]:9"),
        ({"host": "10.0.0.5", "certificate": "c.pem"}, "https://10.0.0.5:9"),
    ],
)
def test_what_this_machine_calls_it(tmp_path: Path, api: dict[str, object], url: str) -> None:
    assert door.url(loaded(tmp_path, **api), 9) == url


def test_beyond_loopback_it_takes_a_token_that_is_good(tmp_path: Path) -> None:
    asked = loaded(tmp_path, host="0.0.0.0", certificate="c.pem")
    gone = TokenView(name="ci", scope=Scope.READ, created_at=0.0, expires_at=1.0, left_s=0.0, expired=True)
    for tokens in ([], [gone]):
        with pytest.raises(UsageError, match=r"--host 127\.0\.0\.1.*hostler token create.*insecure_remote"):
            door.refuse_without_tokens(asked, tokens)
    door.refuse_without_tokens(asked, [gone, TOKEN])
    door.refuse_without_tokens(loaded(tmp_path, host="0.0.0.0", insecure_remote=True), [])
    door.refuse_without_tokens(loaded(tmp_path), [])


def test_a_proxy_is_believed_for_its_users(tmp_path: Path) -> None:
    asked = loaded(tmp_path, trusted_proxy={"addresses": ["10.0.0.5"], "users": {"anna": "admin"}})
    made = door.door(asked, StateDir(tmp_path), SteadyClock()).proxy
    assert made is not None
    assert (set(made.addresses), made.scope) == ({"10.0.0.5"}, Scope.READ)
    assert dict(made.users) == {"anna": Scope.ADMIN}


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    asked = loaded(tmp_path, certificate="c.pem")
    with pytest.raises(UsageError, match=r"c\.pem"):
        door.tls(asked)
    assert door.certificate(asked) == tmp_path / "c.pem"
    assert door.tls(loaded(tmp_path)) is None


def test_nobody_is_asked_for_the_password_of_a_key(tmp_path: Path) -> None:
    secret = load_pem_private_key(self_signed("test").encode(), None)
    locked = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password"))
    (tmp_path / "c.pem").write_text(self_signed("test"))
    (tmp_path / "c.key").write_bytes(locked)
    with pytest.raises(UsageError, match=r"c\.key is encrypted.*openssl pkey"):
        door.tls(loaded(tmp_path, certificate="c.pem", key="c.key"))
