"""Planted values: after real runs they are in the file of secrets alone, and in no answer."""

from __future__ import annotations

import base64
import json
import signal
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.client import Client
from hostler.client.address import Address
from hostler.model.errors import HostlerError
from hostler.store import Snapshot, open_journal
from hostler.web.pages import routes as pages
from tests.integration.conftest import PATIENCE_S, WAIT, Fleet, Hostler

NAMED = "planted-named-4f1d5a0c9b"
GIVEN = 'planted-given-77"e2\\a1-\u00fc'
SEED = "seed-that-readers-do-not-see"
MEASURE = """
import json, os
with open(os.environ["HOSTLER_RESULT"], "w") as result:
    json.dump(len(os.environ["WANDB_API_KEY"] + os.environ["HF_TOKEN"]), result)
"""
PATHS = (
    *(f"/api/v1/{name}" for name in ("jobs", "entries", "secrets", "nodes", "audit", "status", "queue", "configs")),
    *(f"/api/v1/jobs/{{job}}{name}" for name in ("", "/story", "/explain")),
    *(path for path in pages.PATHS if "{name}" not in path),
    "/pages/jobs/{job}",
    "/metrics",
)  # fmt: skip


def forms(value: str) -> list[bytes]:
    """A value as it may be written: as it is, in JSON, and in base64 wherever it begins."""
    data = value.encode()
    coded = [base64.b64encode(b"\0" * shift + data)[4 if shift else 0 : -4] for shift in range(3)]
    return [data, json.dumps(value)[1:-1].encode(), json.dumps(value, ensure_ascii=False)[1:-1].encode(), *coded]


PLANTED = [*forms(NAMED), *forms(GIVEN), b"planted-named", b"planted-given"]


def found_in(data: bytes) -> bool:
    return any(form in data for form in PLANTED)


def files_with(folder: Path) -> Iterator[str]:
    """Files below a folder that have a planted value, by their paths."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and found_in(path.read_bytes()):
            yield str(path.relative_to(folder))


def answers(fleet: Fleet, job: str, token: str | None = None) -> Iterator[tuple[str, bytes]]:
    """Answers of the API and pages, as a token gets them."""
    about = json.loads((fleet.state / "controller.json").read_text())
    token = token or (fleet.state / "token").read_text().strip()
    for path in PATHS:
        headers = {"Authorization": f"Bearer {token}"}
        ask = urllib.request.Request(about["url"].rstrip("/") + path.format(job=job), headers=headers)
        with urllib.request.urlopen(ask, timeout=PATIENCE_S) as reply:
            yield path, reply.read()


def left_by(fleet: Fleet) -> list[Snapshot]:
    """Snapshots in the journal after a controller was started and ended; it leaves one unless entries came last."""
    fleet.start()
    fleet.signal(signal.SIGTERM)
    fleet.ended()
    journal = open_journal(fleet.state)
    try:
        return list(journal.snapshots())
    finally:
        journal.close()


def test_planted_values_are_nowhere_but_in_the_file_of_secrets(fleet: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    fleet.start()
    value = tmp_path / "value"
    value.write_text(NAMED + "\n")
    said = hostler(fleet, "secret", "set", "wandb", "--file", str(value))
    value.unlink()
    assert (said.status, said.err) == (0, "")
    assert not found_in(said.out.encode())
    said = hostler(
        fleet, "submit", "--own-dir", "--secret", "WANDB_API_KEY=wandb", "--env", f"HF_TOKEN={GIVEN}", "--", "python3",
        "-c", MEASURE,
    )  # fmt: skip
    assert said.status == 0, said.err
    job = said.out.strip()
    assert fleet.over(job)["result"] == len(NAMED) + len(GIVEN)
    waits = fleet.python(WAIT, str(tmp_path / "gate"), env={"HF_TOKEN": GIVEN})
    runs = fleet.pid(waits)
    assert not found_in(Path(f"/proc/{runs}/cmdline").read_bytes())
    assert hostler(fleet, "backup", "create", str(tmp_path / "out.backup")).status == 0
    assert not found_in((tmp_path / "out.backup").read_bytes())
    seen = dict(answers(fleet, job))
    assert [path for path, data in seen.items() if found_in(data)] == []
    assert b"HF_TOKEN" in seen["/api/v1/jobs/{job}"]
    assert list(files_with(fleet.state)) == ["secrets.json"]
    (tmp_path / "gate").touch()
    fleet.over(waits)
    fleet.signal(signal.SIGKILL)  # its write-ahead log is as it was
    fleet.ended()
    assert list(files_with(fleet.state)) == ["secrets.json"]
    snapshots = list[Snapshot]()
    for _ in range(5):
        if not snapshots:
            snapshots = left_by(fleet)
    assert snapshots, fleet.log()
    assert not found_in("".join(map(repr, snapshots)).encode())
    other = tmp_path / "restored"
    restored = hostler(fleet, "backup", "restore", str(tmp_path / "out.backup"), "--state-dir", str(other))
    assert restored.status == 0, restored.err
    assert list(files_with(other)) == []
    assert stat.S_IMODE((fleet.state / "secrets.json").stat().st_mode) == 0o600
    assert not found_in(fleet.printed().encode())


def test_readers_see_names_of_variables_alone(running: Fleet, hostler: Hostler) -> None:
    made = hostler(running, "token", "create", "reader")
    job = running.python("pass", env={"SEED": SEED, "HF_TOKEN": GIVEN})
    running.over(job)
    shown = dict(answers(running, job, made.out.strip()))
    assert [path for path, data in shown.items() if SEED.encode() in data or found_in(data)] == []
    assert b"SEED" in shown["/pages/jobs/{job}"]
    assert b"SEED" in shown["/api/v1/jobs/{job}"]
    assert SEED.encode() in dict(answers(running, job))["/api/v1/jobs/{job}"], "operators see what is no secret"
    about = json.loads((running.state / "controller.json").read_text())
    reader = Client(lambda: Address(about["url"], made.out.strip()))
    entries = reader.events(after=0)
    newest = reader.status()["seq"]
    for entry in entries:
        assert SEED not in json.dumps(entry)
        assert not found_in(json.dumps(entry, ensure_ascii=False).encode())
        if entry["seq"] >= newest:
            break
    entries.close()  # type: ignore[attr-defined]
    with pytest.raises(HostlerError, match="scope"):
        reader.set_secret("mine", "value")


def test_a_missing_secret_is_named_at_submission_and_at_launch(running: Fleet, hostler: Hostler) -> None:
    said = hostler(running, "submit", "--own-dir", "--secret", "GONE", "--", "true")
    assert said.status == 2
    assert "hostler secret set GONE" in said.err
    running.client.set_secret("GONE", NAMED)
    gates = [running.python(WAIT, str(running.path / "gate")) for _ in range(2)]
    for each in gates:
        running.pid(each)
    job = hostler(running, "submit", "--own-dir", "--secret", "GONE", "--", "true").out.strip()
    assert hostler(running, "secret", "remove", "GONE").status == 0
    (running.path / "gate").touch()
    failed = running.over(job)["job"]
    assert (failed["state"], failed["attempts"]) == ("failed", 1)
    assert f"hostler retry {job}" in failed["why"]
    assert "hostler secret set GONE" in failed["why"]
    running.client.set_secret("GONE", NAMED)
    assert hostler(running, "retry", job).status == 0
    running.state_of(job, "done")


def test_a_retried_job_has_the_value_that_came_with_it(running: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    code = 'import os, sys; sys.exit(not (os.path.exists(sys.argv[1]) and os.environ["HF_TOKEN"].startswith("plan")))'
    once = {"max_attempts": {"exit": 1}}
    job = running.python(code, str(tmp_path / "now"), env={"HF_TOKEN": GIVEN}, retry=once)
    assert running.over(job)["job"]["state"] == "failed"
    (tmp_path / "now").touch()
    assert hostler(running, "retry", job).status == 0
    running.state_of(job, "done")


def test_nothing_of_a_secret_is_left_on_the_node(running: Fleet) -> None:
    job = running.python("pass", env={"HF_TOKEN": GIVEN})
    assert running.over(job)["spec"]["payload"]["env"] == {}
    assert list(files_with(running.state / "agents")) == []


def test_plain_values_are_part_of_the_job(running: Fleet, hostler: Hostler) -> None:
    said = hostler(running, "submit", "--own-dir", "--plain", "--env", "SORT_KEY=name", "--", "true")
    spec = running.client.job(said.out.strip())["spec"]
    assert spec["payload"]["env"] == {"SORT_KEY": "name"}
    assert spec["payload"]["secrets"] == {}
