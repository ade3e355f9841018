"""A worker's standard input and output: buffered, and never waited on."""

from __future__ import annotations

import os
from typing import Callable, Dict, List, Optional

from . import procs
from .loop import WRITE, Loop
from .procs import Programs, Streams
from .protocol import MAX_WORKER_LINE_BYTES, LineBuffer, WorkerSpec

_READ_BYTES = 1 << 16


class WorkerPipes:
    """The two pipes of one worker process. ``on_data(bytes)`` gets what it writes; empty bytes are the end of it."""

    def __init__(self, loop: Loop, on_data: Callable[[bytes], None]) -> None:
        self._loop = loop
        self._on_data = on_data
        self._unsent = bytearray()
        self._input: Optional[int] = None
        self._output: Optional[int] = None
        self.lines = LineBuffer(MAX_WORKER_LINE_BYTES)

    @property
    def has_unsent(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._unsent)

    def spawn(self, programs: Programs, spec: WorkerSpec, argv: List[str], env: Dict[str, str], folder: str) -> int:
        """Start the worker by this command and return its pid; call ``close`` in any case.

        Raises SpawnError or OSError.
        """
        theirs_in, self._input = os.pipe()
        self._output, theirs_out = os.pipe()
        try:
            streams = Streams(theirs_in, theirs_out, folder + "/err")
            pid = procs.spawn(programs, argv, env, spec.cwd or folder, streams)
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self._loop.watch(self._output, self._on_output)
        return pid

    def write(self, data: bytes) -> None:
        """Have ``data`` written by the next ``flush``."""
        self._unsent += data

    def flush(self) -> None:
        """Write what the pipe takes now; the loop sees to the rest. A worker that is gone takes nothing."""
        if self._input is None or not self._unsent:
            return
        try:
            del self._unsent[: os.write(self._input, self._unsent)]
        except BlockingIOError:
            pass  # full: the loop tells when it is not
        except BrokenPipeError:
            self._unsent.clear()
        if self._unsent:
            self._loop.watch(self._input, lambda _events: self.flush(), WRITE)
        else:
            self._loop.unwatch(self._input)

    def close_input(self) -> None:
        """End of input: the worker's sign to exit."""
        if self._input is not None:
            self._loop.unwatch(self._input)
            os.close(self._input)
            self._input = None

    def drain(self) -> None:
        """Take what a worker that has ended left in its pipe."""
        while self._output is not None and self._read():
            continue

    def close(self) -> None:
        """Close both pipes."""
        self.close_input()
        self._close_output()

    def _on_output(self, _events: int) -> None:
        self._read()

    def _read(self) -> bool:
        if self._output is None:
            return False
        try:
            data = os.read(self._output, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close_output()
        self._on_data(data)
        return bool(data)

    def _close_output(self) -> None:
        if self._output is not None:
            self._loop.unwatch(self._output)
            os.close(self._output)
            self._output = None
