"""Which tests reach which lines: measured once, without a mutant, so that each mutant is met by tests that reach it."""

from __future__ import annotations

import json
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from hostler.model.record import record
from tests.mutants.drawing import Group
from tests.mutants.places import SOURCE
from tests.mutants.playing import ALL, PYTEST, Unplayable, started

RULES = """[run]
dynamic_context = test_function
include = src/hostler/*
relative_files = true
concurrency = thread
data_file = {data}
"""
WHOLE_S = 3600
ELSEWHERE = ""
"""What coverage calls all that does not run in the thread of a test: imports, fixtures, servers, pools of threads."""


@record
class Reach:
    """Tests by the lines of each file that they reach, and how long all tests of a group take."""

    tests: Mapping[str, Mapping[int, Sequence[str]]]
    missed: Mapping[str, frozenset[int]]
    """Lines that nothing reaches."""
    all: Sequence[str]
    """All tests, the quick ones first."""
    seconds: float

    def of(self, file: str, line: int) -> Sequence[str]:
        """Tests that reach a line; none for one that nothing reaches, all where it is not known which."""
        if line in self.missed.get(file, ()):
            return ()
        return self.tests.get(file, {}).get(line) or self.all


def measured(root: Path, group: Group, scratch: Path) -> Reach:
    """Play the tests of a group without a mutant. Raises `Unplayable` where one fails."""
    scratch.mkdir(parents=True, exist_ok=True)
    rules, data, report, times = (scratch / each for each in ("coveragerc", "data", "report.json", "times.xml"))
    rules.write_text(RULES.format(data=data))
    began_at = time.monotonic()
    process = started(
        root, ["-m", "coverage", "run", f"--rcfile={rules}", *PYTEST, "-m", ALL, f"--junitxml={times}", *group.tests]
    )
    try:
        out, _ = process.communicate(timeout=WHOLE_S)
    except subprocess.TimeoutExpired as error:
        raise Unplayable(f"tests without a mutant took more than {WHOLE_S} s") from error
    if process.returncode != 0:
        raise Unplayable(f"tests fail without a mutant: {out[-2000:]}")
    seconds = time.monotonic() - began_at
    told = ["-m", "coverage", "json", f"--rcfile={rules}", "--show-contexts", "-q", "-o", str(report)]
    told_process = started(root, told)
    said, _ = told_process.communicate(timeout=WHOLE_S)
    if told_process.returncode != 0:
        raise Unplayable(f"coverage cannot report: {said[-600:]}")
    files, taken = json.loads(report.read_text())["files"], _seconds(times)
    every = _nodes(root, taken, taken)
    return Reach(
        tests={
            file: {
                int(line): _reaching(_nodes(root, contexts, taken), every if ELSEWHERE in contexts else ())
                for line, contexts in files.get(f"{SOURCE}/{file}", {}).get("contexts", {}).items()
            }
            for file in group.files
        },
        missed={file: frozenset(files.get(f"{SOURCE}/{file}", {}).get("missing_lines", ())) for file in group.files},
        all=every,
        seconds=seconds,
    )


def _seconds(times: Path) -> Mapping[str, float]:
    """How long each test took, under the name that coverage has for it: a slow one need not notice what a quick one
    does, and many a defect makes it slower."""
    taken: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(times).iter("testcase"):
        taken[f"{case.attrib['classname']}.{case.attrib['name'].partition('[')[0]}"] += float(case.attrib["time"])
    return taken


def _nodes(root: Path, contexts: Iterable[str], taken: Mapping[str, float]) -> tuple[str, ...]:
    """The tests of these contexts, the quick ones first."""
    ordered = sorted(contexts, key=lambda each: (taken.get(each, 0.0), each))
    return tuple(dict.fromkeys(filter(None, (_node(root, each) for each in ordered))))


def _reaching(known: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Those that are known to reach a line, and then those that may."""
    return tuple(dict.fromkeys((*known, *others)))


def _node(root: Path, context: str) -> str | None:
    """The name that pytest has for a test which coverage calls `tests.core.test_ledger.TestLease.test_x`."""
    parts = context.split(".")
    for count in range(len(parts) - 1, 0, -1):
        file = Path(*parts[:count]).with_suffix(".py")
        if (root / file).is_file():
            return "::".join([str(file), *parts[count:]])
    return None
