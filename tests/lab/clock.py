"""The `sitecustomize` of a host with a clock of its own: what Python takes for the time is as far off as a file says.

Only the wall clock, and only Python's; libfaketime would shift all programs, but breaks the sleeping of Python 3.11.
"""

import os
import time


def _set_off(path: str) -> None:
    right = time.time
    known = [0.0, 0.0]

    def wrong() -> float:
        now = right()
        if now - known[0] > 0.5:
            with open(path) as file:
                known[:] = now, float(file.read() or 0)
        return now + known[1]

    time.time = wrong


_set_off(os.environ["LAB_CLOCK"])
