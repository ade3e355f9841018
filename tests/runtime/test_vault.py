"""Where secrets are kept: names without values, values that come back, and what is forgotten."""

from __future__ import annotations

import base64
import json
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hostler.model.errors import NotFound, SpecError, StoreFull
from hostler.model.learning import SelfplaySpec, StageSpec
from hostler.model.secrets import VALUE_BYTES, looks_like_credential
from hostler.model.work import JobSpec, ScriptPayload
from hostler.runtime.keys import Keyring, KeyringFault, usable
from hostler.runtime.vault import UNUSED_S, Vault
from tests.core.loop.builders import small

VALUE = "planted-value"


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


class Library:
    """A keyring, as the library offers one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.error = error

    def get_keyring(self) -> Any:
        return SimpleNamespace(priority=5)

    def get_password(self, service: str, name: str) -> str | None:
        self._fail()
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self._fail()
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        self._fail()
        del self.kept[service, name]

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


def keyring(library: Library) -> Keyring:
    return Keyring(cast(Any, library), "test")


def job(env: dict[str, str] | None = None, **more: Any) -> JobSpec:
    return JobSpec(name="a job", payload=ScriptPayload(schema=1, argv=("true",), env=env or {}, **more))


def payload(spec: JobSpec) -> ScriptPayload:
    assert isinstance(spec.payload, ScriptPayload)
    return spec.payload


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "secrets.json", Clock().now)


def test_secret_is_listed_without_its_value_and_comes_back_for_a_variable(vault: Vault, tmp_path: Path) -> None:
    vault.set("wandb", VALUE)
    assert VALUE not in repr(vault.names())
    assert [each.name for each in vault.names()] == ["wandb"]
    again = Vault(tmp_path / "secrets.json", Clock().now)
    assert again.values({"WANDB_API_KEY": "wandb"}) == {"WANDB_API_KEY": VALUE}
    assert stat.S_IMODE((tmp_path / "secrets.json").stat().st_mode) == 0o600


def test_removed_secret_is_missed_by_name(vault: Vault) -> None:
    vault.set("wandb", VALUE)
    vault.remove("wandb")
    with pytest.raises(NotFound, match="hostler secret set wandb"):
        vault.values({"KEY": "wandb"})
    with pytest.raises(NotFound):
        vault.remove("wandb")


@pytest.mark.parametrize("value", ["", "a\0b", "\ud800", "x" * (VALUE_BYTES + 1)])
def test_value_that_no_variable_can_have_is_refused_and_not_repeated(vault: Vault, value: str) -> None:
    with pytest.raises(SpecError) as refused:
        vault.set("wandb", value)
    assert value not in str(refused.value).replace("the value of secret wandb", "") or not value
    with pytest.raises(SpecError):
        vault.protect([job({"MY_TOKEN": value or "\0"})])
    assert vault.names() == []


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("WANDB_API_KEY", True), ("HF_TOKEN", True), ("AWS_SECRET_ACCESS_KEY", True), ("PGPASSWORD", True),
        ("db_password", True), ("TOKEN", True), ("GOOGLE_APPLICATION_CREDENTIALS", True), ("MY_SECRETS", True),
        ("PWD", False), ("MAX_TOKENS", False), ("KEYS", False), ("TOKENIZERS_PARALLELISM", False), ("PATH", False),
        ("MONKEY", False), ("COMPASS", False), ("KEY_COUNT", False),
    ],
)  # fmt: skip
def test_names_of_credentials_are_known(name: str, is_one: bool) -> None:
    assert looks_like_credential(name) is is_one


def test_values_of_credentials_are_kept_apart_from_the_job(vault: Vault) -> None:
    (kept,) = vault.protect([job({"HF_TOKEN": VALUE, "SEED": "1"})])
    assert payload(kept).env == {"SEED": "1"}
    assert VALUE not in repr(kept)
    assert base64.b64encode(VALUE.encode()).decode() not in repr(kept)
    assert vault.values(payload(kept).secrets) == {"HF_TOKEN": VALUE}
    assert vault.names() == [], "it has no name that a person gave"
    assert vault.protect([job({"HF_TOKEN": VALUE, "SEED": "1"})]) == (kept,), "a repeated submission is the same job"
    other = Vault(Path(str(vault._path) + ".other"), Clock().now)
    assert payload(other.protect([job({"HF_TOKEN": VALUE})])[0]).secrets != payload(kept).secrets


def test_plain_values_and_empty_ones_stay(vault: Vault) -> None:
    specs = (job({"SORT_KEY": "name"}, plain=True), job({"HF_TOKEN": ""}))
    assert vault.protect(specs) == specs


def test_submission_that_names_a_missing_secret_is_refused(vault: Vault) -> None:
    spec = job(secrets={"WANDB_API_KEY": "wandb"})
    with pytest.raises(SpecError, match="hostler secret set wandb"):
        vault.protect([spec])
    assert vault.protect([spec], named_later=True) == (spec,)
    vault.set("wandb", VALUE)
    assert vault.protect([spec]) == (spec,)


def test_values_of_forgotten_jobs_are_deleted_and_those_of_others_stay(tmp_path: Path) -> None:
    clock = Clock()
    vault = Vault(tmp_path / "secrets.json", clock.now)
    vault.set("wandb", "named")
    specs = vault.protect([job({"HF_TOKEN": "one"}), job({"HF_TOKEN": "two"}), job({"HF_TOKEN": "three"})])
    first, second, third = (payload(spec).secrets for spec in specs)
    vault.prune(set())
    clock.time += UNUSED_S / 2
    vault.values(third)
    clock.time += UNUSED_S / 2 + 1
    vault.prune(set(first.values()))
    assert vault.values(first) == {"HF_TOKEN": "one"}
    assert vault.values(third) == {"HF_TOKEN": "three"}
    with pytest.raises(NotFound, match="Submit the job again"):
        vault.values(second)
    assert '"two"' not in (tmp_path / "secrets.json").read_text()
    assert vault.values({"X": "wandb"}) == {"X": "named"}


def test_damaged_file_is_refused_without_its_content(vault: Vault, tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text(json.dumps({"key": "00", "secrets": {"a": {"value": VALUE}}}))
    with pytest.raises(StoreFull) as refused:
        vault.names()
    assert VALUE not in str(refused.value)
    assert refused.value.__cause__ is None


def test_file_that_cannot_be_written_keeps_what_it_had(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.set("wandb", VALUE)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFull, match="No space left"):
        vault.set("wandb", "another")
    monkeypatch.undo()
    assert vault.values({"X": "wandb"}) == {"X": VALUE}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secrets.json"]


def test_keyring_has_the_values_and_the_file_the_names(tmp_path: Path) -> None:
    library = Library()
    vault = Vault(tmp_path / "secrets.json", Clock().now, lambda: keyring(library))
    assert vault.set("wandb", VALUE).kept_in == "keyring"
    (spec,) = vault.protect([job({"HF_TOKEN": VALUE})])
    assert VALUE not in (tmp_path / "secrets.json").read_text()
    assert vault.values({"X": "wandb"} | dict(payload(spec).secrets)) == {"X": VALUE, "HF_TOKEN": VALUE}
    vault.remove("wandb")
    assert len(library.kept) == 1
    without = Vault(tmp_path / "secrets.json", Clock().now)
    with pytest.raises(NotFound, match="keyring"):
        without.values(payload(spec).secrets)


def test_keyring_that_fails_leaves_the_value_to_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vault = Vault(tmp_path / "secrets.json", Clock().now, lambda: keyring(Library(RuntimeError(VALUE))))
    with caplog.at_level(logging.DEBUG):
        assert vault.set("wandb", VALUE).kept_in == "file"
    assert VALUE not in caplog.text
    assert vault.values({"X": "wandb"}) == {"X": VALUE}


@pytest.mark.parametrize("value", ["0", None])
def test_keyring_is_used_where_a_trial_value_comes_back(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    library: Any = Library()
    monkeypatch.setitem(__import__("sys").modules, "keyring", library)
    identity: Callable[[], str] = lambda: "test"  # noqa: E731
    monkeypatch.delenv("HOSTLER_KEYRING", raising=False)
    if value is not None:
        monkeypatch.setenv("HOSTLER_KEYRING", value)
    assert (usable(identity) is None) is (value == "0")
    assert library.kept == {}
    library.error = RuntimeError("locked")
    assert usable(identity) is None
    with pytest.raises(KeyringFault, match="RuntimeError"):
        keyring(library).get("x")


def test_credentials_of_loops_are_kept_apart(vault: Vault) -> None:
    stage = StageSpec(command=("true",), env={"HF_TOKEN": VALUE, "SEED": "1"})
    given = replace(small(), selfplay=SelfplaySpec(stage=stage))
    (kept,) = vault.protect_loops([given])
    assert kept.selfplay.stage.env == {"SEED": "1"}
    assert vault.values(kept.selfplay.stage.secrets) == {"HF_TOKEN": VALUE}
    assert VALUE not in repr(kept)
    assert (kept.training, kept.export, kept.evaluation) == (given.training, given.export, given.evaluation)


def test_library_keyring_keeps_values_in_its_back_end(tmp_path: Path) -> None:
    library = pytest.importorskip("keyring")
    kept = Library()

    class Backend(library.backend.KeyringBackend):  # type: ignore[misc,name-defined]
        priority = 5

        def get_password(self, service: str, username: str) -> str | None:
            return kept.get_password(service, username)

        def set_password(self, service: str, username: str, password: str) -> None:
            kept.set_password(service, username, password)

        def delete_password(self, service: str, username: str) -> None:
            kept.delete_password(service, username)

    before = library.get_keyring()
    library.set_keyring(Backend())
    try:
        vault = Vault(tmp_path / "secrets.json", Clock().now, lambda: usable(lambda: "of-a-test"))
        assert vault.set("hf", VALUE).kept_in == "keyring"
        assert vault.values({"X": "hf"}) == {"X": VALUE}
        assert kept.kept == {("hostler-of-a-test", "hf"): VALUE}
    finally:
        library.set_keyring(before)
