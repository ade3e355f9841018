"""Every target under atheris for so many seconds each: `python -m tests.fuzz.campaign --seconds 60 [NAME ...]`.

Prints executions, edges found, and the share of lines that all it has found reaches. Exit status 1 where something
broke: what did so lies in `kept/NAME/`, and `make test` tries it from then on.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from .base import Target
from .every import TARGETS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CORPORA = ROOT / "build" / "fuzz"
GRACE_S = 120
_COVERED = re.compile(r"cov: (\d+)")
_UNITS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def main() -> int:
    """Fuzz one target after the other, and tell of each."""
    parser = argparse.ArgumentParser(description="Fuzz every reader of foreign text.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="targets; all, if none is named")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    asked = parser.parse_args()
    known = {target.name: target for target in TARGETS}
    if unknown := [name for name in asked.names if name not in known]:
        parser.error(f"there is no target {unknown[0]}; there are {', '.join(known)}")
    print(f"{'target':20} {'executions':>10} {'edges':>6} {'corpus':>6} {'lines':>6}  broke")
    return max(_fuzzed(known[name], asked.seconds) for name in asked.names or known)


def _fuzzed(target: Target, seconds: int) -> int:
    corpus, kept = CORPORA / target.name, HERE / "kept" / target.name
    for folder in (corpus, kept):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(kept.iterdir())
    words = [sys.executable, "-m", "tests.fuzz.driver", target.name, str(corpus), str(kept), str(seconds)]
    log = CORPORA / f"{target.name}.log"
    with log.open("w") as output:
        try:
            status = subprocess.run(words, cwd=ROOT, stderr=output, timeout=seconds + GRACE_S).returncode
        except subprocess.TimeoutExpired:
            status = -1
    said = log.read_text(errors="replace")
    new = sorted(path.name for path in set(kept.iterdir()) - before)
    if not any(kept.iterdir()):
        kept.rmdir()
    broke = ", ".join(new) or ("" if status == 0 else f"status {status}, see {log}")
    units, edges = _last(_UNITS, said), _last(_COVERED, said)
    size, lines = len(list(corpus.iterdir())), _lines(target, corpus)
    print(f"{target.name:20} {units:>10} {edges:>6} {size:>6} {lines:>6}  {broke}", flush=True)
    return 1 if broke else 0


def _last(pattern: re.Pattern[str], text: str) -> str:
    return next(reversed(pattern.findall(text)), "?")


def _lines(target: Target, corpus: Path) -> str:
    """The share of the lines of what the target reads with that everything in its corpus reaches, in a new process."""
    words = [sys.executable, "-m", "tests.fuzz.reached", target.name, str(corpus)]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "?"


if __name__ == "__main__":
    sys.exit(main())
