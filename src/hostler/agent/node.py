"""What the parts of the supervisor share: the loop, the journal, the facts, the folder, and the places."""

from __future__ import annotations

import os
import sys
from typing import Callable, Dict, List, Optional, Set

from . import procs
from .doubts import Doubts
from .facts import Facts
from .journal import Journal
from .loop import Loop
from .places import Place
from .protocol import Json, encode
from .state import State
from .visible import Visible

HELPER = "HOSTLER_HELPER"
"""A variable of the agent's own programs; no attempt and no worker has it."""
_RESERVED = ("HOSTLER_ATTEMPT", "HOSTLER_ATTEMPT_DIR", "HOSTLER_RESULT", "HOSTLER_WORKER", "HOSTLER_WORKER_DIR")


class Node:
    """The shared part. Whoever changes what a place can do next calls ``touch``; the supervisor does the rest."""

    def __init__(
        self,
        directory: str,
        loop: Loop,
        journal: Journal,
        state: State,
        doubts: Optional[Doubts] = None,
        visible: Optional[Visible] = None,
    ) -> None:
        self.directory = directory
        self.agent = state.agent or ""
        self.loop = loop
        self.journal = journal
        self.facts = Facts(journal, state)
        self.environ = {key: value for key, value in os.environ.items() if key not in _RESERVED}
        self.environ[HELPER] = "1"
        self.null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.programs = procs.Programs()
        self.doubts = doubts or Doubts()
        self.visible = visible or Visible()
        self._oom_kills: Optional[int] = None
        self.places: Dict[str, Place] = {}
        self.touched: Set[Place] = set()
        self.complaints: List[str] = []
        if state.damaged:
            log("%d lines of the journal could not be understood and are passed over" % state.damaged)
        self._last_complaint: Optional[str] = None

    def record(self, entry: Json) -> None:
        """Put an entry that is no fact into the journal's buffer."""
        self.journal.append(encode(entry))

    def place(self, queue: str) -> Place:
        """The place of that name, made if need be."""
        place = self.places.get(queue)
        if place is None:
            place = self.places[queue] = Place(queue)
        return place

    def touch(self, place: Place) -> None:
        """Look at this place again before the next wait."""
        self.touched.add(place)

    def complain(self, problem: str) -> None:
        """Tell the log and the controller of something wrong that no request asked for; not twice in a row."""
        if problem != self._last_complaint:
            self._last_complaint = problem
            self.complaints.append(problem)
            log(problem)

    def path(self, *parts: str) -> str:
        """An absolute path under the agent's folder."""
        return "/".join((self.directory, *parts))

    def merged_env(self, over: Dict[str, Optional[str]]) -> Dict[str, str]:
        """The agent's own environment with ``over`` laid on it; None takes a variable away."""
        env = dict(self.environ)
        for key, value in over.items():
            if value is None:
                env.pop(key, None)
            else:
                env[key] = value
        self.visible.bind(env, over)
        return env

    def note_oom_kills(self) -> None:
        """Take the kernel's counter of processes killed for want of memory as the past."""
        self._oom_kills = procs.oom_kills()

    def has_new_oom_kill(self) -> bool:
        """Whether the kernel has killed a process of this machine for want of memory since the last note."""
        now = procs.oom_kills()
        return now is not None and self._oom_kills is not None and now > self._oom_kills

    def later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Call ``callback`` after ``delay_s`` seconds, come what may."""
        self.loop.call_later(delay_s, callback)


def log(message: str) -> None:
    """One line into the agent's log, which is its standard error; a disk that is full must not end the agent."""
    try:
        sys.stderr.write("hostler agent %d: %s\n" % (os.getpid(), message))
        sys.stderr.flush()
    except OSError:  # and nowhere else to say so
        return
