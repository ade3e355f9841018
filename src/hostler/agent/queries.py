"""Asking another program without waiting for it: it answers on its standard output, or is ended for being slow."""

from __future__ import annotations

import os
import shutil
from functools import partial
from typing import Callable, List, Optional

from . import procs
from .loop import Timer
from .node import Node
from .procs import Identity, SpawnError, Streams

_LONGEST_ANSWER = 1 << 20


def is_installed(node: Node, program: str) -> bool:
    """Whether the agent's PATH has such a program."""
    return shutil.which(program, path=node.environ.get("PATH")) is not None


class Query:
    """One question. After ``start``, ``on_answer`` gets all that the program said; None if there is none, and why.

    A program that is too slow, or says too much, is killed with its whole process group.
    """

    def __init__(
        self, node: Node, argv: List[str], patience_s: float, on_answer: Callable[[Optional[str]], None]
    ) -> None:
        self._node = node
        self._argv = argv
        self._patience_s = patience_s
        self._on_answer = on_answer
        self.problem: Optional[str] = None
        self._answer = b""
        self._output = -1
        self._process: Optional[Identity] = None
        self._timer: Optional[Timer] = None

    def start(self) -> None:
        """Ask. The answer may come before this returns: where the program cannot be started."""
        self._output, theirs = os.pipe()
        try:
            streams = Streams(self._node.null, theirs, os.devnull)
            pid = procs.spawn(self._node.programs, self._argv, self._node.environ, "/", streams)
        except SpawnError as error:
            self.problem = str(error)
            self._finish(None)
            return
        finally:
            os.close(theirs)
        self._process = Identity(pid, procs.start_time(pid) or 0)
        slow = "gave no answer within %g s and was killed" % self._patience_s
        self._timer = self._node.loop.call_later(self._patience_s, partial(self._give_up, slow))
        self._node.loop.watch(self._output, self._on_output)

    def is_running(self) -> bool:
        """Whether its process is still there, which one that hangs in the kernel is even after it was killed."""
        return self._process is not None and procs.is_running(self._process)

    def stop(self) -> None:
        """End its process; there may be no answer any more."""
        if self._process is not None and self.is_running():
            procs.signal_group(self._process.pid, 9)

    def _on_output(self, _events: int) -> None:
        data = os.read(self._output, 1 << 16)
        self._answer += data
        if not data:
            self._finish(self._answer.decode("utf-8", "replace"))
        elif len(self._answer) > _LONGEST_ANSWER:
            self._give_up("gave more than %d bytes and was killed" % _LONGEST_ANSWER)

    def _give_up(self, why: str) -> None:
        self.problem = why
        self.stop()
        self._finish(None)

    def _finish(self, answer: Optional[str]) -> None:
        self._node.loop.unwatch(self._output)
        os.close(self._output)
        if self._timer is not None:
            self._timer.cancel()
        self._on_answer(answer)
