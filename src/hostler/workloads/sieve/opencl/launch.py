"""A program on a device: built, fed with a table, launched over intervals that take a fraction of a second."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.opencl.devices import Device, DeviceFailed
from hostler.workloads.sieve.opencl.source import Program
from hostler.workloads.sieve.opencl.table import Table
from hostler.workloads.sieve.opencl.tuning import Setting

ROOM = 4096
LAUNCH_S = 0.3
FIRST_LAUNCH_S = 0.01
"""What the first launch of a finder should take by what the device is guessed, or was measured, to do."""

MOST_LAUNCHED = 1 << 31
GROWTH = 4.0
POLL_S = 0.0005

Clock = Callable[[], float]
Ranges = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Rows:
    """A table as it lies on the device, and its numbers: blank rows and others, missing outputs, picks, skips, gaps."""

    buffer: Any
    blanks: int
    count: int
    missing: int
    kept: int
    ranges: Ranges


@cache
def _context(handle: Any) -> Any:
    """The one context of a device in this process: GPUs and PoCL take long, and memory, for each."""
    import pyopencl

    return pyopencl.Context([handle])


class Launcher:
    """One program on one device, for one thread."""

    def __init__(self, device: Device, program: Program, clock: Clock = time.perf_counter) -> None:
        import pyopencl

        self._cl, self._device, self._shape, self._clock = pyopencl, device, program.table.shape, clock
        with self._failing("cannot build or start the program"):
            self._context = _context(device.handle)
            self._queue = pyopencl.CommandQueue(self._context)
            self._kernel = pyopencl.Kernel(self._built(program.source), "search")
            self._hits: npt.NDArray[np.uint32] = np.zeros(ROOM + 1, np.uint32)
            self._buffer = pyopencl.Buffer(self._context, pyopencl.mem_flags.READ_WRITE, self._hits.nbytes)
            self.most_local: int = self._kernel.get_work_group_info(
                pyopencl.kernel_work_group_info.WORK_GROUP_SIZE, device.handle
            )

    def rows(self, table: Table, ranges: Ranges, numbers: list[list[int]] | None = None) -> Rows:
        """A table for :meth:`launch`; with other rows than its own if ``numbers`` are given."""
        cl, kind = self._cl, np.uint32 if self._shape.v_bits == 32 else np.uint64
        blanks, lines = len(table.blank), table.rows() if numbers is None else numbers
        flat = np.array(lines, kind)
        with self._failing("cannot keep a table"):
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            buffer = cl.Buffer(self._context, flags, hostbuf=flat)
        return Rows(buffer, blanks, len(lines) - blanks, table.shape.missing, table.kept, ranges)

    def launch(self, rows: Rows, start: int, count: int, setting: Setting) -> tuple[int, list[int]]:
        """How many candidates ``[start, start + count)`` has, and up to :data:`ROOM` of them, ascending.

        The interval lies between two multiples of 2^64 and has at most 2^31 items.
        """
        groups = -(-count // (setting.local * setting.each))
        low, high = np.uint64(start & (1 << 64) - 1), np.uint64(start >> 64)
        arguments = (low, high, np.uint32(count), rows.buffer, *self._lie(rows))
        with self._failing(f"failed while it searched [{start}, {start + count})"):
            self._cl.enqueue_fill_buffer(self._queue, self._buffer, np.zeros(1, np.uint32), 0, 4)
            shape = (groups * setting.local,), (setting.local,)
            self._wait(self._kernel(self._queue, *shape, *arguments, self._buffer, np.uint32(ROOM)))
            self._cl.enqueue_copy(self._queue, self._hits, self._buffer)
        found = int(self._hits[0])
        return found, sorted(start + int(distance) for distance in self._hits[1 : 1 + min(found, ROOM)])

    def timed(self, rows: Rows, start: int, setting: Setting, count: int) -> float:
        """Seconds that a launch takes."""
        began = self._clock()
        self.launch(rows, start, count, setting)
        return self._clock() - began

    def _built(self, source: str) -> Any:
        with warnings.catch_warnings():
            # What a compiler has to say of a program that it takes is no concern of the user's.
            warnings.simplefilter("ignore")
            return self._cl.Program(self._context, source).build("-cl-std=CL1.2")

    def _lie(self, rows: Rows) -> tuple[Any, Any]:
        types = self._cl.cltypes
        return types.make_uint4(rows.blanks, rows.count, rows.missing, rows.kept), types.make_uint4(*rows.ranges)

    def _wait(self, event: Any) -> None:
        """Wait without keeping a core busy, as some drivers do."""
        self._queue.flush()
        while event.command_execution_status > self._cl.command_execution_status.COMPLETE:
            time.sleep(POLL_S)
        event.wait()

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._cl.Error as error:
            said = " ".join(str(error).split())[:1000]
            raise DeviceFailed(f"{self._device}: {what}: {said}; the device or its driver may be broken") from error


class Launches(Protocol):
    """What a sweep needs of a :class:`Launcher`."""

    def launch(self, rows: Rows, start: int, count: int, setting: Setting) -> tuple[int, list[int]]: ...


class Sweep:
    """Launches over an interval, one after the other, which grow until they take about :data:`LAUNCH_S`.

    ``items_per_s`` is a guess, by which the first launch is a small one.
    """

    def __init__(self, launcher: Launches, rows: Rows, setting: Setting, items_per_s: float, clock: Clock) -> None:
        self._launcher, self._rows, self._setting, self._clock = launcher, rows, setting, clock
        self._size = max(1.0, min(items_per_s * FIRST_LAUNCH_S, MOST_LAUNCHED))

    def find(self, start: int, stop: int) -> list[int]:
        """The candidates of ``[start, stop)``, ascending; raises :class:`TooManyHits` beyond :data:`ROOM`."""
        found: list[int] = []
        at = start
        while at < stop:
            count = min(stop - at, int(self._size), (1 << 64) - (at & (1 << 64) - 1))
            began = self._clock()
            number, more = self._launcher.launch(self._rows, at, count, self._setting)
            self._learn(count, self._clock() - began)
            found += more
            at += count
            if number > ROOM or len(found) > ROOM:
                raise TooManyHits(f"more than {ROOM} items in [{start}, {at}) fit the draws; give more known draws")
        return found

    def _learn(self, count: int, seconds: float) -> None:
        if count < int(self._size) and seconds < LAUNCH_S:
            return
        factor = LAUNCH_S / max(seconds, LAUNCH_S / GROWTH)
        self._size = max(1.0, min(count * max(factor, 1 / GROWTH), MOST_LAUNCHED))
