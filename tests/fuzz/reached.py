"""How much of what a target reads with is reached by a corpus: `python -m tests.fuzz.reached NAME CORPUS`."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from pathlib import Path

import coverage


def main(name: str, corpus: str) -> None:
    """Print the share of lines, in percent, for all modules of the target together."""
    found = coverage.Coverage(data_file=None, config_file=False, source=["hostler"])
    found.start()
    target = importlib.import_module(f"tests.fuzz.{name}").TARGET
    for path in sorted(Path(corpus).iterdir()):
        with contextlib.suppress(Exception):  # what breaks it has been told of
            target.run(path.read_bytes())
    found.stop()
    files = [importlib.import_module(each).__file__ for each in target.reads]
    print(f"{found.report(morfs=files, file=io.StringIO()):.0f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
