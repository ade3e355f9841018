"""The Makefile's tiers: each test belongs to exactly one of them, and `make help` lists every target."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import postgres
from tests.tiers import demand_services

REPOSITORY = Path(__file__).parents[1]
TIERS = ("test", "test-services", "test-long")
NEED_SERVICES = frozenset({"slurm", "slurm_accounted", "ray_town", "ray_python_found", "browser"})
"""Fixtures that start Slurm, Ray or a browser."""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*words: str) -> str:
    # What `make test ARGS=...` was called with is not for the make of this test.
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "ARGS")}
    command = ["make", "--no-print-directory", *words]
    return subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=True).stdout


def expressions(tier: str) -> list[str]:
    """The marker expressions of the pytest commands that a target runs."""
    return re.findall(r'-m "([^"]+)"', make("-n", tier))


@pytest.mark.parametrize("service", ["", "slurm", "ray", "any other"])
@pytest.mark.parametrize("long", [False, True])
def test_tier_of_any_marks_is_exactly_one(service: str, long: bool) -> None:
    marks = {"services": bool(service), "long": long, "slurm": service == "slurm", "ray": service == "ray"}
    chosen = [tier for tier in TIERS for each in expressions(tier) if eval(each, {}, marks)]
    assert chosen == ["test-long" if long else "test-services" if service else "test"]


def test_tier_of_a_test_that_starts_a_service_is_not_the_quick_one(request: pytest.FixtureRequest) -> None:
    quick = [
        each for each in request.session.items if not {"services", "long"} & {mark.name for mark in each.iter_markers()}
    ]
    assert [each.nodeid for each in quick if NEED_SERVICES & set(getattr(each, "fixturenames", ()))] == []


def test_service_started_by_a_quick_test_is_an_error(request: pytest.FixtureRequest) -> None:
    with pytest.raises(AssertionError, match="starts PostgreSQL: it needs the marker `services`"), postgres.running():
        pass
    request.node.add_marker(pytest.mark.services)
    demand_services("PostgreSQL")


def test_help_lists_every_target_within_80_columns() -> None:
    text = (REPOSITORY / "Makefile").read_text().replace("\\\n", " ")
    targets, *_ = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    lines = make("help").splitlines()
    assert sorted(line.split()[1] for line in lines) == sorted(targets.split())
    assert [line for line in lines if len(line) > 80] == []


def test_help_tells_the_time_of_every_target() -> None:
    lines = make("help").splitlines()
    told = re.compile(r"\(.*(\d+ (s|min|h)|hours?)\b.*\)$")
    assert [line.split()[1] for line in lines if not told.search(line)] == ["help"]


def test_make_tests_is_an_error_that_names_the_target() -> None:
    ended = subprocess.run(["make", "tests"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "make test" in ended.stderr


@pytest.mark.parametrize(("statuses", "good"), [("0 0 0", True), ("0 5 5", True), ("5 0 5", True), ("5 5 5", False),
                                                ("0 1 0", False), ("0 0 130", False)])  # fmt: skip
def test_services_pass_if_some_part_was_played_and_none_failed(statuses: str, good: bool, tmp_path: Path) -> None:
    script = make("-n", "test-services")
    script = script[script.index("mkdir -p build") :]
    commands = re.findall(r"[^;{&\\\n]* -m pytest [^;]*", script)
    assert len(commands) == 3
    for command, status in zip(commands, statuses.split(), strict=True):
        script = script.replace(command, f" (exit {status})", 1)
    ended = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=False)
    assert (ended.returncode == 0) == good, ended.stdout
