"""Where a controller listens and who may come in, as fleet files say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.model.errors import SettingsError
from hostler.settings import load
from hostler.settings.api import Api, TrustedProxy


def api(folder: Path, text: str) -> Api:
    file = folder / "fleet.yaml"
    file.write_text(f"api: {text}")
    return load(file, {}).fleet.api


def test_without_a_word_it_is_this_machine_alone(tmp_path: Path) -> None:
    found = api(tmp_path, "{}")
    assert (found.host, found.port, found.is_remote, found.trusted_proxy) == ("127.0.0.1", 8765, False, None)


@pytest.mark.parametrize(
    ("host", "remote"),
    [
        ("localhost", False),
        ("127.0.0.9", False),
        ("'::1'", False),
        ("10.0.0.5", True),
        ("0.0.0.0", True),
        ("'::'", True),
    ],
)
def test_whether_other_machines_can_connect(tmp_path: Path, host: str, remote: bool) -> None:
    assert api(tmp_path, f"{{host: {host}, certificate: a.pem}}").is_remote is remote


def test_beyond_loopback_it_takes_a_certificate_or_plain_words(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"tokens too.*certificate.*ssh -L.*insecure_remote: true"):
        api(tmp_path, "{host: 0.0.0.0}")
    assert api(tmp_path, "{host: 0.0.0.0, insecure_remote: true}").is_remote
    with pytest.raises(SettingsError, match="name its file, too"):
        api(tmp_path, "{key: a.pem}")


def test_the_command_line_is_held_to_it_too() -> None:
    with pytest.raises(SettingsError, match="plain text"):
        load(None, {}, {"api.host": "10.0.0.5"})


@pytest.mark.parametrize(
    "text",
    [
        "{host: example.org}",
        "{host: ''}",
        "{names: ['https://example.org']}",
        "{names: ['example.org:443']}",
        "{trusted_proxy: {}}",
        "{trusted_proxy: {addresses: []}}",
        "{trusted_proxy: {addresses: [proxy]}}",
        "{trusted_proxy: {addresses: [10.0.0.5], scope: root}}",
        "{trusted_proxy: {addresses: [10.0.0.5], header: 'X User'}}",
        "{trusted_proxy: {addresses: [10.0.0.5], users: {anna: root}}}",
        "{insecure_remote: please}",
    ],
)
def test_what_cannot_be(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="api"):
        api(tmp_path, text)


def test_a_proxy_and_names(tmp_path: Path) -> None:
    found = api(
        tmp_path,
        "{names: [Fleet.Example], trusted_proxy: {addresses: [10.0.0.5, '2001:DB8::1'], users: {anna: admin}}}",
    )
    assert found.names == ("fleet.example",)
    assert found.trusted_proxy == TrustedProxy(
        addresses=("10.0.0.5", "2001:db8::1"), header="X-Forwarded-User", scope="read", users={"anna": "admin"}
    )


def test_variables_of_clients_set_nothing() -> None:
    load(None, {"HOSTLER_URL": "http://x", "HOSTLER_TOKEN": "y", "HOSTLER_CA": "z"})
