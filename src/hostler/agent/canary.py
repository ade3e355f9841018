"""A short job with a known answer: finds the one seed of a range whose stream comes to a given value.

``python3 agent.pyz canary --kind cuda`` asks the device that the environment shows it. Whoever gives ``--task`` knows
the answer and nobody else does: it cannot be had but by searching. A GPU searches on its own, where it can be told to.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from typing import List, NamedTuple, Optional, Tuple

from . import gpus
from .protocol import PROTOCOL, VERSION

SCHEME = 1
"""What is searched, and how the answer is told; another one has another number."""
KINDS = ("cpu", "cuda", "rocm")
STEPS = 16
SIZES = {"cpu": 2048, "rocm": 2048, "cuda": 1 << 20}
"""Seeds to search: as many as Python, or a GPU, has looked at within a few hundredths of a second."""
_MASK = 0xFFFFFFFF
_LONGEST_S = 300
"""It ends itself by then: who would have ended it sooner may be gone."""


class Task(NamedTuple):
    """Find the seed in ``[start, start + size)`` whose stream is at ``target`` after so many steps."""

    start: int
    size: int
    steps: int
    target: int


def stream(seed: int, steps: int) -> int:
    """Where an xorshift32 stream is after so many steps. Each seed but 0 comes to another value."""
    for _ in range(steps):
        seed ^= seed << 13 & _MASK
        seed ^= seed >> 17
        seed ^= seed << 5 & _MASK
    return seed


def planted(kind: str, chance: random.Random) -> Tuple[Task, int]:
    """A task for a kind of device, and its answer."""
    start, size = chance.randrange(1, 1 << 31), SIZES[kind]
    answer = start + chance.randrange(size)
    return Task(start, size, STEPS, stream(answer, STEPS)), answer


def search(kind: str, task: Task) -> Optional[int]:
    """The seed, found by the device; None if it finds none. Raises ``gpus.DriverError``."""
    if kind == "cuda":
        return gpus.search_on_cuda(*task)
    if kind == "rocm":
        gpus.check_rocm()
    seeds = range(task.start, task.start + task.size)
    return next((seed for seed in seeds if stream(seed, task.steps) == task.target), None)


def main(arguments: List[str]) -> int:
    """Do the job; the last line of output is its answer. Exit status 1 where the device fails, with why."""
    options = _parser().parse_args(arguments)
    signal.alarm(_LONGEST_S)
    task, answer = (options.task, None) if options.task else planted(options.kind, random.SystemRandom())
    try:
        hit = search(options.kind, task)
    except gpus.DriverError as error:
        sys.stderr.write("%s\n" % error)
        return 1
    sys.stdout.write(json.dumps({"scheme": SCHEME, "protocol": PROTOCOL, "version": VERSION, "hit": hit}) + "\n")
    if answer not in (None, hit):
        sys.stderr.write("it found %s where %d is right: the device computes wrongly\n" % (hit, answer))
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hostler-agent canary", description="Prove one device.")
    parser.add_argument("--kind", choices=KINDS, default="cpu", help="what the device is")
    parser.add_argument("--task", type=_task, help="START,SIZE,STEPS,TARGET; by default one whose answer it knows")
    return parser


def _task(text: str) -> Task:
    task = Task(*map(int, text.split(",")))
    if not all(0 <= value <= _MASK for value in task) or task.start + task.size > _MASK:
        raise ValueError(text)
    return task
