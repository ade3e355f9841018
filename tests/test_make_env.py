"""`scripts/make-env` installs what is missing, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INSTALLS = 9
"""What the Python of these tests ends with when it is to make an environment."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an environment of two extras, and a Python that makes no environment."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "make-env", tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".made-train,dev").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$1 $2" != "-m venv" ] || exit {INSTALLS}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return tmp_path


def make_env(project: Path, extras: str) -> int:
    """The exit status of the script."""
    variables = {**os.environ, "PYTHON": str(project / "python")}
    command = ["scripts/make-env", extras]
    return subprocess.run(command, cwd=project, env=variables, stdout=subprocess.DEVNULL, check=False).returncode


@pytest.mark.parametrize("extras", ["train,dev", "dev,train", "train"])
def test_environment_that_has_all_extras_is_left_as_it_is(project: Path, extras: str) -> None:
    assert make_env(project, extras) == 0


@pytest.mark.parametrize("extras", ["train,ray", "trai", "ray"])
def test_environment_that_lacks_an_extra_is_installed(project: Path, extras: str) -> None:
    assert make_env(project, extras) == INSTALLS


def test_environment_older_than_the_pins_is_installed_again(project: Path) -> None:
    stamp, pins = project / ".venv" / ".made-train,dev", project / "constraints.txt"
    later = stamp.stat().st_mtime + 10
    os.utime(pins, (later, later))
    assert make_env(project, "train") == INSTALLS
