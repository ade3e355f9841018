"""What the benchmarks share: the machine in words, rows as a table, bars, and the JSON that ``make bench`` collects."""

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

Row = Mapping[str, Any]
Op = Literal[">=", "<=", ">", "<"]


@dataclass(frozen=True, slots=True)
class Bar:
    """A number to reach. ``value`` is ``None`` where this machine cannot measure it; then nothing is met or missed."""

    name: str
    value: float | None
    target: float
    op: Op
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the value reaches the target; ``None`` where it is not measured."""
        if self.value is None:
            return None
        return {
            ">=": self.value >= self.target,
            "<=": self.value <= self.target,
            ">": self.value > self.target,
            "<": self.value < self.target,
        }[self.op]


def arguments(description: str | None) -> argparse.Namespace:
    """The command line every benchmark has, read: ``--quick`` and ``--json FILE``."""
    return command_line(description).parse_args()


def command_line(description: str | None) -> argparse.ArgumentParser:
    """The command line every benchmark has, for one that has more."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller runs; the figures are rougher")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result as JSON")
    return parser


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, usable cores, vector instructions, Python."""
    return {
        "processor": _cpuinfo("model name") or platform.processor() or None,
        "cores": len(os.sched_getaffinity(0)),
        "avx512": has_cpu_flag("avx512f"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def has_cpu_flag(flag: str) -> bool:
    """Whether the processor lists this flag."""
    return flag in _cpuinfo("flags").split()


def table(rows: Sequence[Row]) -> str:
    """Rows of equal keys as aligned plain text under a heading; numbers to the right, ``None`` as ``-``."""
    heads = list(rows[0])
    cells = [[_cell(row[head]) for head in heads] for row in rows]
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(heads))]
    right = [all(isinstance(row[head], int | float | None) for row in rows) for head in heads]
    return "\n".join(_line(line, widths, right) for line in [heads, ["-" * width for width in widths], *cells])


def report(name: str, rows: Sequence[Row], bars: Sequence[Bar], path: Path | None) -> None:
    """Print the machine, the tables (one for each shape of row) and the bars; also write them to ``path`` as JSON."""
    about = machine()
    print(f"{name} on {', '.join(f'{key} {value}' for key, value in about.items())}\n")
    for _, alike in groupby(rows, key=tuple):
        print(table(list(alike)) + "\n")
    for bar in bars:
        print(_verdict(bar))
    if path is not None:
        content = {
            "name": name,
            "machine": about,
            "rows": [dict(row) for row in rows],
            "bars": [{**asdict(bar), "met": bar.met} for bar in bars],
        }
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _cpuinfo(key: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()


def _verdict(bar: Bar) -> str:
    word = {True: "met", False: "MISSED", None: "not measured here"}[bar.met]
    note = f" ({bar.note})" if bar.note else ""
    return f"bar: {bar.name}: {_cell(bar.value)} {bar.op} {_cell(bar.target)}: {word}{note}"
