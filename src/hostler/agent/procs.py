"""Processes: identity, spawning, and ending whole trees. Formats: proc(5), prctl(2), posix_spawn(3)."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from contextlib import suppress
from typing import Any, Collection, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

from . import scripts

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
LOG_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_KILL_PASSES = 5
PERMANENT = frozenset(
    (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
)


class SpawnError(Exception):
    """A program could not be started; the message says which and why.

    ``permanent``: it never will be on this node as it is, because the program, the script or the folder is not there
    or may not be used. ``own``: it is a part of the job's own folder, the same on every node. ``refused``: no node
    can, because no process can have such arguments or variables.
    """

    def __init__(self, message: str, permanent: bool = False, refused: bool = False, own: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.refused = refused
        self.own = own


class Identity(NamedTuple):
    """A process for good: a pid may be used again, but not with the same start time in the same boot."""

    pid: int
    start: int


class Streams(NamedTuple):
    """What becomes of descriptors 0, 1 and 2: an open descriptor, or the path of a file to append to."""

    stdin: int
    out: Union[int, str]
    err: str


reapers: List[Identity] = []
"""This process and those that it was forked from, as far as orphans come to them."""
spawned: Set[int] = set()
"""Children of this process that were started by `spawn` and are not reaped: no orphans."""


def boot_id() -> str:
    """The kernel's id of this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as source:
        return source.read().strip()


def start_time(pid: int) -> Optional[int]:
    """When a process started, in clock ticks since boot (also of a zombie); None when there is none."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def is_running(identity: Identity) -> bool:
    """Whether this very process still runs; a zombie does not."""
    fields = _stat(identity.pid)
    return fields is not None and int(fields[19]) == identity.start and fields[0] not in (b"Z", b"X")


def belongs_to(pid: int, directory: str) -> Optional[bool]:
    """Whether a process is this one's descendant, or carries a file of ``directory`` in its environment.

    None where there is no such process to be seen: it may live in another pid namespace.
    """
    if _parent(pid) is None:
        return None
    if b"=" + os.fsencode(directory) + b"/" in environ(pid):
        return True
    ancestor: Optional[int] = pid
    while ancestor is not None and ancestor > 1 and ancestor != os.getpid():
        ancestor = _parent(ancestor)
    return ancestor == os.getpid()


class Row(NamedTuple):
    """What the table of processes has of one."""

    session: int
    start: int
    parent: int


def table() -> Dict[int, Row]:
    """All processes that can be seen, zombies aside, by pid."""
    found = {}
    for pid in _pids():
        fields = _stat(pid)
        if fields is not None and len(fields) > 19 and fields[0] not in (b"Z", b"X"):
            found[pid] = Row(int(fields[3]), int(fields[19]), int(fields[1]))
    return found


def mark_of(pid: int, marks: Collection[bytes]) -> bytes:
    """Which of these ``NAME=value`` the environment of a process has; empty if none."""
    return next((each for each in environ(pid).split(b"\0") if each in marks), b"")


def variable_of(pid: int, name: str) -> Optional[str]:
    """What a variable is set to in the environment of a process; None if it is not, or cannot be read."""
    start = os.fsencode(name) + b"="
    found = (each[len(start) :] for each in environ(pid).split(b"\0") if each.startswith(start))
    return next(map(os.fsdecode, found), None)


def become_subreaper() -> bool:
    """Orphaned descendants come to this process from now on, not to init; False where the system has no such thing."""
    try:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")
    except (OSError, AttributeError):  # another system than Linux, or a sandbox that forbids it
        return False
    reapers.append(Identity(os.getpid(), start_time(os.getpid()) or 0))
    return True


def children(pid: int) -> Set[int]:
    """The children of a process, zombies included (proc(5)); of its threads, too."""
    found: Set[int] = set()
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, thread), "rb") as source:
                found.update(map(int, source.read().split()))
    except FileNotFoundError:  # the kernel does not tell, or the process is gone
        return {child for child, row in table().items() if row.parent == pid}
    except OSError:
        return set()
    return found


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """This process is sent a signal when its parent ends, and at once if that is not this one any more."""
    _prctl(_PR_SET_PDEATHSIG, number, "PR_SET_PDEATHSIG")
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def keep_descriptors_private() -> None:
    """Whatever descriptors this process was started with, its children do not get them (0, 1 and 2 aside)."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2:
                os.set_inheritable(int(name), False)
        except OSError as error:
            if error.errno != errno.EBADF:  # the descriptor that listed the folder is gone by now
                raise


class Programs:
    """Finds programs in a PATH, and remembers where until ``forget``: a search costs more than all else of a start."""

    def __init__(self) -> None:
        self._found: Dict[Tuple[str, str], str] = {}

    def find(self, name: str, path: str) -> str:
        """The file to execute for ``name``; one with a slash is its own. Raises SpawnError."""
        if "/" in name:
            return name
        known = self._found.get((name, path))
        if known is not None:
            return known
        program = _search(name, path)
        if program.startswith("/"):
            self._found[name, path] = program
        return program

    def forget(self) -> None:
        """Search anew from now on."""
        self._found.clear()


def spawn(
    programs: Programs,
    argv: List[str],
    env: Dict[str, str],
    cwd: str,
    streams: Streams,
) -> int:
    """Start a program in a session of its own and return its pid.

    ``cwd`` is absolute; ``argv[0]`` without a slash is looked for in the PATH of ``env``. The child has default
    signal handling, an empty signal mask, and no descriptor but 0, 1 and 2. The caller's working directory moves to
    ``cwd``: changing it here, before the spawn, is what lets the C library start the child without a fork.
    Raises SpawnError.
    """
    what = "cannot enter the working directory %.200r: %s"
    subject = cwd
    try:
        os.chdir(cwd)
        what, subject = "cannot start %.200r: %s", argv[0]
        program = programs.find(argv[0], env.get("PATH", os.defpath))
        pid = _posix_spawn(program, argv, env, streams)
        spawned.add(pid)
        return pid
    except OSError as error:
        programs.forget()
        # The system says the same of an output that cannot be opened.
        permanent = error.errno in PERMANENT and os.path.isdir(os.path.dirname(streams.err))
        raise SpawnError(what % (subject, error.strerror), permanent, error.errno == errno.E2BIG) from None
    except ValueError as error:  # text that is no file-system text, as a lone surrogate
        raise SpawnError(what % (subject, error), refused=True) from None


def expect_script(argv: List[str], cwd: str, path: Optional[str]) -> None:
    """Raise SpawnError where a program of the folder, or the script that an interpreter is given, cannot be run.

    ``path`` is the PATH of the process, None where that is not known yet. A folder that is not there is left to the
    start itself.
    """
    if not argv or not os.path.isdir(cwd) or any("\0" in word for word in argv):
        return
    if "/" in argv[0]:
        _expect_program(argv[0], cwd, path)
    script = scripts.script_of(argv)
    if script is None:
        return
    found, why = os.path.join(cwd, script), None
    if not os.path.lexists(found):
        is_elsewhere = scripts.is_searched(argv, script) and _is_in(path, script)
        why = None if is_elsewhere else "there is no file %.200r in %.200s"
    elif os.path.isdir(found) and not scripts.takes_folders(argv):
        why = "%.200r in %.200s is a folder"
    elif not os.access(found, os.R_OK):
        why = "%.200r in %.200s cannot be read"
    if why is not None:
        raise SpawnError(why % (script, cwd), permanent=True, own=not os.path.isabs(script))


def _expect_program(program: str, cwd: str, path: Optional[str]) -> None:
    """Raise SpawnError where a program that is named by its path is not there, or what is to interpret it is not."""
    own, found = not os.path.isabs(program), os.path.join(cwd, program)
    if own and not os.path.lexists(found):
        raise SpawnError("there is no program %.200r in %.200s" % (program, cwd), permanent=True, own=True)
    if own and not (os.path.isfile(found) and os.access(found, os.X_OK)):
        raise SpawnError("%.200r in %.200s cannot be executed" % (program, cwd), permanent=True, own=True)
    for wanted in scripts.wanted_by(found):
        if not (os.path.exists(os.path.join(cwd, wanted)) if "/" in wanted else _is_in(path, wanted)):
            why = "cannot start %.200r: its first line names %.200r, which is not here" % (program, wanted)
            raise SpawnError(why, permanent=True)


def _is_in(path: Optional[str], name: str) -> bool:
    """Whether one of the folders of a PATH has such a file; as far as is known, if the PATH is not."""
    return path is None or any(os.path.isfile((folder or ".") + "/" + name) for folder in path.split(":"))


def signal_group(leader: int, number: int) -> None:
    """Send a signal to a process group; a group that is gone is no error."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return


def carriers(variable: str) -> List[Identity]:
    """The running processes with this ``NAME=value`` in their environment, oldest first.

    Reads the whole of /proc: for ends by force only.
    """
    needle = b"\0" + os.fsencode(variable) + b"\0"
    found = [identity(pid) for pid in _pids() if needle in b"\0" + environ(pid)]
    return sorted((item for item in found if item is not None), key=lambda item: (item.start, item.pid))


def values_of(name: str) -> Set[str]:
    """What a variable is set to in the environments of all processes. Reads the whole of /proc."""
    mark = os.fsencode(name) + b"="
    return {
        os.fsdecode(each[len(mark) :]) for pid in _pids() for each in environ(pid).split(b"\0") if each.startswith(mark)
    }


def session_leader(variable: str) -> Optional[Identity]:
    """The process that was spawned with this ``NAME=value``: its carrier that leads a session."""
    for each in carriers(variable):
        fields = _stat(each.pid)
        if fields is not None and int(fields[3]) == each.pid:
            return each
    return None


def kill_tree(variable: str, group: Optional[int] = None, spared: Optional[int] = None) -> None:
    """Kill a process group and every process that carries ``NAME=value``, those forked meanwhile included.

    The process ``spared`` stays.
    """
    for _ in range(_KILL_PASSES):
        if group is not None:
            signal_group(group, signal.SIGKILL)
        found = [each for each in carriers(variable) if each.pid != spared]
        if not found:
            return
        for each in found:
            kill(each)


def exit_status(info: Any) -> Tuple[Optional[int], Optional[int]]:
    """``(exit_code, signal)`` of what waitid(2) found; one of the two is None."""
    if info.si_code == os.CLD_EXITED:
        return info.si_status, None
    return None, info.si_status


def oom_kills() -> Optional[int]:
    """How often the kernel has killed a process for want of memory since boot (proc(5), vmstat); None if unknown."""
    try:
        with open("/proc/vmstat", "rb") as source:
            for row in source:
                if row.startswith(b"oom_kill "):
                    return int(row.split()[1])
    except OSError:
        return None
    return None


def _prctl(option: int, value: int, name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(%s): %s" % (name, os.strerror(ctypes.get_errno())))


def _stat(pid: int) -> Optional[List[bytes]]:
    """The fields of /proc/PID/stat from the state (its third) on; the name before may hold anything."""
    try:
        fd = os.open("/proc/%d/stat" % pid, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, 2048).rpartition(b")")[2].split()
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)


def _parent(pid: int) -> Optional[int]:
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def _search(name: str, path: str) -> str:
    for folder in path.split(":"):
        candidate = (folder or ".") + "/" + name
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    raise SpawnError("cannot start %r: no such program in PATH %s" % (name[:200], path), permanent=True)


def _posix_spawn(program: str, argv: List[str], env: Dict[str, str], streams: Streams) -> int:
    return os.posix_spawn(
        program,
        argv,
        env,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, streams.stdin, 0),
            _redirect(streams.out, 1),
            _redirect(streams.err, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=_SIGNALS,
    )


def _redirect(target: Union[int, str], fd: int) -> Tuple[Any, ...]:
    if isinstance(target, int):
        return os.POSIX_SPAWN_DUP2, target, fd
    return os.POSIX_SPAWN_OPEN, fd, target, LOG_FLAGS, 0o600


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def environ(pid: int) -> bytes:
    """The environment of a process as it was at its start; empty where it cannot be read."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as source:
            return source.read()
    except OSError:  # gone, a zombie, or another user's: not ours to end
        return b""


def identity(pid: int) -> Optional[Identity]:
    """A process by its pid; None if there is none."""
    start = start_time(pid)
    return None if start is None else Identity(pid, start)


def name_of(pid: int) -> Optional[str]:
    """What the kernel calls a process, in 15 characters; None if it is gone."""
    try:
        with open("/proc/%d/comm" % pid, "rb") as source:
            return source.read(64).decode("utf-8", "replace").strip()
    except OSError:
        return None


def kill(identity: Identity) -> None:
    """Kill a process; one that is gone is no error."""
    if is_running(identity):
        with suppress(ProcessLookupError, PermissionError):  # gone, or of another user
            os.kill(identity.pid, signal.SIGKILL)
