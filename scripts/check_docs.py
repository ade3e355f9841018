#!/usr/bin/env python3
"""Checks the documents: links lead somewhere, folders of the source say what they are, nothing names one machine.

python scripts/check_docs.py        exit status 1 and a line for each fault
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Written apart, so that this file does not name what it forbids.
FORBIDDEN = re.compile(
    "|".join(["py" + r"pi\.org", "python" + "hosted", r"registry\." + "npmjs", r"deb\." + "debian", "/wo" + "rk/"])
)
README_LINES = 60


def main() -> int:
    """Print every fault; the exit status is 1 if there is one."""
    tracked = [ROOT / name for name in _git("ls-files", "--cached", "--others", "--exclude-standard")]
    files = [path for path in tracked if path.is_file()]
    faults = [*_dead_links(files), *_folders_without_readme(), *_named_machines(files)]
    for fault in faults:
        print(fault)
    print(f"documents: {len(faults)} faults in {len(files)} files")
    return 1 if faults else 0


def _dead_links(files: list[Path]) -> Iterator[str]:
    for path in files:
        if path.suffix != ".md":
            continue
        for target in LINK.findall(path.read_text()):
            place = target.split("#")[0]
            if place and "://" not in place and not (path.parent / place).exists():
                yield f"{path.relative_to(ROOT)}: the link to {target} leads nowhere"


def _folders_without_readme() -> Iterator[str]:
    for folder in sorted((ROOT / "src/hostler").iterdir()):
        if not (folder / "__init__.py").exists():
            continue
        readme = folder / "README.md"
        if not readme.exists():
            yield f"{folder.relative_to(ROOT)}: no README.md says what lives there"
        elif readme.read_text().count("\n") > README_LINES:
            yield f"{readme.relative_to(ROOT)}: longer than a page ({README_LINES} lines)"


def _named_machines(files: list[Path]) -> Iterator[str]:
    for path in files:
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if FORBIDDEN.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: names a registry host or a path of one machine"


def _git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
