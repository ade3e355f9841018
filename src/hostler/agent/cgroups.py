"""Memory limits that the kernel enforces: a cgroup (version 2) of its own for each attempt with a limit.

Only where a subtree is delegated to the agent: the cgroup of the agent or the one above it, with the memory controller,
and nobody else's processes in it. Elsewhere there are none, and ``memory`` measures the attempts.
Sources: cgroups(7), proc(5); cgroup-v2.rst of the kernel; the marks of systemd for delegated subtrees.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import AbstractSet, List, Optional

from .node import log
from .waiter import family

CGROUP, WATCHED = "cgroup", "watched"
"""Who limits the memory of attempts: the kernel, in a cgroup of each; or the agent, which measures them."""
CONTROLLER = "memory"
LIMIT = "memory.max"
_LEAF = "hostler-agent-"
_INITIAL_NAMESPACE = 0xEFFFFFFB
_MARKS = ("trusted.delegate", "user.delegate")
_OOM_KILLS = (b"oom_kill ", b"oom_group_kill ")


class Cgroups:
    """The cgroups of one agent's attempts, by the names of these. ``base`` is the folder that they are made in."""

    def __init__(self, agent: str, base: Optional[str]) -> None:
        self._prefix = "hostler-%s-" % agent
        self._base = base
        self._left: List[str] = []

    @property
    def kind(self) -> str:
        """Who limits the memory of attempts here."""
        return WATCHED if self._base is None else CGROUP

    def folder(self, name: str) -> str:
        """The cgroup of an attempt, whether it is there or not; empty where there can be none."""
        return "" if self._base is None else "%s/%s%s" % (self._base, self._prefix, name)

    def make(self, name: str) -> str:
        """A cgroup for an attempt, without a limit yet. Raises OSError."""
        self._remove_left()
        folder = self.folder(name)
        with suppress(FileExistsError):
            _mkdir(folder)
        for setting, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            with suppress(FileNotFoundError):  # no swap is counted here, or the kernel is older
                _write(folder + "/" + setting, value)
        return folder

    def remove(self, folder: str) -> None:
        """Remove a cgroup; where a process that outlived its attempt is in it, at a later call."""
        try:
            _rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            self._left.append(folder)

    def tidy(self, keep: AbstractSet[str]) -> None:
        """Remove what an earlier agent of the same folder left, except the cgroups of these attempts."""
        for entry in [] if self._base is None else os.listdir(self._base):
            if entry.startswith(self._prefix) and entry[len(self._prefix) :] not in keep:
                self.remove("%s/%s" % (self._base, entry))

    def of_process(self, pid: int, name: str) -> str:
        """The cgroup of an attempt that a process is in; empty where it is in none that was made for it."""
        mount = _mount_point()
        path = _path_of(str(pid))
        if mount is None or path is None or os.path.basename(path) != self._prefix + name:
            return ""
        return mount + path

    def _remove_left(self) -> None:
        left, self._left = self._left, []
        for folder in left:
            self.remove(folder)


def own() -> str:
    """The cgroup of this process. Raises OSError."""
    mount, path = _mount_point(), _path_of("self")
    if mount is None or path is None:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), "/proc/self/cgroup")
    return mount + path


def enter(folder: str) -> None:
    """Move this process to a cgroup. Raises OSError."""
    _write(folder + "/cgroup.procs", "0")


def limit(folder: str, most_bytes: int) -> None:
    """Limit the memory of all processes of a cgroup. Raises OSError."""
    _write("%s/%s" % (folder, LIMIT), str(most_bytes))


def is_limited(folder: str) -> bool:
    """Whether a cgroup has a memory limit."""
    return (_read("%s/%s" % (folder, LIMIT)) or b"max").strip() != b"max"


def has_killed(folder: str) -> bool:
    """Whether the kernel has ended processes of a cgroup because they wanted more than its limit."""
    rows = (_read(folder + "/memory.events") or b"").splitlines()
    return any(row.startswith(_OOM_KILLS) and row.split()[1] != b"0" for row in rows)


def peak_bytes(folder: str) -> Optional[int]:
    """The most memory that a cgroup has had; None before Linux 5.19."""
    text = (_read(folder + "/memory.peak") or b"").strip()
    return int(text) if text.isdigit() else None


def kill(folder: str) -> None:
    """Kill all processes of a cgroup, those forked meanwhile included; nothing before Linux 5.14."""
    with suppress(OSError):
        _write(folder + "/cgroup.kill", "1")


def delegated(agent: str) -> Optional[str]:
    """The folder in which this agent may make cgroups with a memory limit; None where there is none.

    The processes of the agent move to a cgroup of their own in it, if they are where no limits can be set beside them.
    """
    mount, path = _mount_point(), _path_of("self")
    if mount is None or path is None:
        return None
    own = mount + path.rstrip("/")
    for base in (own, os.path.dirname(own)) if path != "/" else (own,):
        if not _is_delegated(base, is_top=base == mount):
            continue
        try:
            if _has_controller(base, "cgroup.subtree_control") or _is_enabled(base, base == own, agent):
                return base
        except OSError as error:
            log("attempts cannot have cgroups in %s: %s; their memory is measured" % (base, error.strerror))
    return None


def _is_enabled(base: str, is_own: bool, agent: str) -> bool:
    """Enable the controller for what is in a cgroup, which must have no processes of its own then. Raises OSError."""
    if not _has_controller(base, "cgroup.controllers"):
        return False
    if is_own:
        pids = _pids(base)
        if not pids <= {os.getpid(), os.getppid(), *family}:
            return False
        leaf = "%s/%s%s" % (base, _LEAF, agent)
        with suppress(FileExistsError):
            _mkdir(leaf)
        for pid in pids:
            _write(leaf + "/cgroup.procs", str(pid))
    _write(base + "/cgroup.subtree_control", "+" + CONTROLLER)
    return True


def _is_delegated(base: str, is_top: bool) -> bool:
    """Whether a cgroup is the agent's to divide: not what it may merely write to, as root or as a user of systemd."""
    names = ("", "/cgroup.procs", "/cgroup.subtree_control")
    if not all(os.access(base + name, os.W_OK) for name in names):
        return False
    for mark in _MARKS:
        with suppress(OSError):
            if os.getxattr(base, mark) == b"1":
                return True
    if is_top:  # of a container: all that it sees is its own
        return _is_in_namespace()
    return os.geteuid() != 0 and not os.access(os.path.dirname(base), os.W_OK)


def _is_in_namespace() -> bool:
    try:
        return os.stat("/proc/self/ns/cgroup").st_ino != _INITIAL_NAMESPACE
    except OSError:
        return False


def _has_controller(folder: str, name: str) -> bool:
    return CONTROLLER.encode("ascii") in (_read("%s/%s" % (folder, name)) or b"").split()


def _pids(folder: str) -> AbstractSet[int]:
    return set(map(int, (_read(folder + "/cgroup.procs") or b"").split()))


def _mount_point() -> Optional[str]:
    """Where cgroups of version 2 are mounted, from their root on (proc(5), mountinfo)."""
    for row in (_read("/proc/self/mountinfo") or b"").splitlines():
        before, _, after = row.partition(b" - ")
        fields = before.split()
        if after.startswith(b"cgroup2 ") and len(fields) > 4 and fields[3] == b"/":
            return os.fsdecode(fields[4])
    return None


def _path_of(pid: str) -> Optional[str]:
    """The cgroup of a process, below the mount point (``0::/path``)."""
    for row in (_read("/proc/%s/cgroup" % pid) or b"").splitlines():
        if row.startswith(b"0::/"):
            return os.fsdecode(row[3:])
    return None


def _read(path: str) -> Optional[bytes]:
    try:
        with open(path, "rb") as source:
            return source.read()
    except OSError:
        return None


def _write(path: str, text: str) -> None:
    target = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(target, text.encode("ascii"))
    finally:
        os.close(target)


def _mkdir(folder: str) -> None:
    os.mkdir(folder)


def _rmdir(folder: str) -> None:
    os.rmdir(folder)
