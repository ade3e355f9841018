"""What the sieve's tests share: the recorded vectors, specs from seeds, and the worker as a process."""

import json
import os
import subprocess
import sys
from collections.abc import Container, Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.generators import generator, oracle

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DRAWS = ROOT / "examples" / "draws"

Output = dict[str, Any]

COMMON = frozenset({"java-random", "xorshift64", "lcg:123456789123,77,1000000000000001,3"})
"""One with words drawn again, one that is linear, one with constants of its own. What makes their words takes about a
second to compile for each generator, so only these are searched in every test run."""


def tiers(cases: Iterable[str] | Iterable[tuple[Any, ...]], common: Container[str] = COMMON) -> list[Any]:
    """Names of generators, or tuples that begin with one, for `parametrize`; `long` where none of `common` is named."""
    made = []
    for case in cases:
        values = (case,) if isinstance(case, str) else case
        made.append(pytest.param(*values, marks=() if values[0] in common else pytest.mark.long))
    return made


@cache
def vectors() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Every vector recorded from a real runtime, with its generator's name."""
    contents = [json.loads(path.read_text()) for path in sorted((HERE / "vectors").glob("*.json"))]
    return tuple((content["generator"], vector) for content in contents for vector in content["vectors"])


def draws(name: str, output: Output, seed: int | str, count: int, skip: int = 0) -> list[int]:
    """The oracle's draws."""
    made_by = generator(name)
    made = oracle(made_by, spec.parse_output(made_by, output), made_by.read_seed(seed), skip=skip)
    return list(islice(made, count))


def params(name: str, output: Output, values: list[Any], skip: int = 0) -> dict[str, Any]:
    """Inline parameters."""
    return {"schema": 1, "generator": name, "output": output, "draws": values, "skip": skip}


def environment() -> dict[str, str]:
    """An environment in which the package is found, installed or not."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def command(*arguments: str) -> list[str]:
    """The sieve's command line."""
    return [sys.executable, "-m", "hostler.workloads.sieve", *arguments]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the sieve's command line to its end."""
    return subprocess.run(command(*arguments), env=environment(), capture_output=True, text=True, timeout=300)
