"""Run every benchmark and rewrite docs/performance.md with what came out.

    python benchmarks/run_all.py [--quick] [NAME ...]      NAMEs run anew; the others keep the figures they have

Figures are kept in docs/performance/NAME.json as each benchmark wrote them, a picture beside them as NAME.svg. Without
NAMEs it takes an hour and more: `learning` alone learns for 45 minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
FIGURES = DOCS / "performance"
NAMES = (
    "dispatch",
    "groups",
    "cli",
    "hostile",
    "executor",
    "sieve",
    "scale",
    "store",
    "history",
    "compaction",
    "usage",
    "sweeps",
    "gavel",
    "providers",
    "decisions",
    "ssh",
    "data",
    "takeover",
    "slurm",
    "selfplay",
    "gameboy",
    "gameboy_advice",
    "learning",
    "dashboard",
    "api",
    "api_paths",
)

HEAD = """# Performance

Every figure here was measured by a command in `benchmarks/`, side by side with its peers in one run. The machines are
shared and noisy: CPU seconds and ratios mean more than rates. `make bench` measures everything again and rewrites this
page; `python benchmarks/run_all.py NAME` one benchmark.
"""


def main() -> int:
    """Run, rewrite the page; the exit status is that of the worst benchmark."""
    options = _arguments()
    FIGURES.mkdir(exist_ok=True)
    worst = max((_run(name, options.quick) for name in options.names or NAMES), default=0)
    pages = [_section(json.loads(path.read_text())) for name in NAMES if (path := FIGURES / f"{name}.json").exists()]
    (DOCS / "performance.md").write_text("\n".join([HEAD, *pages]))
    return worst


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller runs; the figures are rougher")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    return parser.parse_args()


def _run(name: str, quick: bool) -> int:
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(FIGURES / f"{name}.json")]
    print(f"== {name}", flush=True)
    return subprocess.run([*command, *(["--quick"] if quick else [])], check=False).returncode


def _section(figures: Mapping[str, Any]) -> str:
    return "\n".join(
        [
            f"## {figures['name']}",
            "",
            f"`python benchmarks/{figures['name']}.py` on {_machine(figures['machine'])}",
            "",
            *_picture(FIGURES / f"{figures['name']}.svg"),
            *_tables(figures["rows"]),
            *_tables(list(_bars(figures["bars"]))),
        ]
    )


def _picture(path: Path) -> Iterator[str]:
    if path.exists():
        yield f"![{path.stem}]({path.relative_to(DOCS).as_posix()})"
        yield ""


def _machine(machine: Any) -> str:
    return machine if isinstance(machine, str) else ", ".join(f"{key} {value}" for key, value in machine.items())


def _bars(bars: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for bar in bars:
        met = {True: "met", False: "**missed**", None: "not measured"}[bar["met"]]
        told = f"{met}: {bar['note']}" if bar["note"] else met
        yield {"bar": bar["name"], "measured": bar["value"], "target": f"{bar['op']} {_cell(bar['target'])}", "": told}


def _tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One table for each shape of row."""
    for _, alike in groupby(rows, key=tuple):
        yield from _table(list(alike))
        yield ""


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    columns = list(rows[0])
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(_cell(row.get(column)) for column in columns) + " |"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value).replace("|", "/")


if __name__ == "__main__":
    sys.exit(main())
