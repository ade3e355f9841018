"""Proving devices: a short program for each, one after the other, that must end well and in time."""

from __future__ import annotations

import os
import signal
from collections import deque
from contextlib import suppress
from typing import Any, Callable, Deque, Dict, List, Optional

from . import evidence, procs
from .loop import Timer
from .node import Node
from .procs import Identity, SpawnError, Streams
from .protocol import CanarySpec, Json, RequestError, canary_spec, seconds

OWN = "{canary}"
"""First word of a command that stands for the agent's own program."""
_LONGEST_ANSWER = 4096
_LONGEST_OUTPUT = 1 << 20
# Where this package lies, a zipapp or a folder; found out before anybody changes the working directory.
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from hostler.agent.canary import main; sys.exit(main(sys.argv[2:]))"
)


class Canaries:
    """Runs what ``prove`` requests ask for. ``tell`` gets a ``proved`` message for each device."""

    def __init__(self, node: Node, executable: str, tell: Callable[[Json], None]) -> None:
        self._node = node
        self._own = [executable, "-I", "-S", "-c", _START, _ROOT]
        self._tell = tell
        self._queue: Deque[Trial] = deque()
        self._current: Optional[Trial] = None
        self._last: Dict[str, Identity] = {}

    def prove(self, request: Json) -> None:
        """Queue the devices of a request; raises RequestError, and then none of them is proved."""
        listed, patience_s = request.get("devices"), seconds(request.get("patience_s"), "patience_s")
        if type(listed) is not list:
            raise RequestError("prove needs a list of devices")
        for spec in [canary_spec(item) for item in listed]:
            argv = self._own + spec.argv[1:] if spec.argv[0] == OWN else spec.argv
            self._queue.append(Trial(self._node, request.get("id"), spec, argv, patience_s, self._on_end))
        self._next()

    def exited(self, pid: int, info: Any) -> Optional[Callable[[Any], None]]:
        """A child is a zombie. Returns what is to be called once it is reaped; None if it is not the canary at work."""
        trial = self._current
        if trial is None or trial.pid != pid:
            return None
        procs.signal_group(pid, signal.SIGKILL)
        return lambda _usage: trial.exited(info)

    @property
    def is_busy(self) -> bool:
        """Whether a device is being proved, or waits for it."""
        return self._current is not None or bool(self._queue)

    def forget(self) -> None:
        """Nobody waits any more for what is queued; the one at work ends by itself."""
        self._queue.clear()

    def stop(self) -> None:
        """End the one at work, and forget the others."""
        self._queue.clear()
        if self._current is not None:
            self._current.kill()

    def _next(self) -> None:
        while self._current is None and self._queue:
            trial = self._current = self._queue.popleft()
            stuck = self._last.get(trial.spec.device)
            if stuck is not None and procs.is_running(stuck):
                self._on_end(trial, "its last canary hangs in the kernel and cannot be ended; start the machine anew")
            else:
                trial.start()

    def _on_end(self, trial: Trial, why: Optional[str]) -> None:
        self._current = None
        if trial.identity is not None:
            self._last[trial.spec.device] = trial.identity
        self._tell(
            {
                "type": "proved",
                "id": trial.request,
                "device": trial.spec.device,
                "ok": why is None,
                "why": why,
                "seconds": round(trial.seconds(), 3),
                "answer": trial.answer(),
            }
        )
        self._node.later(0.0, self._next)


class Trial:
    """One run of a canary. ``on_end`` is called once, with what was wrong, or None."""

    def __init__(
        self,
        node: Node,
        request: Any,
        spec: CanarySpec,
        argv: List[str],
        patience_s: float,
        on_end: Callable[[Trial, Optional[str]], None],
    ) -> None:
        self.request = request
        self.spec = spec
        self.identity: Optional[Identity] = None
        self._node = node
        self._argv = argv
        self._patience_s = patience_s
        self._on_end = on_end
        self._errors = node.path("canary.err")
        self._began = node.loop.monotonic()
        self._output = -1
        self._said = b""
        self._status: Optional[int] = None
        self._timer: Optional[Timer] = None

    @property
    def pid(self) -> Optional[int]:
        """Of its process, if there is one."""
        return None if self.identity is None else self.identity.pid

    def start(self) -> None:
        """Run it; it may have failed by the time this returns."""
        self._began = self._node.loop.monotonic()
        with suppress(FileNotFoundError):
            os.unlink(self._errors)
        self._output, theirs = os.pipe()
        try:
            streams = Streams(self._node.null, theirs, self._errors)
            env = self._node.merged_env(self.spec.env)
            pid = procs.spawn(self._node.programs, self._argv, env, "/", streams)
        except SpawnError as error:
            self._finish(str(error))
            return
        finally:
            os.close(theirs)
        self.identity = Identity(pid, procs.start_time(pid) or 0)
        self._timer = self._node.loop.call_later(self._patience_s, self._give_up)
        self._node.loop.watch(self._output, self._on_output)

    def exited(self, info: Any) -> None:
        """Its process has ended; what it said may still be on its way."""
        code, number = procs.exit_status(info)
        self._status = -number if number is not None else code
        self._finish_if_over()

    def kill(self) -> None:
        """End it and everything that it started."""
        if self.pid is not None:
            procs.signal_group(self.pid, signal.SIGKILL)

    def seconds(self) -> float:
        """How long it has run."""
        return self._node.loop.monotonic() - self._began

    def answer(self) -> Optional[str]:
        """The last line it said; None if there is none."""
        lines = self._said.decode("utf-8", "replace").rstrip().splitlines()
        return lines[-1][-_LONGEST_ANSWER:] if lines else None

    def _on_output(self, _events: int) -> None:
        data = os.read(self._output, 1 << 16)
        self._said = (self._said + data)[-_LONGEST_OUTPUT:]
        if not data:
            self._close()
            self._finish_if_over()

    def _give_up(self) -> None:
        self.kill()
        self._finish("it did not end within %g s, and was killed: the device hangs" % self._patience_s)

    def _finish_if_over(self) -> None:
        if self._output >= 0 or self._status is None:
            return
        if self._status == 0:
            self._finish(None)
            return
        words = evidence.last_words(self._errors)
        self._finish(words.splitlines()[-1] if words else "it %s and said nothing" % self._how())

    def _how(self) -> str:
        status = self._status or 0
        return "was ended by signal %d" % -status if status < 0 else "ended with status %d" % status

    def _finish(self, why: Optional[str]) -> None:
        self._close()
        if self._timer is not None:
            self._timer.cancel()
        self._on_end(self, why)

    def _close(self) -> None:
        if self._output >= 0:
            self._node.loop.unwatch(self._output)
            os.close(self._output)
            self._output = -1
