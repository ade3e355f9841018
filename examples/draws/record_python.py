"""Reads lines "SEED SKIP COUNT random" or "SEED SKIP COUNT randrange N"; writes the outputs of random, a line each."""

import platform
import random
import sys


def draws(job: list[str]) -> str:
    """The outputs one line asks for; ``random()`` with every digit."""
    source = random.Random()
    source.seed(int(job[0]))
    skip, count = int(job[1]), int(job[2])
    made = [source.random() if job[3] == "random" else source.randrange(int(job[4])) for _ in range(skip + count)]
    return " ".join(repr(draw) for draw in made[skip:])


if sys.argv[1:] == ["--version"]:
    print(f"CPython {platform.python_version()}")
else:
    for line in sys.stdin:
        print(draws(line.split()))
