"""Libraries that look like the drivers of GPUs, made from C by the machine's own compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

HERE = Path(__file__).parent
NAMES = {"fakecuda.c": "libcuda.so.1", "fakehip.c": "libamdhip64.so"}
needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc here to make a fake driver")


def build(folder: Path) -> Path:
    """Make both libraries in a folder, for LD_LIBRARY_PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for source, name in NAMES.items():
        command = ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", str(HERE / source), "-o", str(folder / name)]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
    return folder
