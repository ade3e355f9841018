"""The floor: no task system at all, two threads that start `true` and wait for it, by subprocess.run or posix_spawn.

Here every process is a child of this one, so getrusage(2) knows the truth, and each run checks measure.py against it.
"""

import os
import platform
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from measure import WORKERS, Run, main, tree_cpu_s
from tasks import TRUE, spawn


@contextmanager
def session(kind: str) -> Iterator[Run]:
    """Start the threads and give a function that runs n processes."""
    start_one = {"spawn": spawn, "posix_spawn": _posix_spawn}[kind]
    with ThreadPoolExecutor(WORKERS) as threads:
        yield lambda n: _checked(lambda: sum(threads.map(_repeat, [start_one] * WORKERS, _shares(n))))


def _posix_spawn() -> bool:
    return os.waitpid(os.posix_spawn(TRUE, [TRUE], os.environ), 0)[1] == 0


def _repeat(start_one: Callable[[], bool], times: int) -> int:
    return sum(start_one() for _ in range(times))


def _shares(n: int) -> list[int]:
    return [n // WORKERS + (worker < n % WORKERS) for worker in range(WORKERS)]


def _checked(run: Callable[[], int]) -> int:
    """Run, and fail unless the tree's CPU time agrees with getrusage to 2 % and 50 ms (five clock ticks)."""
    tree_s, usage_s = tree_cpu_s(os.getppid()), _usage_s()
    ok = run()
    tree_s, usage_s = tree_cpu_s(os.getppid()) - tree_s, _usage_s() - usage_s
    if abs(tree_s - usage_s) > 0.02 * usage_s + 0.05:
        raise AssertionError(f"measure.py counted {tree_s:.3f} s of CPU time where getrusage counted {usage_s:.3f} s")
    return ok


def _usage_s() -> float:
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main("bare", f"Python {platform.python_version()}", session, kinds=("spawn", "posix_spawn"))
