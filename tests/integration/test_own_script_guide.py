"""docs/get-started/own-script.md: its blocks are executed in order, in a home and a project that are new."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Fleet, a_fleet
from tests.patience import PATIENCE_S

GUIDE = Path(__file__).resolve().parents[2] / "docs/get-started/own-script.md"
BLOCK = re.compile(r"^```(sh|text|python)[ ]?(.*?)\n(.*?)^```$", re.M | re.S)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "fleet").mkdir()
    with a_fleet(tmp_path / "fleet", nodes=[{"name": "here", "cpu_slots": 2, "gpus": "none"}]) as made:
        made.start()
        yield made


def test_guide_of_an_own_script_is_executed_block_by_block(fleet: Fleet, tmp_path: Path) -> None:
    project, bin = tmp_path / "project", tmp_path / "bin"
    project.mkdir()
    bin.mkdir()
    (bin / "hostler").write_text(f'#!/bin/sh\nexec {sys.executable} -m hostler "$@"\n')
    (bin / "hostler").chmod(0o755)
    environment = {"HOME": str(tmp_path), "HOSTLER_STATE_DIR": str(fleet.state), "LANG": "C.UTF-8"}
    environment["PATH"] = f"{bin}:{os.environ['PATH']}"
    printed, executed = "", 0
    for kind, what, text in BLOCK.findall(GUIDE.read_text()):
        if kind == "python":
            (project / what).write_text(text)
        elif kind == "sh" and what != "background":
            done = subprocess.run(
                ["sh", "-c", text], cwd=project, env=environment, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
            printed, executed = done.stdout, executed + 1
        elif kind == "text":
            rest = printed.splitlines()
            for line in text.splitlines():
                wanted = re.compile(".*".join(map(re.escape, line.split("…"))))
                found = next((at for at, said in enumerate(rest) if wanted.fullmatch(said)), None)
                assert found is not None, f"{line!r} is not in what was printed:\n{printed}"
                del rest[found]
    assert executed == GUIDE.read_text().count("```sh\n")
