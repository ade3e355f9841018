"""Plays the checks of `make gpu` (`python -m tests.gpu [CHECK]...`), one line for each.

Exit status 1 where one failed or fewer than 5 ran. On a machine without an NVIDIA GPU it prints the reason and exits
with 0.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from tests.gpu.checks import CHECKS, Check, Skipped
from tests.gpu.counting import Result, line_of, verdict
from tests.gpu.machine import look
from tests.gpu.world import CheckFailed, World, a_world, shown

ALL_S = 285.0
"""Time of all checks; what is left of five minutes is for ending what was started."""


class TimeIsOver(Exception):
    """The checks have taken as long as they may."""


def main(names: Sequence[str]) -> int:
    """Play the checks of these names, by default all. Returns the exit status."""
    known = {each.__name__: each for each in CHECKS}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"gpu: there is no check {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    checks = [known[name] for name in names] or list(CHECKS)
    machine = look()
    if not machine.has_gpu:
        print(f"gpu: skipped: this machine has no NVIDIA GPU: {machine.says}")
        return 0
    print(f"gpu: {machine.says}", flush=True)
    try:
        machine = shown(machine)
    except CheckFailed as error:
        print(f"gpu: failed: {error}")
        return 1
    if not machine.cards:
        print("gpu: failed: no check can run: nvidia-smi lists no card, or CUDA_VISIBLE_DEVICES hides them all")
        return 1
    signal.signal(signal.SIGALRM, _time_is_over)
    results: list[Result] = []
    try:
        signal.setitimer(signal.ITIMER_REAL, float(os.environ.get("GPU_CHECKS_S", str(ALL_S))))
        with tempfile.TemporaryDirectory(prefix="hostler-gpu-") as folder, a_world(Path(folder), machine) as world:
            play(checks, world, results)
    except TimeIsOver:
        for check in checks[len(results) :]:
            results.append(Result(_name(check), "skipped", "the time of all checks was over", 0.0))
            print(line_of(results[-1]), flush=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    line, status = verdict(results)
    print(line, flush=True)
    return status


def play(checks: Sequence[Check], world: World, results: list[Result]) -> None:
    """Play checks in their order; what becomes of each is printed at once and added to the results."""
    for check in checks:
        began, name = time.monotonic(), _name(check)
        try:
            outcome = Result(name, "ok", check(world), 0.0)
        except Skipped as reason:
            outcome = Result(name, "skipped", str(reason), 0.0)
        except TimeIsOver:
            results.append(Result(name, "failed", "not done when the time of all checks was over", 0.0))
            print(line_of(results[-1]), flush=True)
            raise
        except Exception as error:  # noqa: BLE001 - a check must not end the others; it counts as failed, with its reason
            outcome = Result(name, "failed", f"{type(error).__name__}: {error}", 0.0)
        results.append(outcome._replace(seconds=time.monotonic() - began))
        print(line_of(results[-1]), flush=True)


def _name(check: Check) -> str:
    return check.__name__.replace("_", " ")


def _time_is_over(number: int, frame: FrameType | None) -> None:
    raise TimeIsOver


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
