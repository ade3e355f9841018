"""Reads lines "SEED SKIP COUNT KIND [ARGUMENT ...]"; writes the outputs of CPython's random, a line each.

A seed "text:TEXT" is the text.
"""

import json
import platform
import random
import sys
from collections.abc import Callable


def draws(job: list[str]) -> str:
    """The outputs one line asks for; floats with every digit."""
    seed, skip, count, kind = job[0], int(job[1]), int(job[2]), job[3]
    source = random.Random()
    source.seed(seed.removeprefix("text:") if seed.startswith("text:") else int(seed))
    draw = kinds(source, *map(int, job[4:]))[kind]
    made = [draw() for _ in range(skip + count)]
    return " ".join(json.dumps(each, separators=(",", ":")) for each in made[skip:])


def kinds(source: random.Random, a: int = 0, b: int = 0) -> dict[str, Callable[[], object]]:
    """What each kind of output is called with."""
    return {
        "random": source.random,
        "randrange": lambda: source.randrange(a),
        "range": lambda: source.randint(a, b),
        "floor": lambda: int(source.random() * a),
        "getrandbits": lambda: source.getrandbits(a),
        "shuffle": lambda: shuffled(source, a),
        "choice:randrange": lambda: source.choice(range(a)),
    }


def shuffled(source: random.Random, n: int) -> list[int]:
    """``0..n-1``, shuffled."""
    items = list(range(n))
    source.shuffle(items)
    return items


if sys.argv[1:] == ["--version"]:
    print(f"CPython {platform.python_version()}")
else:
    for line in sys.stdin:
        print(draws(line.split()))
