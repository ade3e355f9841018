"""Holds a stage at a chosen moment of its work, so that a test can kill it just then.

A process that finds a file `STAGE.POINT.N` in the folder `$HOLD` when it comes to that point for the N-th time (from 0)
renames it to `STAGE.PID.held` and goes on only when that is gone, or after a quarter of an hour.
"""

import fnmatch
import os
import sys
import time
from collections import Counter

LONGEST_S = 900.0
POINTS = {
    # Between the temporary file and its name: the last moment at which nothing may be seen of it.
    "segment": ("os.rename", "*/objects/*.segment.npz"),
    "dataset": ("os.rename", "*/objects/*.dataset.npz"),
    "model": ("os.rename", "*/objects/*.safetensors"),
    "checkpoint": ("os.rename", "*/checkpoint-*"),
    "result": ("os.rename", os.environ.get("HOSTLER_RESULT", "")),
    # Before a segment is read.
    "reading": ("open", "*/objects/*.segment.npz"),
}


def install() -> None:
    """Watch what this process opens and renames."""
    folder, stage, came = os.environ["HOLD"], sys.orig_argv[-1], Counter()

    def watch(event, arguments):
        for point, (kind, pattern) in POINTS.items():
            if event != kind or isinstance(arguments[event == "os.rename"], int):
                continue  # what is opened by its number was opened by name before
            if fnmatch.fnmatch(os.fspath(arguments[event == "os.rename"]), pattern):
                hold(folder, f"{stage}.{point}.{came[point]}", stage)
                came[point] += 1

    sys.addaudithook(watch)


def hold(folder, name, stage):
    """Wait here if this is the place."""
    held = f"{folder}/{stage}.{os.getpid()}.held"
    try:
        # What is renamed here is no artifact: the watch passes it over.
        os.rename(f"{folder}/{name}", held)
    except FileNotFoundError:
        return
    end = time.monotonic() + LONGEST_S
    while os.path.exists(held) and time.monotonic() < end:
        time.sleep(0.02)


if os.environ.get("HOLD"):
    install()
