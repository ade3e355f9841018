"""Pages of docs/get-started, executed block by block: files are written, commands run, and what they print compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.patience import PATIENCE_S

FOLDER = Path(__file__).resolve().parents[2] / "docs/get-started"
BLOCK = re.compile(r"^```(sh|text|python|yaml)[ ]?(.*?)\n(.*?)^```$", re.M | re.S)


def execute(page: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Execute the blocks of a page in order, in a project that is new, and compare what is printed.

    A block `sh background` is left to the test; `…` in a line of a block `text` stands for anything. `folder` is the
    home of the one who types.
    """
    project, bin = folder / "project", folder / "bin"
    project.mkdir()
    bin.mkdir()
    (bin / "hostler").write_text(f'#!/bin/sh\nexec {sys.executable} -m hostler "$@"\n')
    (bin / "hostler").chmod(0o755)
    whole = {"HOME": str(folder), "LANG": "C.UTF-8", "PATH": f"{bin}:{os.environ['PATH']}", **environment}
    if "PYTHONPATH" in os.environ:
        whole["PYTHONPATH"] = os.environ["PYTHONPATH"]
    text = (FOLDER / page).read_text()
    printed, executed = "", 0
    for kind, what, body in BLOCK.findall(text):
        if kind in ("python", "yaml") and what:
            (project / what).write_text(body)
        elif kind == "sh" and what != "background":
            done = subprocess.run(
                ["sh", "-c", body], cwd=project, env=whole, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
            printed, executed = done.stdout, executed + 1
        elif kind == "text":
            _compare(body, printed)
    assert executed == text.count("```sh\n")


def _compare(wanted: str, printed: str) -> None:
    rest = printed.splitlines()
    for line in wanted.splitlines():
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        found = next((at for at, said in enumerate(rest) if pattern.fullmatch(said)), None)
        assert found is not None, f"{line!r} is not in what was printed:\n{printed}"
        del rest[found]
