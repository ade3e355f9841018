"""Fleet files, jobs files and variables: settings, or an error that names the file and where in it the fault lies.

The data are a fleet file; behind a NUL may follow variables, `NAME=VALUE` lines.
"""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path
from typing import Any

from hostler.model.errors import SettingsError
from hostler.settings.jobsfile import load_jobs
from hostler.settings.loading import load, specs

from .base import Target

EXAMPLES = Path(__file__).parents[2] / "examples"
PLACE = re.compile(r":[0-9]+:[0-9]+: ")
WHOLE = ("is longer than", "is empty")


def target(data: bytes) -> None:
    """Whatever stands in a file or a variable, it is read or told what is wrong, and where."""
    written, _, variables = data.partition(b"\0")
    rows = (row.partition("=") for row in variables.decode("utf-8", "replace").splitlines())
    environ = {name: value for name, _, value in rows if name}
    with tempfile.TemporaryDirectory(prefix="hostler-fuzz-") as folder:
        path = Path(folder) / "fleet.yaml"
        path.write_bytes(written)
        _fleet(path, environ)
        _jobs(path)


def _fleet(path: Path, environ: dict[str, str]) -> None:
    try:
        loaded = load(path, environ)
        made = specs(loaded)
    except SettingsError as error:
        _check_fault(str(error), path)
        return
    assert all(spec.name for spec in made)
    _check_numbers(loaded.fleet.model_dump(mode="python"))


def _jobs(path: Path) -> None:
    try:
        assert all(spec.name for spec in load_jobs(path))
    except SettingsError as error:
        _check_fault(str(error), path)


def _check_fault(message: str, path: Path) -> None:
    """Each line says which file, and where in it, or which variable."""
    assert 0 < len(message) < 20_000
    for line in message.splitlines():
        known = line.startswith(("environment variable ", "... and ", "settings: "))
        at = line.startswith(str(path.parent)) and (PLACE.search(line) or any(word in line for word in WHOLE))
        assert known or at or ": cannot be read" in line, message[:2000]


def _check_numbers(value: Any) -> None:
    if isinstance(value, float):
        assert not math.isnan(value)
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        _check_numbers(part)


def _aliases() -> bytes:
    rows = "\n".join(f"a{at}: &a{at} [*a{at - 1}, *a{at - 1}]" for at in range(1, 40_000))
    return f"a0: &a0 [x]\n{rows}\n".encode()


def _many_jobs() -> bytes:
    return b"jobs:\n" + b"".join(b"- {name: j%d, argv: [x]}\n" % at for at in range(40_000))


TARGET = Target(
    name="fleet_file",
    run=target,
    seeds=(
        *(path.read_bytes() for path in sorted(EXAMPLES.glob("*.yaml"))),
        b"{}\0HOSTLER_API__PORT=9000\nRINGRIFT_TARGET_UTIL_MIN=60\nRAY_WORKERS=4\n",
        b"jobs:\n- {name: a, argv: [x], walltime_s: 5, retry: {backoff_s: 1}}\n\0HOSTLER_LIMITS__MEMORY_GB=1\n",
        b"- {job_id: a, script: x.py, args: [a], timeout: 5}\n",
        b"nodes:\n- {name: n, ssh: u@h, price_per_h: 1.5, ends_at: 2026-12-31T18:00:00Z}\n",
    ),
    reads=(
        "hostler.settings.reading",
        "hostler.settings.faults",
        "hostler.settings.loading",
        "hostler.settings.jobsfile",
        "hostler.settings.environment",
        "hostler.settings.ranges",
        "hostler.settings.moments",
    ),
    large={
        "aliases": _aliases,
        "jobs": _many_jobs,
        "deep": lambda: b"[" * (1 << 20),
        "deep blocks": lambda: b"- " * (1 << 19),
        "digits": lambda: b"a: " + b"9" * (1 << 20),
        "unknown keys": lambda: b"".join(b"k%d: 1\n" % at for at in range(100_000)),
        "unknown nodes": lambda: b"nodes:\n" + b"- {nam: x}\n" * 90_000,
        "colons": lambda: b"a: " * 350_000,
        "quotes": lambda: b'"' * (1 << 20),
        "comment": lambda: b"#" * (1 << 20),
        "twins": lambda: b"jobs:\n" + b"- {name: a, argv: [x]}\n" * 45_000,
    },
)
