"""Secrets on a terminal: where values come from, and that no output has them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hostler.cli import secrets
from tests.cli.conftest import Hostler
from tests.web.core_desk import Reply, Window

VALUE = "planted-value"


def test_value_of_a_file_is_set_listed_by_name_and_removed(served: Window, hostler: Hostler, tmp_path: Path) -> None:
    (tmp_path / "value").write_text(VALUE + "\r\n")
    assert hostler("secret", "list").out == "no secrets have been set\n"
    said = [hostler("secret", "set", "hf", "--file", str(tmp_path / "value"))]
    assert served.desk.secrets().values({"X": "hf"}) == {"X": VALUE}
    said += [hostler("secret", "list"), hostler("secret", "list", "--json")]
    assert said[1].out.splitlines()[1].split()[0] == "hf"
    said += [hostler("token", "audit"), hostler("events", "--after", "0"), hostler("secret", "remove", "hf")]
    assert all(each.status == 0 and VALUE not in each.out + each.err for each in said)
    assert "set_secret" in said[3].out
    assert hostler("secret", "remove", "hf").status == 2


def test_value_of_standard_input_is_set(served: Window, hostler: Hostler, monkeypatch: pytest.MonkeyPatch) -> None:
    given = SimpleNamespace(buffer=io.BytesIO(f"{VALUE}\n".encode()), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", given)
    assert hostler("secret", "set", "hf").status == 0
    assert served.desk.secrets().values({"X": "hf"}) == {"X": VALUE}


def test_value_is_asked_for_at_a_terminal_without_echo(
    served: Window, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(secrets, "getpass", lambda prompt: asked.append(prompt) or VALUE)
    said = hostler("secret", "set", "hf")
    assert (said.status, asked) == (0, ["value of hf: "])
    assert VALUE not in said.out + said.err


@pytest.mark.parametrize("data", [b"", b"a\0b", b"\xff\xfe", b"x" * 70_000])
def test_value_that_cannot_be_one_is_refused(served: Window, hostler: Hostler, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "value").write_bytes(data)
    said = hostler("secret", "set", "hf", "--file", str(tmp_path / "value"))
    assert said.status == 2
    assert "the value of secret hf" in said.err
    assert served.desk.secrets().names() == []


@pytest.mark.parametrize("name", ["job:00", "a/b", "-", "a b", "x" * 101])
def test_wrong_name_is_refused(served: Window, hostler: Hostler, tmp_path: Path, name: str) -> None:
    (tmp_path / "value").write_text(VALUE)
    said = hostler("secret", "set", "--file", str(tmp_path / "value"), "--", name)
    assert said.status == 2
    assert VALUE not in said.err


def test_variable_is_given_once(served: Window, hostler: Hostler) -> None:
    said = hostler("submit", "--own-dir", "--secret", "HF_TOKEN", "--env", "HF_TOKEN=x", "--", "true")
    assert said.status == 2
    assert "HF_TOKEN is given twice" in said.err
    said = hostler("submit", "--own-dir", "--secret", f"HF_TOKEN={VALUE} ", "--", "true")
    assert said.status == 2
    assert "hostler secret set" in said.err
    assert VALUE not in said.err


def test_a_retried_request_does_not_set_an_old_value_again(served: Window) -> None:
    def post(body: dict[str, str], **headers: str) -> Reply:
        return served.ask("POST", "/api/v1/secrets", json.dumps(body).encode(), {**served.headers, **headers})

    key = {"Idempotency-Key": "one"}
    bodies = [{"name": "hf", "value": VALUE}, {"name": "hf", "value": "newer"}]
    first = post(bodies[0], **key)
    assert first.status == 201
    assert post(bodies[1]).status == 201
    again = post(bodies[0], **key)
    assert (again.status, VALUE.encode() in again.body) == (201, False)
    assert served.desk.secrets().values({"X": "hf"}) == {"X": "newer"}
    assert post(bodies[1], **key).status == 409
