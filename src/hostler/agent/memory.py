"""Memory limits: by the kernel in a cgroup of each attempt where there can be one (``cgroups``), else by measuring.

What is measured, twice a second, is the resident memory of all processes of an attempt. The address space is not
limited: CUDA and PyTorch reserve many times the memory that they use.
Formats: proc(5), /proc/PID/stat, statm, smaps_rollup.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import AbstractSet, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional

from . import cgroups, procs
from .cgroups import Cgroups
from .node import Node

_LOOK_EVERY_S = 0.5
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_GIB = 2.0**30


class _Limited(NamedTuple):
    mark: bytes
    pid: int
    limit: int


class MemoryLimits:
    """The attempts that have a limit. ``exceeded(name, why)`` is called once for one that takes more."""

    def __init__(self, node: Node, exceeded: Callable[[str, str], None]) -> None:
        self._node = node
        self._exceeded = exceeded
        self._cgroups = Cgroups(node.agent, cgroups.delegated(node.agent))
        self._folders: Dict[str, str] = {}
        self._limited: Dict[str, _Limited] = {}
        self._marks: Dict[procs.Identity, bytes] = {}
        self._has_timer = False

    @property
    def kind(self) -> str:
        """Who limits memory here: ``cgroup`` or ``watched``."""
        return self._cgroups.kind

    def restore(self, names: AbstractSet[str]) -> None:
        """Find the cgroups of these attempts, which an earlier agent has made; remove those of all others."""
        self._cgroups.tidy(names)
        made = {name: self._cgroups.folder(name) for name in names}
        self._folders.update({name: folder for name, folder in made.items() if folder and os.path.isdir(folder)})

    @contextmanager
    def room(self, name: str, limit: Optional[int]) -> Iterator[None]:
        """Have what is started meanwhile begin in the cgroup of this attempt, if it has a limit."""
        folder = self.prepare(name) if limit is not None else ""
        if not folder or limit is None:
            yield
            return
        try:
            home = cgroups.own()
            cgroups.enter(folder)
        except OSError as error:
            self._measure(name, error)
            yield
            return
        try:
            yield
        finally:
            self._leave(folder, home, limit)

    def prepare(self, name: str, limit: Optional[int] = None) -> str:
        """Make the cgroup of an attempt; empty where there can be none, and its memory is measured."""
        if self._cgroups.kind == cgroups.WATCHED:
            return ""
        try:
            folder = self._folders[name] = self._cgroups.make(name)
            if limit is not None:
                cgroups.limit(folder, limit)
        except OSError as error:
            self._measure(name, error)
            return ""
        return folder

    def begin(self, name: str, mark: str, pid: int, limit: int) -> None:
        """Limit an attempt whose first process is ``pid``; all its processes carry ``mark``, a ``NAME=value``.

        One that is not in its cgroup is measured: there can be none, or it is being set up and will enter it later.
        """
        folder = self._cgroups.of_process(pid, name)
        if folder and cgroups.is_limited(folder):
            self._folders[name] = folder
            return
        self._limited[name] = _Limited(os.fsencode(mark), pid, limit)
        self._look_later()

    def verdict(self, name: str, limit: int) -> Optional[str]:
        """Why the kernel has ended processes of an attempt, if that was for its limit."""
        folder = self._folders.get(name)
        if folder is None or not cgroups.has_killed(folder):
            return None
        took = min(cgroups.peak_bytes(folder) or limit, limit)
        return "its processes took %.2f GiB of memory and wanted more than its %.2f GiB" % (took / _GIB, limit / _GIB)

    def kill(self, name: str) -> None:
        """Kill all processes in the cgroup of an attempt, if it has one."""
        if name in self._folders:
            cgroups.kill(self._folders[name])

    def forget(self, name: str) -> None:
        """Limit an attempt no more."""
        self._limited.pop(name, None)
        folder = self._folders.pop(name, None)
        if folder is not None:
            self._cgroups.remove(folder)

    def _leave(self, folder: str, home: str, limit: int) -> None:
        """Leave the cgroup of an attempt, and only then limit it: this process could be ended there."""
        try:
            cgroups.enter(home)
            cgroups.limit(folder, limit)
        except OSError as error:
            self._node.complain("the memory of an attempt is measured: its cgroup gets no limit: %s" % error)

    def _measure(self, name: str, error: OSError) -> None:
        self._node.complain("the memory of an attempt is measured: it can have no cgroup: %s" % error)
        self.forget(name)

    def _look_later(self) -> None:
        if not self._has_timer:
            self._has_timer = True
            self._node.later(_LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        self._has_timer = False
        if not self._limited:
            self._marks.clear()
            return
        processes = self._processes()
        for name, limited in list(self._limited.items()):
            used = memory_bytes(processes[limited.mark], limited.limit)
            if used > limited.limit:
                del self._limited[name]
                took, most = used / _GIB, limited.limit / _GIB
                self._exceeded(name, "its processes took %.2f GiB of memory, more than its %.2f GiB" % (took, most))
        self._look_later()

    def _processes(self) -> Dict[bytes, List[int]]:
        """The processes of each limited attempt: those of its session, and all that carry its mark."""
        table = procs.table()
        by_leader = {limited.pid: limited.mark for limited in self._limited.values()}
        known = {limited.mark for limited in self._limited.values()}
        found: Dict[bytes, List[int]] = {mark: [] for mark in known}
        marks: Dict[procs.Identity, bytes] = {}
        for pid, row in table.items():
            identity = procs.Identity(pid, row.start)
            mark = self._marks.get(identity)
            if mark is None:
                mark = by_leader.get(row.session) or by_leader.get(pid) or procs.mark_of(pid, known)
            marks[identity] = mark
            if mark in found:
                found[mark].append(pid)
        self._marks = marks
        return found


def memory_bytes(pids: Iterable[int], enough: int) -> int:
    """The memory of processes, with pages that they share counted once.

    Resident sizes count shared pages in each process, so their sum is at least as much: up to ``enough`` it is the
    answer, and beyond it the kernel is asked for proportional sizes, which costs more.
    """
    pids = list(pids)
    most = sum(_resident(pid) for pid in pids)
    return most if most <= enough else sum(_proportional(pid) for pid in pids)


def _resident(pid: int) -> int:
    fields = _words("/proc/%d/statm" % pid)
    return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else 0


def _proportional(pid: int) -> int:
    """The proportional set size; where the kernel does not tell it (before Linux 4.14), what is not shared."""
    words = _words("/proc/%d/smaps_rollup" % pid)
    if b"Pss:" in words:
        return int(words[words.index(b"Pss:") + 1]) * 1024
    fields = _words("/proc/%d/statm" % pid)
    return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES if len(fields) > 2 else 0


def _words(path: str) -> List[bytes]:
    """Nothing of a process that is gone."""
    try:
        with open(path, "rb") as source:
            return source.read().split()
    except OSError:
        return []
