"""What attempts and workers leave running ends with them: which processes those are, found by descent and by marks.

A process whose parent has ended comes to the nearest sub-reaper: the supervisor, or the keeper or a waiter where an
agent has died since. What is found there and was not started by the agent itself was left by work. Whose it is says its
environment, its working directory or its standard streams; where none of them does (it was started with an empty
environment, say), it belongs to what ran when it began. While several did, it is left alone, and a text says so.

Cgroups, where there are any, are ended as a whole before (``memory``).
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import Callable, Dict, List, NamedTuple, Optional, Set

from . import procs, waiter
from .node import HELPER, Node
from .procs import Identity

_STEP_S = 0.05
_LONGEST_S = 10.0
_LOOK_S = 2.0
_NAMED = 3
_MARKS = (b"HOSTLER_ATTEMPT_DIR=", b"HOSTLER_WORKER_DIR=")


class Ended(NamedTuple):
    """Work whose own process has ended. ``start`` is when that began, in clock ticks since boot."""

    name: str
    folder: str
    start: int


class _Found(NamedTuple):
    mine: List[Identity]
    doubtful: List[Identity]


class Leftovers:
    """Of one agent. ``running`` tells what runs now: the folders of attempts and workers, with their processes.

    Where the system does not give orphans to the agent (``takes_orphans``), only their environment tells what was left.
    """

    def __init__(self, node: Node, running: Callable[[], Dict[str, Identity]], takes_orphans: bool = True) -> None:
        self._node = node
        self._takes_orphans = takes_orphans
        self._running = running
        self._told: Set[Identity] = set()
        self._reapers = [*procs.reapers, *waiter.running(node.directory)]

    def end(self, ended: Ended, then: Callable[[bool], None]) -> None:
        """Kill what was left, and call ``then`` once it is gone: with False where something of it cannot be ended."""
        self._end(ended, then, self._node.loop.monotonic() + _LONGEST_S)

    def watch(self, ended: Ended, gone: Callable[[], None]) -> None:
        """Call ``gone`` once nothing is there any more of what could not be ended."""
        if self._kill(ended):
            self._node.later(_LOOK_S, partial(self.watch, ended, gone))
        else:
            gone()

    def _end(self, ended: Ended, then: Callable[[bool], None], until: float) -> None:
        left = self._kill(ended)
        if not left:
            then(True)
        elif self._node.loop.monotonic() < until:
            self._node.later(_STEP_S, partial(self._end, ended, then, until))
        else:
            words = "%s has ended and left processes that cannot be ended: %s; nothing else is started in its place"
            self._node.complain(words % (ended.name, _named(left)) + " until they are gone")
            then(False)

    def _kill(self, ended: Ended) -> List[Identity]:
        """Kill what is there; returns it."""
        found = self._find(ended)
        for identity in found.mine:
            procs.kill(identity)
        fresh = [each for each in found.doubtful if each not in self._told]
        if fresh:
            self._told.update(fresh)
            words = "%s has ended, and %s may be of it or of what runs beside it; it is ended when that is known"
            self._node.complain(words % (ended.name, _named(fresh)))
        return found.mine

    def _find(self, ended: Ended) -> _Found:
        if not self._takes_orphans:
            marked = (procs.carriers(os.fsdecode(mark) + ended.folder) for mark in _MARKS)
            return _Found(_with_descendants([each for found in marked for each in found]), [])
        orphans = self._orphans()
        if not orphans:
            self._told.clear()
            return _Found([], [])
        running = self._running()
        running.pop(ended.folder, None)
        known = {each.pid for each in running.values()}
        mine: List[Identity] = []
        doubtful: List[Identity] = []
        for orphan in orphans:
            if orphan.pid in known:
                continue
            owner = self._owner(orphan.pid)
            if owner == ended.folder:
                mine.append(orphan)
            elif owner == "" and orphan.start >= ended.start:
                rivals = any(each.start <= orphan.start for each in running.values())
                (doubtful if rivals else mine).append(orphan)
        return _Found(_with_descendants(mine), doubtful)

    def _orphans(self) -> List[Identity]:
        """Processes that came to this agent; nothing that it has started, and no zombies."""
        own = {each.pid for each in self._reapers} | procs.spawned
        pids: Set[int] = set()
        for reaper in self._reapers:
            if reaper.pid == os.getpid() or procs.is_running(reaper):
                pids |= procs.children(reaper.pid)
        found = (procs.identity(pid) for pid in sorted(pids - own))
        return [each for each in found if each is not None and procs.is_running(each)]

    def _owner(self, pid: int) -> Optional[str]:
        """The folder of the work that has left a process; empty: it is not known. None: it is the agent's own."""
        environ = procs.environ(pid).split(b"\0")
        if HELPER.encode("ascii") + b"=1" in environ:
            return None
        for value in environ:
            for mark in _MARKS:
                # Not that of another agent, which work of ours may have started.
                if value.startswith(mark) and self._folder_of(os.fsdecode(value[len(mark) :])):
                    return os.fsdecode(value[len(mark) :])
        for link in ("cwd", "fd/1", "fd/2", "fd/0"):
            with suppress(OSError):
                found = self._folder_of(os.readlink("/proc/%d/%s" % (pid, link)))
                if found:
                    return found
        return ""

    def _folder_of(self, path: str) -> str:
        """The folder of an attempt or a worker of this agent that a path is, or leads into; empty: of none."""
        for root in (self._node.path("attempts"), self._node.path("workers")):
            if path.startswith(root + "/"):
                return "%s/%s" % (root, path[len(root) + 1 :].partition("/")[0])
        return ""


def _with_descendants(found: List[Identity]) -> List[Identity]:
    if not found:
        return []
    below: Dict[int, List[Identity]] = {}
    for pid, row in procs.table().items():
        below.setdefault(row.parent, []).append(Identity(pid, row.start))
    reached = dict.fromkeys(found)
    rest = list(found)
    while rest:
        for child in below.get(rest.pop().pid, ()):
            if child not in reached:
                reached[child] = None
                rest.append(child)
    return list(reached)


def _named(found: List[Identity]) -> str:
    words = ["process %d (%s)" % (each.pid, procs.name_of(each.pid) or "?") for each in found[:_NAMED]]
    more = " and %d more" % (len(found) - _NAMED) if len(found) > _NAMED else ""
    return ", ".join(words) + more
