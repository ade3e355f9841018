"""Sweeps by program and by worker; programs as entry points of installed packages."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hostler.model.codec import digest
from hostler.model.errors import SettingsError, SpecError
from hostler.model.work import SweepPayload
from hostler.settings import sweep_spec
from hostler.settings.programs import Program, find
from hostler.workloads.sieve.program import PROGRAM

DRAWS = {
    "schema": 1,
    "generator": "xorshift32",
    "output": {"kind": "mod", "modulus": 1000},
    "draws": [None, 1, 2, 3],
    "skip": 2,
}


def sieve(_: str) -> Program:
    return PROGRAM


def payload(asked: Mapping[str, Any], base_dir: Path) -> SweepPayload:
    made = sweep_spec(asked, base_dir, sieve).payload
    assert isinstance(made, SweepPayload)
    return made


def test_a_program_completes_its_parameters(tmp_path: Path) -> None:
    provenance = {"runtime": "r", "script": "s", "command": "c"}
    data = {**{key: value for key, value in DRAWS.items() if key != "skip"}, "provenance": provenance}
    (tmp_path / "draws.json").write_text(json.dumps(data))
    asked = {"name": "s", "program": "sieve", "range": [0, "2**32"], "params": {"data": "draws.json", "skip": 2}}
    made = payload(asked, tmp_path)
    assert made.params == DRAWS
    assert made.digest == digest(DRAWS)
    assert made.worker == ("{python}", "-m", "hostler.workloads.sieve", "worker")
    assert made.chance == pytest.approx(1e-9, rel=1e-6)
    assert made.kernel == "sieve/xorshift32/mod/3"
    assert (made.start, made.stop) == (0, 1 << 32)


def test_the_same_request_gives_the_same_spec(tmp_path: Path) -> None:
    asked = {"name": "s", "program": "sieve", "range": [0, 10], "params": DRAWS, "after": ["x"], "max_hits": 5}
    assert sweep_spec(asked, tmp_path, sieve) == sweep_spec(asked, tmp_path, sieve)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"params": {}}, "sweep 's': params: the parameters: missing calls, draws, generator, schema"),
        ({"params": {**DRAWS, "generator": "dice"}}, "sweep 's': params: .*dice"),
        ({"params": {"data": "nowhere.json"}}, "sweep 's': params: .*nowhere.json: cannot be read"),
        ({"range": [0, "2**40"]}, r"sweep 's': range \[0, 1099511627776\) leaves \[0, 4294967296\)"),
        ({"range": [-1, 5]}, r"range \[-1, 5\) leaves"),
    ],
)
def test_what_a_program_refuses_is_told(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        sweep_spec({"name": "s", "program": "sieve", "range": [0, 10], "params": DRAWS, **changes}, tmp_path, sieve)


def test_a_worker_needs_no_program(tmp_path: Path) -> None:
    asked = {"name": "s", "worker": ["w"], "range": [-5, 5], "params": {"a": [1]}, "chance": 0.5, "kernel": "k"}
    made = payload(asked, tmp_path)
    assert (made.worker, made.params, made.digest) == (("w",), {"a": [1]}, digest({"a": [1]}))
    assert (made.chance, made.kernel, made.start) == (0.5, "k", -5)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"name": "s", "worker": ["w"]}, "sweep: range: is missing"),
        ({"name": "s", "worker": ["w"], "range": [0, 1], "target": 1}, "did you mean 'target_s'"),
        ({"name": "j7", "worker": ["w"], "range": [0, 1]}, "the key 'j7' looks like the id of a job"),
        ({"name": "s", "worker": ["w"], "range": [0, "x"]}, r"range\[1\]: cannot be read at 'x'"),
    ],
)
def test_a_request_that_is_no_sweep_is_refused(tmp_path: Path, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        sweep_spec(asked, tmp_path)


def test_parameters_that_no_json_can_hold_are_refused(tmp_path: Path) -> None:
    asked = {"name": "s", "worker": ["w"], "range": [0, 1], "params": {"x": float("nan")}}
    with pytest.raises(SpecError, match="params"):
        sweep_spec(asked, tmp_path)


def test_programs_are_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "made_up-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[hostler.programs]\n"
        "seeds = hostler.workloads.sieve.program:PROGRAM\n"
        "gone = made_up_gone:PROGRAM\n"
        "wrong = json:dumps\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find("seeds") is PROGRAM
    with pytest.raises(SpecError, match=r"no program 'sed' is installed \(installed: .*seeds.*\)"):
        find("sed")
    with pytest.raises(SpecError, match="'gone' cannot be loaded"):
        find("gone")
    with pytest.raises(SpecError, match="json:dumps is no program"):
        find("wrong")
