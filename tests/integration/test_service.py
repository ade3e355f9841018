"""docs/get-started/service.md, executed block by block, and the units and the container file of packaging/."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import kill_below
from tests.integration.guides import execute
from tests.patience import PATIENCE_S

PACKAGING = Path(__file__).parents[2] / "packaging"
UNITS = sorted((PACKAGING / "systemd").glob("*.service"))


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"
    kill_below(tmp_path / "state")


@pytest.mark.services
def test_guide_of_the_service_is_executed_block_by_block(state: Path, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("nodes: [{name: here, cpu_slots: 2, gpus: none}]\napi: {port: 0}\n")
    try:
        execute("service.md", tmp_path, {"HOSTLER_STATE_DIR": str(state)}, given={"hostler up": f"hostler up {fleet}"})
    finally:
        words = [sys.executable, "-m", "hostler", "down", "--now", "--state-dir", str(state)]
        subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_unit_is_understood_by_systemd_and_starts_what_there_is(unit: Path, tmp_path: Path) -> None:
    """`systemd-analyze verify`, with the paths that a person sets; the commands are those of the command line."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    hostler = tmp_path / "hostler"
    hostler.write_text(f'#!/bin/sh\nexec {sys.executable} -m hostler "$@"\n')
    hostler.chmod(0o755)
    text = re.sub(r"(?m)^(Exec\w+=)\S*/hostler ", rf"\g<1>{hostler} ", unit.read_text())
    assert text.count(str(hostler)) == 2
    copy = tmp_path / "hostler.service"
    copy.write_text(text.replace("User=hostler\n", ""))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert str(copy) not in verified.stderr, verified.stderr
    assert "KillMode=process" in text
    for words in re.findall(rf"(?m)^Exec\w+={re.escape(str(hostler))} (.*)$", text):
        command, *options = words.split()
        shown = subprocess.run(
            [hostler, command, "--help"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        ).stdout
        assert all(option in shown for option in options if option.startswith("--"))


@pytest.mark.long
def test_container_file_builds_and_starts(tmp_path: Path) -> None:
    program = next((name for name in ("podman", "docker") if _works(name)), None)
    if program is None:
        pytest.skip("neither podman nor a docker daemon is here")
    tag = "hostler-test"
    subprocess.run(
        [program, "build", "-f", PACKAGING / "Containerfile", "-t", tag, PACKAGING.parent], check=True, timeout=1800
    )
    ran = subprocess.run(
        [program, "run", "--rm", tag, "hostler", "--version"], capture_output=True, text=True, check=True, timeout=300
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", ran.stdout)


def _works(program: str) -> bool:
    if shutil.which(program) is None:
        return False
    return subprocess.run([program, "info"], capture_output=True, timeout=60, check=False).returncode == 0
