"""Tokens and the audit on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Hostler
from tests.web.core_desk import TOKEN, Window


def test_a_token_is_printed_once_and_alone(served: Window, hostler: Hostler) -> None:
    said = hostler("token", "create", "ci", "--scope", "operate", "--expires", "30d")
    token = said.out.strip()
    assert (said.status, len(token) >= 43, "operate, for 30d" in said.err) == (0, True, True)
    assert served.ask("GET", "/status", headers={"Authorization": f"Bearer {token}"}).status == 200
    assert token not in hostler("token", "list", "--json").out
    assert served.desk.tokens()[0].expires_at == served.desk.tokens()[0].created_at + 30 * 86_400


def test_tokens_are_listed_and_revoked(served: Window, hostler: Hostler) -> None:
    assert hostler("token", "list").out == "no tokens have been made\n"
    made = hostler("token", "create", "anna", "--scope", "admin", "--json").json
    assert (made["about"]["name"], made["about"]["scope"]) == ("anna", "admin")
    rows = hostler("token", "list").out.splitlines()
    assert rows[1].split()[:2] == ["anna", "admin"]
    assert rows[1].endswith("for ever")
    assert hostler("token", "revoke", "anna").out == "anna is revoked\n"
    assert hostler("token", "revoke", "anna").status == 2


@pytest.mark.parametrize("span", ["0d", "30", "d", "-1d", "1y", "1.5d", ""])
def test_spans_that_are_none(served: Window, hostler: Hostler, span: str) -> None:
    said = hostler("token", "create", "ci", "--expires", span)
    assert (said.status, "30d" in said.err) == (2, True)


def test_the_audit_says_who_did_what(served: Window, hostler: Hostler) -> None:
    assert hostler("token", "audit").out == "nobody has asked for anything yet\n"
    hostler("token", "create", "ci")
    hostler("submit", "--", "true")
    lines = hostler("token", "audit").out.splitlines()
    assert [line.split()[-2:] for line in lines[1:]] == [["local", "submit_jobs"], ["local", "create_token"]]
    assert [row["what"] for row in hostler("token", "audit", "--json", "--limit", "1").json] == ["submit_jobs"]
    assert hostler("token", "audit", "--json", "--who", "ci").json == []


class TestElsewhere:
    @pytest.fixture(autouse=True)
    def nowhere(self, served: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = tmp_path / "state"
        self.port = served.port
        monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "nowhere"))
        monkeypatch.setenv("HOSTLER_URL", f"http://127.0.0.1:{served.port}")

    def test_a_controller_is_found_by_its_address(self, hostler: Hostler, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOSTLER_TOKEN", TOKEN)
        assert hostler("status").status == 0
        monkeypatch.setenv("HOSTLER_TOKEN", "wrong")
        assert hostler("status").status == 1

    def test_a_state_directory_that_is_named_wins(self, hostler: Hostler) -> None:
        assert hostler("status", "--state-dir", str(self.state)).status == 0

    def test_server_option_wins_over_the_variable(self, hostler: Hostler, monkeypatch: pytest.MonkeyPatch) -> None:
        url = f"http://127.0.0.1:{self.port}"
        monkeypatch.setenv("HOSTLER_TOKEN", TOKEN)
        monkeypatch.setenv("HOSTLER_URL", "http://127.0.0.1:1")
        assert hostler("submit", "--server", url, "--own-dir", "--", "true").out == "j1\n"
        assert hostler("job", "show", "j1", "--server", url).status == 0
        assert hostler("token", "list", "--server", url).status == 0
        assert hostler("status").status != 0

    def test_state_directory_that_is_typed_wins_over_the_address(
        self, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOSTLER_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("HOSTLER_TOKEN", TOKEN)
        monkeypatch.setenv("HOSTLER_STATE_DIR", str(self.state))
        assert hostler("status").status == 3
        said = hostler("status", "--state-dir", str(self.state))
        assert "127.0.0.1:1:" not in said.err
        both = hostler("status", "--state-dir", str(self.state), "--server", "http://127.0.0.1:1")
        assert (both.status, "both name a controller" in both.err) == (2, True)

    def test_server_and_state_directory_exclude_each_other(self, hostler: Hostler) -> None:
        said = hostler("status", "--server", "http://127.0.0.1:1", "--state-dir", str(self.state))
        assert (said.status, "--server and --state-dir both name a controller" in said.err) == (2, True)

    @pytest.mark.parametrize("words", [["fleet"], ["fleet:8765"], ["ftp://fleet"], [""]])
    def test_server_that_is_not_an_address_is_refused(self, hostler: Hostler, words: list[str]) -> None:
        said = hostler("status", "--server", *words)
        assert (said.status, "https://fleet.example.org:8765" in said.err) == (2, True)

    def test_commands_of_a_state_directory_have_no_server_option(self, hostler: Hostler) -> None:
        said = hostler("backup", "verify", "x.tar", "--server", "http://127.0.0.1:1")
        assert (said.status, "no such option: --server" in said.err) == (2, True)

    @pytest.mark.parametrize("url", ["fleet:8765", "ftp://fleet", "https://", "http://x/api"])
    def test_what_is_no_address_is_told(self, hostler: Hostler, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
        assert "HOSTLER_TOKEN is not set" in hostler("status").err
        monkeypatch.setenv("HOSTLER_URL", url)
        assert "https://fleet.example.org:8765" in hostler("status").err


def test_owner_of_a_token_is_shown_and_its_jobs_are_listed(served: Window, hostler: Hostler) -> None:
    hostler("token", "create", "anna-laptop", "--scope", "operate", "--owner", "anna")
    assert hostler("token", "list").out.splitlines()[1].split()[:3] == ["anna-laptop", "operate", "anna"]
    token = hostler("token", "create", "ben-laptop", "--scope", "operate", "--owner", "ben").out.strip()
    job = {"name": "bens", "argv": ["true"]}
    served.post("/api/v1/jobs", [job], headers={"Authorization": f"Bearer {token}"})
    assert "no jobs" in hostler("jobs", "--mine").out
    shown = hostler("job", "show", "bens").out
    assert [line.split() for line in shown.splitlines() if line.startswith("owner")] == [["owner", "ben"]]
