"""Reads lines "SEED SKIP COUNT KIND [ARGUMENT ...]"; writes the outputs of numpy, a line each.

The argument names the generator: numpy-randomstate, numpy-pcg64 or numpy-sfc64.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def draws(name: str, job: list[str]) -> str:
    """The outputs one line asks for; floats with every digit."""
    skip, count, kind = int(job[1]), int(job[2]), job[3]
    arguments = list(map(int, job[4:]))
    if name == "numpy-randomstate":
        draw = legacy(np.random.RandomState(int(job[0])), *arguments)[kind]
    else:
        bits = np.random.PCG64(int(job[0])) if name == "numpy-pcg64" else np.random.SFC64(int(job[0]))
        draw = modern(np.random.Generator(bits), *arguments)[kind]
    made = [draw() for _ in range(skip + count)]
    return " ".join(json.dumps(each, separators=(",", ":")) for each in made[skip:])


def legacy(state: Any, a: int = 0, b: int = 0) -> dict[str, Callable[[], object]]:
    """What each kind of output is called with, of ``RandomState``."""
    return {
        "float": lambda: float(state.random_sample()),
        "below": lambda: int(state.randint(a)),
        "range": lambda: int(state.randint(a, b + 1)),
        "floor": lambda: int(state.random_sample() * a),
        "bytes": lambda: state.bytes(a).hex(),
        "shuffle": lambda: shuffled(state, a),
        "permutation:shuffle": lambda: state.permutation(a).tolist(),
        "choice:below": lambda: int(state.choice(a)),
    }


def modern(generator: Any, a: int = 0, b: int = 0) -> dict[str, Callable[[], object]]:
    """What each kind of output is called with, of ``Generator``."""
    return {
        "exact": lambda: int(generator.bit_generator.random_raw()),
        "float": lambda: float(generator.random()),
        "below": lambda: int(generator.integers(a)),
        "range": lambda: int(generator.integers(a, b + 1)),
        "floor": lambda: int(generator.random() * a),
        "choice:below": lambda: int(generator.choice(a)),
    }


def shuffled(state: Any, n: int) -> list[int]:
    """``0..n-1``, shuffled."""
    items = list(range(n))
    state.shuffle(items)
    return items


if sys.argv[1:] == ["--version"]:
    print(f"NumPy {np.__version__}")
else:
    for line in sys.stdin:
        print(draws(sys.argv[1], line.split()))
