"""How a durable queue is measured: clients that each wait for their own answer, and workers that take what they gave.

A system gives functions; what is done with them is here, the same for all. Three cases:

  one      each client submits one job, waits until it is durable, and submits the next, for some seconds; nobody works
  batch    the same with so many jobs at once
  through  all clients together submit a number of jobs in the way that is the system's fastest, workers take them, and
           it ends when the last is recorded as done

CPU time is that of this process, all below it, and the database server beside it. Only the standard library is used:
this file runs in the peers' environment too.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from measure import tree_cpu_s

BATCH = 100
WARM_UP_S = 0.5
WARM_UP_JOBS = 100
POLL_S = 0.02
LIMIT_S = 120.0
WORKER = "worker"

Submit = Callable[[int, int], object]
"""Submits so many jobs as the client of this number, and returns once they are durable."""
SubmitAsync = Callable[[int, int], Awaitable[object]]


@dataclass(frozen=True)
class Asked:
    """One measurement: the case, how many clients, for how long or how many jobs, and where the store is."""

    case: str
    clients: int
    seconds: float
    jobs: int
    store: str
    server: int | None
    """The process of the database server, if there is one."""

    @property
    def size(self) -> int:
        """Jobs of one submission, while it is only submitted."""
        return 1 if self.case == "one" else BATCH


class Reading(NamedTuple):
    """Where the clock and the processors' clocks stand."""

    at: float
    cpu_s: float
    server_cpu_s: float


@dataclass
class Measured:
    """What came of it."""

    jobs: int = 0
    times: list[float] = field(default_factory=list)
    """Seconds of each submission."""
    begun: Reading | None = None
    ended: Reading | None = None

    def line(self, version: str, **more: Any) -> dict[str, Any]:
        """As one line for whoever asked."""
        assert self.begun is not None
        assert self.ended is not None
        wall_s = self.ended.at - self.begun.at
        return {
            "version": version,
            "jobs": self.jobs,
            "per_s": self.jobs / wall_s,
            "cpu_ms": 1000 * (self.ended.cpu_s - self.begun.cpu_s) / self.jobs,
            "server_cpu_ms": 1000 * (self.ended.server_cpu_s - self.begun.server_cpu_s) / self.jobs,
            "p50_ms": 1000 * quantile(self.times, 0.5) if self.times else None,
            "p99_ms": 1000 * quantile(self.times, 0.99) if self.times else None,
            **more,
        }


def asked(description: str | None) -> tuple[Asked, str]:
    """The command line of one system, read: what is asked for, and the role (`client`, or one that it starts)."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--case", choices=("one", "batch", "through"), default="one")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--jobs", type=int, default=3_000)
    parser.add_argument("--store", required=True, help="a folder for SQLite, or the address of a database")
    parser.add_argument("--server", type=int, help="the process of the database server")
    parser.add_argument("--role", default="client", help=argparse.SUPPRESS)
    given = vars(parser.parse_args())
    role = given.pop("role")
    return Asked(**given), role


def quantile(values: Sequence[float], part: float) -> float:
    """The value that so large a part of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


def shares(total: int, among: int) -> list[int]:
    """So much dealt out as evenly as can be."""
    return [total // among + (at < total % among) for at in range(among)]


def parts(total: int, size: int) -> list[int]:
    """So much in parts of at most `size`."""
    return [min(size, total - at) for at in range(0, total, size)]


def begin(server: int | None) -> Reading:
    """Read all clocks, and then that of the wall: to look at all processes takes a while."""
    cpu_s, beside = _cpu_s(server)
    return Reading(time.monotonic(), cpu_s, beside)


def end(server: int | None) -> Reading:
    """The same the other way round."""
    return Reading(time.monotonic(), *_cpu_s(server))


async def submitted(what: Asked, submit: SubmitAsync) -> Measured:
    """The cases without workers, for clients that are tasks of one loop."""
    await _until(what, submit, time.monotonic() + WARM_UP_S, Measured())
    made = Measured(begun=begin(what.server))
    assert made.begun is not None
    await _until(what, submit, made.begun.at + what.seconds, made)
    made.ended = end(what.server)
    return made


async def through(what: Asked, submit: SubmitAsync, done: Callable[[], Awaitable[int]], size: int) -> Measured:
    """The case with workers, for clients that are tasks of one loop; `done` counts all jobs done since the start."""
    await submit(0, WARM_UP_JOBS)
    await _all_done(done, WARM_UP_JOBS)
    made = Measured(jobs=what.jobs, begun=begin(what.server))

    async def one(client: int, share: int) -> None:
        for part in parts(share, size):
            began = time.monotonic()
            await submit(client, part)
            made.times.append(time.monotonic() - began)

    await asyncio.gather(*(one(client, share) for client, share in enumerate(shares(what.jobs, what.clients))))
    await _all_done(done, WARM_UP_JOBS + what.jobs)
    made.ended = end(what.server)
    return made


def submitted_by_threads(what: Asked, submit: Submit) -> Measured:
    """The same as `submitted` for clients that are threads."""
    _in_threads(what.clients, lambda client: _loop(what, submit, client, time.monotonic() + WARM_UP_S, Measured()))
    made = Measured(begun=begin(what.server))
    assert made.begun is not None
    until = made.begun.at + what.seconds
    each = [Measured() for _ in range(what.clients)]
    _in_threads(what.clients, lambda client: _loop(what, submit, client, until, each[client]))
    made.ended = end(what.server)
    made.jobs = sum(one.jobs for one in each)
    made.times = [time_s for one in each for time_s in one.times]
    return made


def through_by_threads(what: Asked, submit: Submit, done: Callable[[], int], size: int) -> Measured:
    """The same as `through` for clients that are threads."""
    for part in parts(WARM_UP_JOBS, size):
        submit(0, part)
    _wait_for(done, WARM_UP_JOBS)
    made = Measured(jobs=what.jobs, begun=begin(what.server))
    dealt = shares(what.jobs, what.clients)

    def one(client: int) -> None:
        for part in parts(dealt[client], size):
            began = time.monotonic()
            submit(client, part)
            made.times.append(time.monotonic() - began)

    _in_threads(what.clients, one)
    _wait_for(done, WARM_UP_JOBS + what.jobs)
    made.ended = end(what.server)
    return made


@contextmanager
def workers(count: int = 1) -> Iterator[None]:
    """So many workers in processes of their own: this script again, in that role, ended with the block."""
    command = [sys.executable, *sys.argv, f"--role={WORKER}"]
    started = [subprocess.Popen(command, stdout=sys.stderr) for _ in range(count)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def tell(line: dict[str, Any]) -> None:
    """Print the line."""
    print(json.dumps(line), flush=True)


def _cpu_s(server: int | None) -> tuple[float, float]:
    beside = 0.0 if server is None else tree_cpu_s(server)
    return tree_cpu_s(os.getpid()) + beside, beside


async def _until(what: Asked, submit: SubmitAsync, until: float, made: Measured) -> None:
    async def one(client: int) -> None:
        now = time.monotonic()
        while True:
            began = now
            await submit(client, what.size)
            now = time.monotonic()
            made.times.append(now - began)
            made.jobs += what.size
            if now >= until:
                return

    await asyncio.gather(*map(one, range(what.clients)))


def _loop(what: Asked, submit: Submit, client: int, until: float, made: Measured) -> None:
    now = time.monotonic()
    while True:
        began = now
        submit(client, what.size)
        now = time.monotonic()
        made.times.append(now - began)
        made.jobs += what.size
        if now >= until:
            return


async def _all_done(done: Callable[[], Awaitable[int]], count: int) -> None:
    latest = time.monotonic() + LIMIT_S
    while (found := await done()) < count:
        if time.monotonic() > latest:
            raise TimeoutError(f"{found} of {count} jobs were done within {LIMIT_S:g} s")
        await asyncio.sleep(POLL_S)


def _wait_for(done: Callable[[], int], count: int) -> None:
    latest = time.monotonic() + LIMIT_S
    while (found := done()) < count:
        if time.monotonic() > latest:
            raise TimeoutError(f"{found} of {count} jobs were done within {LIMIT_S:g} s")
        time.sleep(POLL_S)


def _in_threads(count: int, work: Callable[[int], object]) -> None:
    """Each number in a thread of its own; the first error of any is raised."""
    with ThreadPoolExecutor(count) as threads:
        for done in [threads.submit(work, number) for number in range(count)]:
            done.result()
