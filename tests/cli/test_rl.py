"""`hostler plan` and `hostler check` of a training on many machines."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.cli.conftest import Hostler, Said
from tests.runtime.preflight.models import Model, completion, served

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDER = "schema: 1\ngame: keyrooms\nrom: keyrooms\ntraining: {steps: 100000000, workers: 1, batch_steps: 8192}\n"
Written: TypeAlias = Callable[..., Said]


@pytest.fixture
def written(hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """A command with a fleet file that has this `rl` section, and an order beside it."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")

    def call(command: str, rl: str, *words: str) -> Said:
        (tmp_path / "order.yaml").write_text(ORDER)
        (tmp_path / "kept").mkdir(exist_ok=True)
        path = tmp_path / "fleet.yaml"
        path.write_text(f"nodes: [{{name: here, gpus: none, cpu_slots: 1}}]\nrl: {{{rl}}}\n")
        return hostler(command, str(path), *words)

    return call


GOOD = "order: order.yaml, hosts: [{name: box, cpus: 2, memory_gb: 8}]"


def test_the_plan_that_could_not_work_is_told_so_in_80_columns(
    hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = hostler("plan", str(EXAMPLES / "rl-seed.yaml"))
    assert (said.status, said.err) == (1, "")
    assert max(map(len, said.out.splitlines())) <= 80
    text = " ".join(said.out.split())
    for code in (
        *("address", "manifest", "cpus", "episode-limit", "llm", "environments", "workers-cpus", "workers-memory"),
        *("inventory-memory", "share-memory", "utilization", "steps"),
    ):
        assert f"wrong: {code}: " in text
    assert "note: pod-memory-idle: " in text
    assert "85 CPU bundles are asked for, 48 are there" in text
    assert "steps/s 25,000 216 to 266 held back by waiting for advice" in text


def test_the_same_as_json(hostler: Hostler) -> None:
    said = hostler("plan", str(EXAMPLES / "rl-seed.yaml"), "--json")
    assert said.status == 1
    plan = said.json["rl"]
    codes = [each["code"] for each in plan["findings"]]
    assert codes[:3] == ["address", "manifest", "cpus"]
    assert all(each["level"] in ("impossible", "false", "doubtful") for each in plan["findings"])
    assert plan["estimate"]["runners"] == 47
    assert any(note.startswith("wrong: steps: ") for note in said.json["notes"])


def test_the_plan_that_works_says_so(hostler: Hostler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = hostler("plan", str(EXAMPLES / "rl.yaml"))
    assert said.status == 0
    assert "nothing in it contradicts itself" in said.out
    assert "wrong" not in said.out
    assert "note" not in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_a_plan_beside_jobs_is_told_after_them(written: Written) -> None:
    said = written("plan", f"{GOOD}}}\njobs: [{{name: a, argv: [x]}}]\nlimits: {{")
    assert said.status == 0
    assert said.out.index("script: a") < said.out.index("rl of fleet")


def test_an_order_that_cannot_be_read_is_what_is_wrong(written: Written) -> None:
    said = written("plan", "order: nowhere.yaml")
    assert said.status == 1
    assert "wrong: rl.order: " in said.out
    assert "cannot be read" in " ".join(said.out.split())
    assert written("check", "order: nowhere.yaml").status == 1


def test_variables_change_the_plan(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_WORKERS", "84")
    said = written("plan", GOOD)
    assert said.status == 1
    assert "85 CPU bundles are asked for, 2 are there" in " ".join(said.out.split())


def test_check_proves_what_is_there(written: Written) -> None:
    with served(Model()) as model:
        said = written("check", f"{GOOD}, checkpoints: kept, advice: {{endpoint: '{model.url}', calls_per_s: 5.0}}")
    assert (said.status, said.err) == (0, "")
    rows = [line for line in said.out.splitlines() if not line.startswith("    ")]  # long texts stand below
    assert [line.split()[:2] for line in rows[-6:-1]] == [
        ["PROOF", "HEALTH"],
        ["cluster", "ok"],
        ["game", "ok"],
        ["store", "ok"],
        ["advice", "ok"],
    ]
    assert said.out.splitlines()[-1].startswith("good: ")


def test_check_tells_what_fails_by_its_status(written: Written) -> None:
    with served(Model(does=completion("Hello!"))) as model:
        rl = f"{GOOD}, checkpoints: kept, advice: {{endpoint: '{model.url}', calls_per_s: 5.0}}"
        said = written("check", rl)
        assert said.status == 14
        assert "advice-free: " in said.out
        assert "response_format" in said.out
        assert said.out.splitlines()[-1].startswith("not proved: ")
        told = written("check", rl, "--json")
    assert told.status == 14
    assert "error: advice-free: it was to answer by a schema" in told.err
    assert any(each["path"] == "rl.checkpoints" for each in told.json)


def test_check_says_what_it_could_not_prove(written: Written) -> None:
    said = written("check", GOOD)
    assert said.status == 9
    assert "store-unknown: " in said.out


def test_check_offline_asks_nobody(written: Written) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        nobody.listen()
        nobody.settimeout(0.2)
        port = nobody.getsockname()[1]
        said = written("check", f"{GOOD}, advice: {{endpoint: 'http://127.0.0.1:{port}'}}", "--offline")
        with pytest.raises(TimeoutError):
            nobody.accept()
    assert said.status == 0
    assert "PROOF" not in said.out


def test_check_of_what_cannot_be_fails_first(written: Written) -> None:
    said = written("check", f"{GOOD}, runners: 84")
    assert said.status == 1
    assert "has faults" in said.out
