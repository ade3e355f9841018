"""Work that may take its time, in threads; what comes of it is dealt with by the loop."""

from __future__ import annotations

import os
import queue
import threading
import traceback
from typing import Callable, Tuple

from .loop import Loop
from .node import log
from .protocol import Json, RequestError

Work = Callable[[], Json]
Done = Callable[[Json], None]


class Errands:
    """At most ``threads`` of them at a time; the others wait their turn."""

    def __init__(self, loop: Loop, threads: int) -> None:
        self._threads = threads
        self._started = 0
        self._waiting: queue.Queue[Tuple[Work, Done]] = queue.Queue()
        self._finished: queue.Queue[Tuple[Done, Json]] = queue.Queue()
        reader, self._bell = os.pipe()
        os.set_blocking(reader, False)
        loop.watch(reader, lambda _events: self._on_bell(reader))

    def do(self, work: Work, done: Done) -> None:
        """Have it done in a thread; ``done`` is called by the loop with its answer, or with an ``error``."""
        self._waiting.put((work, done))
        if self._started < self._threads:
            self._started += 1
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            work, done = self._waiting.get()
            self._finished.put((done, answer_of(work)))
            os.write(self._bell, b".")

    def _on_bell(self, reader: int) -> None:
        for _ in os.read(reader, 4096):
            done, answer = self._finished.get()
            done(answer)


def answer_of(work: Work) -> Json:
    """What comes of it: an ``error`` in words, if it cannot be done."""
    try:
        return work()
    except OSError as error:
        what = "" if error.filename is None else "%.300r: " % error.filename
        return {"error": what + (error.strerror or str(error))}
    except (RequestError, ValueError) as error:  # as of a name that this system's encoding does not have
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - one request must not end the others; it is told and logged
        log("a request failed: %s" % traceback.format_exc())
        return {"error": "it failed: %r" % error}
