"""How mutants are played: in a copy of the tree, against the tests that look after the changed lines."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from hostler.model.record import record
from tests.mutants.places import SOURCE

PYTEST = ("-m", "pytest", "-x", "-q", "--timeout", "900", "--tb", "short", "--hypothesis-profile", "same-examples")
ALL = "not long"
"""What CI plays for every change has to notice a mutant: `make test` and `make test-services`,"""
TIERS = ("not long and not services", "services and not long")
"""one after the other: a mutant that the first notices needs no PostgreSQL."""
PASSED, FAILED, INTERRUPTED, MISUSED, EMPTY = 0, 1, 2, 4, 5
"""Exit statuses of pytest. Interrupted: a file of tests could not be imported; misused: a `conftest.py` could not be
imported, or a file of single tests that are asked for (`UNLOADED`), or there is no such test; empty: none is of the
tier."""
UNLOADED = ("while loading conftest", "found no collectors for")


class Verdict(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVES = "survives"
    HANGS = "hangs"
    """Counted as surviving: whoever waits learns nothing."""


@record
class Outcome:
    """What became of a mutant, and by which test."""

    verdict: Verdict
    by: str = ""
    said: str = ""
    """The end of what pytest printed."""


class Unplayable(Exception):
    """Tests do not pass without a mutant, or cannot be played."""


class Copy:
    """A copy of the tree, in which one mutant at a time is planted."""

    def __init__(self, root: Path, own: Path) -> None:
        self.root = own
        self._played = 0
        tracked = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            check=True,
            capture_output=True,
        ).stdout.decode()
        for name in filter(None, tracked.split("\0")):
            if (root / name).is_file():
                (own / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / name, own / name)
                shutil.copymode(root / name, own / name)

    def play(self, file: str, source: str, tests: Sequence[str], patience_s: float) -> Outcome:
        """Plant a mutant, play tests, take it out again. Raises `Unplayable`."""
        path = self.root / SOURCE / file
        before = path.read_text()
        self._write(path, source)
        try:
            for tier in TIERS:
                found = outcome(self.root, tests, patience_s, tier)
                if found.verdict is not Verdict.SURVIVES:
                    break
            return found
        finally:
            self._write(path, before)

    def _write(self, path: Path, source: str) -> None:
        """Write with a time of its own: Python knows by it whether compiled code is of this source."""
        path.write_text(source)
        self._played += 1
        at = os.stat(path).st_mtime - 1_000_000 + self._played
        os.utime(path, (at, at))


def outcome(root: Path, tests: Sequence[str], patience_s: float, tier: str = ALL) -> Outcome:
    """What tests make of the tree as it is. Raises `Unplayable`."""
    process = started(root, [*PYTEST, "-m", tier, *tests])
    try:
        out, _ = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return Outcome(verdict=Verdict.HANGS)
    if process.returncode in (PASSED, EMPTY):
        return Outcome(verdict=Verdict.SURVIVES)
    unloaded = process.returncode == MISUSED and any(each in out for each in UNLOADED)
    if process.returncode in (FAILED, INTERRUPTED) or unloaded:
        failed = [line for line in out.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        by = failed[0].split(" ")[1] if failed else "an error of collection"
        return Outcome(verdict=Verdict.KILLED, by=by, said=out[-2000:])
    raise Unplayable(f"pytest ended with {process.returncode}: {out[-600:]}")


def started(root: Path, arguments: Sequence[str], **environment: str) -> subprocess.Popen[str]:
    """A process of Python that imports the copy, in a session of its own."""
    own: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(root / "src"), **environment}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=root,
        env=own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
