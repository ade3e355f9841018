"""Attempts: from the request to the ``ended`` fact, and their adoption after a restart of the agent."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from contextlib import suppress
from functools import partial
from typing import AbstractSet, Any, Callable, Dict, List, Optional, Tuple

from . import dropping, logs, procs, setup
from .contact import over
from .evidence import last_words
from .exits import recorded_exit
from .files import CODE
from .folders import Folders
from .leftovers import Ended, Leftovers
from .loop import Timer
from .memory import MemoryLimits
from .node import HELPER, Node
from .places import Place
from .procs import Identity, SpawnError, Streams
from .protocol import MAX_CONTAINERS, AttemptSpec, Json, RequestError, attempt_spec, encode, is_id, loads
from .reading import piece_of, wish_of
from .recording import Recording
from .room import shortage
from .safekeeping import Safekeeping
from .setups import Setups

_RESULT = "result.json"
_SHELL_SAYS_KILLED = 128 + signal.SIGKILL
_POLL_S = 1.0
_LEASE_GRACE_S = 20.0  # at the end of a lease; the controller gives the work to others 30 s after it, and more
_EXIT_TRIES = 30
_EXIT_RETRY_S = 0.1
_LOOK_S = 1.0  # at an attempt that is being set up when its time is over


class Attempt:
    """One attempt that has not ended."""

    __slots__ = ("guard", "place", "process", "spec", "started_at", "stop_error", "stop_reason", "timers")

    def __init__(self, spec: AttemptSpec, place: Place) -> None:
        self.spec = spec
        self.place = place
        self.process: Optional[Identity] = None
        self.started_at: Optional[float] = None
        self.stop_reason: Optional[str] = None
        self.stop_error: Optional[str] = None
        self.guard: Optional[Timer] = None
        self.timers: List[Timer] = []

    def forget_timers(self) -> None:
        """Nothing more is due."""
        for timer in self.timers if self.guard is None else [self.guard, *self.timers]:
            timer.cancel()


class Attempts:
    """All attempts of this agent that have not ended, by id and by pid."""

    def __init__(self, node: Node, leftovers: Leftovers) -> None:
        self._node = node
        self._leftovers = leftovers
        self._is_restoring = False
        self.live: Dict[str, Attempt] = {}
        self.unannounced: Dict[int, Attempt] = {}
        self._by_pid: Dict[int, Attempt] = {}
        self._folders = Folders(node.path("attempts"))
        self._recording = Recording(node)
        self._memory = MemoryLimits(node, self._exceeded)
        self._setups = Setups(node)
        self._secrets = Safekeeping(node.path())

    def launch(self, raw: object) -> None:
        """Queue what is new of a list of ATTEMPTs; one that cannot be understood ends at once.

        Raises RequestError, when all else is done, if there is an item without an id.
        """
        named = [item for item in raw if type(item) is dict and is_id(item.get("id"))] if type(raw) is list else []
        accepted = []
        for item in named:
            if item["id"] in self.live or item["id"] in self._node.facts.attempts:
                continue
            try:
                spec = attempt_spec(item)
                if spec.secrets:
                    self._secrets.keep(spec.id, spec.secrets)
                self._queue(spec)
                accepted.append(_journalled(item))
            except RequestError as error:
                self._report(item["id"], reason=setup.REFUSED, error=str(error))
            except OSError as error:
                self._report(item["id"], reason="full", error="its secrets cannot be kept: %s" % error.strerror)
        if accepted:
            self._node.record({"op": "launch", "attempts": accepted})
        if type(raw) is not list or len(named) < len(raw):
            raise RequestError("attempts must be a list of objects, each with an id ([A-Za-z0-9][A-Za-z0-9._-]{0,127})")

    def stop(self, ids: List[str], reason: str) -> None:
        """End these; each answers with its ``ended`` fact, if it has not got one already."""
        for name in ids:
            attempt = self.live.get(name)
            if attempt is not None:
                self._stop(attempt, "stopped", reason)
            elif name not in self._node.facts.attempts:
                self._report(name, reason="unknown", error="this agent has no attempt of that id")

    def end_leases(self, silence_s: float) -> None:
        """End those whose lease is over after no word from a controller for so long: others are to do their work."""
        for attempt in list(self.live.values()):
            lease_s = attempt.spec.lease_s
            if lease_s is not None and silence_s >= lease_s:
                self._stop(attempt, "lease", over(silence_s, lease_s))

    def start(self, place: Place) -> None:
        """Start the first waiting attempt of a place. Its ``starting`` entry must be on disk."""
        attempt = place.attempts.popleft()
        self._node.touch(place)
        if attempt.spec.secrets:
            self._secrets.forget(attempt.spec.id)
        short = shortage(attempt.spec, self._node.path(), self._node.merged_env(attempt.spec.env))
        if short is not None:
            self._end(attempt, reason="full", error=short)
            return
        try:
            pid = self._spawn(attempt)
        except (SpawnError, OSError) as error:
            self._end(attempt, reason=setup.reason_of(error), error=str(error))
            return
        attempt.place.running, attempt.started_at = attempt, self._node.loop.wall()
        self._by_pid[pid] = self.unannounced[pid] = attempt
        self._guard(attempt, pid)

    def announce(self) -> None:
        """Make the ``started`` facts of what was started since the last call.

        Not at once: to be asked for its start time, a process has to come to the end of its exec first.
        """
        for pid, attempt in list(self.unannounced.items()):
            self._announce(pid, attempt)

    def exited(self, pid: int, info: Any) -> Optional[Callable[[Any], None]]:
        """A child is a zombie: end what is left of its tree and note the fact.

        Returns what is to be called with its resource usage once it is reaped; None if it is no attempt's process.
        """
        attempt = self._by_pid.get(pid)
        if attempt is None:
            return None
        self._announce(pid, attempt)
        if attempt.stop_reason is None:
            self._memory.kill(attempt.spec.id)
            procs.signal_group(pid, signal.SIGKILL)
        else:
            self._kill(attempt, pid)
        code, number = procs.exit_status(info)
        at = self._node.loop.wall()
        self._node.record({"op": "exit", "attempt": attempt.spec.id, "code": code, "signal": number, "at": at})
        return lambda usage: self._reaped(attempt, code, number, usage)

    def restore(self, records: Dict[str, Json], same_boot: bool, keeper_exits: str) -> None:
        """Take up the attempts of the journal: adopt what runs, end what does not, queue what has not begun."""
        self._folders.tidy(records.keys())
        self._memory.restore(records.keys())
        self._secrets.tidy([name for name, record in records.items() if "starting" not in record])
        self._is_restoring = True  # until all are known, nothing is taken for what one of them has left
        for record in records.values():
            self._restore(record, same_boot, keeper_exits)
        self._is_restoring = False

    def watch_logs(self) -> None:
        """Rotate the output files that have grown too long."""
        for attempt in self._by_pid.values():
            for stream in ("out", "err", setup.STREAM):
                try:
                    logs.rotate(self._path(attempt.spec.id, stream), attempt.spec.log_bytes)
                except OSError as error:
                    self._note_log_failure(attempt, stream, error)

    def discard(self, ids: List[str], known_children: AbstractSet[int]) -> None:
        """Delete the directories of ended attempts; raises RequestError if one of them has not ended.

        ``known_children`` are the pids of the supervisor's other children that are no orphans.
        """
        alive = [name for name in ids if name in self.live]
        if alive:
            raise RequestError("cannot discard attempts that have not ended: %s" % ", ".join(alive)[:200])
        self._folders.discard(ids, self._by_pid.keys() | known_children | self._recording.pids)

    def environments_in_use(self) -> List[str]:
        """The keys of the Python environments that attempts run in."""
        with_setup = [name for name, attempt in self.live.items() if attempt.spec.setup is not None]
        found = [setup.outcome(self._path(name)) for name in with_setup]
        return [each.key for each in found if each is not None and each.key is not None]

    def running(self) -> Dict[str, Identity]:
        """The folders of the attempts that run, with their processes."""
        self.announce()
        running = (each for each in self._by_pid.values() if each.process is not None)
        return {self._path(each.spec.id): each.process for each in running if each.process is not None}

    @property
    def memory_limits(self) -> str:
        """Who limits the memory of attempts here: ``cgroup`` or ``watched``."""
        return self._memory.kind

    def result_path(self, name: str) -> str:
        """Where an attempt leaves its result."""
        return self._path(name, _RESULT)

    def read(self, request: Json) -> Json:
        """The answer to a request for a piece of an attempt's output. Raises RequestError."""
        answer: Json = {"type": "read", "id": request.get("id")}
        wish = wish_of(request)
        ended = self.has_ended(wish.attempt)
        try:
            answer.update(piece_of(self._path(wish.attempt), wish, ended), ended=ended)
        except OSError as error:
            answer["error"] = "cannot read %s of %s: %s" % (wish.stream, wish.attempt, error.strerror)
        return answer

    def stranger_reaped(self, pid: int) -> None:
        """A child was reaped that is no attempt's own process: the recorder, or an orphan that some attempt left."""
        if not self._recording.reaped(pid):
            self._folders.orphans_reaped += 1

    def has_ended(self, name: str) -> bool:
        """Whether nothing more will be written to this attempt's files."""
        return name not in self.live

    def _queue(self, spec: AttemptSpec) -> Attempt:
        place = self._node.place(spec.queue)
        attempt = self.live[spec.id] = Attempt(spec, place)
        place.attempts.append(attempt)
        self._node.touch(place)
        return attempt

    def _spawn(self, attempt: Attempt) -> int:
        spec = attempt.spec
        folder = self._folders.make(spec.id)
        env = self._node.merged_env({**spec.env, **spec.secrets})
        is_built = spec.setup is not None and spec.setup["file"] is not None
        procs.expect_script(spec.argv, spec.cwd or folder, None if is_built else env.get("PATH", os.defpath))
        env.pop(HELPER, None)
        env["HOSTLER_ATTEMPT"] = spec.id
        env["HOSTLER_ATTEMPT_DIR"] = folder
        env["HOSTLER_RESULT"] = folder + "/" + _RESULT
        if spec.inputs is not None:
            env["HOSTLER_INPUTS"] = folder + "/inputs.json"
            _write(env["HOSTLER_INPUTS"], encode(spec.inputs))
        self._recording.begin(spec.id, folder)
        argv = spec.argv
        if spec.user is not None:
            if spec.setup is not None:
                raise SpawnError("work that runs as `job_user` has no Python environment built", refused=True)
            argv = [*dropping.command(CODE, spec.user, self._node.directory, folder, spec.cwd), *argv]
        if self._setups.is_needed(spec, env):
            cgroup = "" if spec.memory_bytes is None else self._memory.prepare(spec.id, spec.memory_bytes)
            return self._setups.start(spec, env, folder, cgroup)
        streams = Streams(self._node.null, folder + "/out", folder + "/err")
        with self._memory.room(spec.id, spec.memory_bytes):
            return procs.spawn(self._node.programs, argv, env, spec.cwd or folder, streams)

    def _announce(self, pid: int, attempt: Attempt) -> None:
        """Our child, running or a zombie, always has a start time."""
        if self.unannounced.pop(pid, None) is not None:
            self._started(attempt, Identity(pid, procs.start_time(pid) or 0))

    def _started(self, attempt: Attempt, process: Identity) -> None:
        attempt.process = process
        name, at = attempt.spec.id, attempt.started_at
        self._node.facts.add(
            {"fact": "started", "attempt": name, "pid": process.pid, "pid_start": process.start, "at": at}
        )

    def _guard(self, attempt: Attempt, pid: int) -> None:
        self._limit_memory(attempt, pid)
        if attempt.spec.walltime_s is not None and attempt.started_at is not None:
            left = attempt.started_at + attempt.spec.walltime_s - self._node.loop.wall()
            attempt.guard = self._node.loop.call_later(max(0.0, left), lambda: self._end_walltime(attempt))

    def _end_walltime(self, attempt: Attempt) -> None:
        """End an attempt that has run for too long; the time before its own process began does not count."""
        walltime_s = attempt.spec.walltime_s or 0.0
        began = self._began_at(attempt)
        left = _LOOK_S if began is None else began + walltime_s - self._node.loop.wall()
        if left > 0:
            attempt.guard = self._node.loop.call_later(left, lambda: self._end_walltime(attempt))
        else:
            self._stop(attempt, "walltime", "ran longer than its %g s" % walltime_s)

    def _began_at(self, attempt: Attempt) -> Optional[float]:
        """When the process of the attempt's own command began; None while it is being set up."""
        if attempt.spec.setup is None:
            return attempt.started_at
        return setup.began_at(self._path(attempt.spec.id), attempt.started_at)

    def _limit_memory(self, attempt: Attempt, pid: int) -> None:
        if attempt.spec.memory_bytes is not None:
            self._memory.begin(attempt.spec.id, self._mark(attempt), pid, attempt.spec.memory_bytes)

    def _exceeded(self, name: str, why: str) -> None:
        self.announce()
        attempt = self.live.get(name)
        if attempt is None or attempt.process is None:
            return
        if self._began_at(attempt) is None:  # its environment is being built, which the limit is not for
            self._limit_memory(attempt, attempt.process.pid)
        else:
            self._stop(attempt, "memory", why)

    def _stop(self, attempt: Attempt, reason: str, error: str) -> None:
        if attempt.stop_reason is not None:
            return
        self.announce()
        attempt.stop_reason, attempt.stop_error = reason, error
        if attempt.process is None:
            attempt.place.attempts.remove(attempt)
            self._end(attempt, reason=reason, error=error)
            return
        self._node.record({"op": "stop", "attempt": attempt.spec.id, "reason": reason, "error": error})
        self._node.journal.flush()  # so that a successor goes on with it; a full disk must not keep it from ending
        if attempt.process.pid in self._by_pid:  # else it has ended, and that is about to be told
            self._terminate(attempt, attempt.process)

    def _terminate(self, attempt: Attempt, process: Identity) -> None:
        if procs.is_running(process):
            procs.signal_group(process.pid, signal.SIGTERM)
            procs.signal_group(process.pid, signal.SIGCONT)
        grace_s = attempt.spec.grace_s
        if attempt.stop_reason == "lease":
            grace_s = min(grace_s, _LEASE_GRACE_S)
        elif attempt.stop_reason == "memory":
            grace_s = 0.0  # it may take all that the machine has meanwhile
        attempt.timers.append(self._node.loop.call_later(grace_s, lambda: self._kill(attempt, process.pid)))

    def _kill(self, attempt: Attempt, group: Optional[int] = None) -> None:
        """Kill the process group and all else of an attempt."""
        self._memory.kill(attempt.spec.id)
        procs.kill_tree(self._mark(attempt), group)

    def _reaped(self, attempt: Attempt, code: Optional[int], number: Optional[int], usage: Any) -> None:
        """It is gone, and with it its pid. What it has left is ended before its end is judged."""
        self._let_go(attempt)
        lived_s = self._node.loop.wall() - (attempt.started_at or 0.0)
        self._end_left(attempt, lambda: self._settle(attempt, code, number, usage, lived_s))

    def _end_left(self, attempt: Attempt, then: Callable[[], None]) -> None:
        """Its place is given nothing else while something that it has left cannot be ended."""
        if attempt.process is None:
            then()
            return
        if self._is_restoring:
            self._node.later(0.0, partial(self._end_left, attempt, then))
            return
        ended = Ended(attempt.spec.id, self._path(attempt.spec.id), attempt.process.start)

        def on_end(is_gone: bool) -> None:
            if not is_gone:
                attempt.place.held += 1
                self._leftovers.watch(ended, lambda: self._free(attempt.place))
            then()

        self._leftovers.end(ended, on_end)

    def _free(self, place: Place) -> None:
        place.held -= 1
        self._node.touch(place)

    def _settle(self, attempt: Attempt, code: Optional[int], number: Optional[int], usage: Any, lived_s: float) -> None:
        """How its end is to be understood may have to wait a moment."""
        judge = partial(self._recording.settle, attempt.spec.id, partial(self._judge, attempt, code, number, usage))
        if attempt.stop_reason is None:
            self._node.doubts.settle(code, number, lived_s, judge)
        else:
            judge()

    def _let_go(self, attempt: Attempt) -> None:
        attempt.forget_timers()
        if attempt.process is not None:
            self._by_pid.pop(attempt.process.pid, None)

    def _judge(self, attempt: Attempt, code: Optional[int], number: Optional[int], usage: Any) -> None:
        reason, error = attempt.stop_reason, attempt.stop_error
        if reason is None:
            reason, error = self._setups.verdict(attempt.spec, self._path(attempt.spec.id), code)
        if reason is None:
            reason, error = self._memory_verdict(attempt.spec, code, number)
        self._end(
            attempt,
            exit_code=code,
            signal=number,
            reason=reason,
            error=error,
            cpu_s=None if usage is None else round(usage.ru_utime + usage.ru_stime, 6),
            max_rss_bytes=None if usage is None else _max_rss_bytes(usage),
        )

    def _memory_verdict(
        self, spec: AttemptSpec, code: Optional[int], number: Optional[int]
    ) -> Tuple[Optional[str], Optional[str]]:
        """Only positive evidence counts: the kernel's counters, of the attempt's cgroup and of the machine."""
        why = None if spec.memory_bytes is None or code == 0 else self._memory.verdict(spec.id, spec.memory_bytes)
        if why is not None:
            return "memory", why
        is_killed = number == signal.SIGKILL or code == _SHELL_SAYS_KILLED
        if is_killed and self._node.has_new_oom_kill():
            return "memory", "the kernel ended a process of this machine for want of memory just then"
        return None, None

    def _end(self, attempt: Attempt, **fields: Any) -> None:
        name, place = attempt.spec.id, attempt.place
        attempt.forget_timers()
        del self.live[name]
        if attempt.spec.secrets:
            self._secrets.forget(name)
        self._recording.forget(name)
        self._memory.forget(name)
        self._setups.forget(name)
        if attempt.process is not None:
            left = self._folders.left_behind(name)
            fields["left"] = bool(left)
            if _RESULT in left:
                path = self._path(name, _RESULT)
                fields["result"], fields["result_error"] = read_result(path, attempt.spec.result_bytes)
            words = last_words(self._path(name, "err")) if _has_failed(fields) else None
            if words is not None:
                fields["evidence"] = words
        if place.running is attempt:
            place.running = None
        self._node.touch(place)
        began = None if attempt.started_at is None else self._began_at(attempt)
        self._report(name, started_at=began or attempt.started_at, **fields)

    def _report(self, name: str, **fields: Any) -> None:
        fact = {
            "fact": "ended",
            "attempt": name,
            "at": self._node.loop.wall(),
            "started_at": None,
            "exit_code": None,
            "signal": None,
            "reason": None,
            "error": None,
            "cpu_s": None,
            "max_rss_bytes": None,
            "result": None,
            "result_error": None,
            "left": None,
        }
        fact.update(fields)
        self._node.facts.add(fact)

    def _restore(self, record: Json, same_boot: bool, keeper_exits: str) -> None:
        spec = attempt_spec({**record["spec"], "secrets": {}})
        named = record["spec"].get("secrets")
        if named and "starting" not in record:
            values = self._secrets.found(spec.id)
            if values is None or sorted(values) != sorted(named):
                self._report(spec.id, reason="lost", error="the agent was started again, and its secrets are gone")
                return
            spec = spec._replace(secrets=values)
        attempt = self._queue(spec)
        if "starting" not in record:
            return
        attempt.place.attempts.remove(attempt)
        attempt.place.running = attempt
        stop, ended, started = record.get("stop"), record.get("exit"), record.get("started")
        if stop is not None:
            attempt.stop_reason, attempt.stop_error = stop["reason"], stop["error"]
        if started is not None:
            attempt.process, attempt.started_at = Identity(started["pid"], started["pid_start"]), started["at"]
            self._recording.begin(attempt.spec.id, self._path(attempt.spec.id))
        if ended is not None:
            self._reaped(attempt, ended["code"], ended["signal"], None)
        elif not same_boot:
            self._lose(attempt, "the machine was started again while it ran")
        else:
            self._find(attempt, record["starting"]["at"], keeper_exits)

    def _find(self, attempt: Attempt, starting_at: float, keeper_exits: str) -> None:
        if attempt.process is None:
            found = procs.session_leader(self._mark(attempt))
            if found is None:
                self._lose(attempt, "the agent died while it was being started, and no process of it was found")
                return
            attempt.started_at = starting_at
            self._started(attempt, found)
        assert attempt.process is not None
        self._by_pid[attempt.process.pid] = attempt
        self._guard(attempt, attempt.process.pid)
        if attempt.stop_reason is not None:
            self._terminate(attempt, attempt.process)
        self._watch_adopted(attempt, attempt.process, keeper_exits)

    def _watch_adopted(self, attempt: Attempt, process: Identity, keeper_exits: str) -> None:
        """It is no child of ours: wait for its end by a pid descriptor where there is one, else look now and then."""
        loop = self._node.loop
        descriptor = _open_pidfd(process)
        if not procs.is_running(process):
            if descriptor is not None:
                os.close(descriptor)
            self._gone(attempt, process, keeper_exits, _EXIT_TRIES)
        elif descriptor is None:
            loop.call_later(_POLL_S, lambda: self._watch_adopted(attempt, process, keeper_exits))
        else:
            fd = descriptor

            def on_exit(_events: int) -> None:
                loop.unwatch(fd)
                os.close(fd)
                self._gone(attempt, process, keeper_exits, _EXIT_TRIES)

            loop.watch(fd, on_exit)

    def _gone(self, attempt: Attempt, process: Identity, keeper_exits: str, tries: int) -> None:
        """Its keeper, if that was its parent, writes down how it ended; it may need a moment."""
        status = recorded_exit(keeper_exits, process, procs.boot_id())
        if status is None and tries > 0:
            self._node.later(_EXIT_RETRY_S, lambda: self._gone(attempt, process, keeper_exits, tries - 1))
            return
        self._kill(attempt)
        if status is None and attempt.stop_reason is None:
            words = "it ended while no agent ran, and its waiter was killed as well: how it ended is unknown"
            self._let_go(attempt)
            self._end_left(attempt, lambda: self._lose(attempt, words))
        else:
            self._reaped(attempt, *(status or (None, None)), None)

    def _lose(self, attempt: Attempt, error: str) -> None:
        self._let_go(attempt)
        self._end(attempt, reason="lost", error=error)

    def _mark(self, attempt: Attempt) -> str:
        """What every process of the attempt carries: not the id, which another agent's attempt may have too."""
        return "HOSTLER_ATTEMPT_DIR=" + self._path(attempt.spec.id)

    def _path(self, name: str, *parts: str) -> str:
        return "/".join((self._folders.path(name), *parts))

    def _note_log_failure(self, attempt: Attempt, stream: str, error: OSError) -> None:
        self._node.complain("cannot rotate %s of %s: %s" % (stream, attempt.spec.id, error.strerror))


def _journalled(item: Json) -> Json:
    """An ATTEMPT without the values of its secrets: the journal has their names."""
    return {**item, "secrets": sorted(item["secrets"])} if item.get("secrets") else item


def _write(path: str, text: str) -> None:
    """What is left of it on a full disk would keep the journal from telling of that. Raises OSError."""
    try:
        with open(path, "w") as output:
            output.write(text)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(path)
        raise


def read_result(path: str, limit: int) -> Tuple[Any, Optional[str]]:
    """``(result, None)`` or ``(None, what is wrong with it)``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None, "the result is a symbolic link, which is not followed; write or copy the file"
        return None, "cannot read the result: %s" % error.strerror
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None, "the result is no regular file"
        with open(fd, "rb", closefd=False) as source:
            data = source.read(limit + 1)
        if len(data) > limit:
            return None, "the result is longer than its %d bytes" % limit
        if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
            return None, "the result has more than %d lists and objects" % MAX_CONTAINERS
        value = loads(data)
        if not data.isascii() and len(encode(value)) > 2 * limit:
            return None, "the result is longer than twice its %d bytes when it is written in ASCII" % limit
        return value, None
    except (OSError, RequestError) as error:
        return None, "cannot read the result: %s" % error
    finally:
        os.close(fd)


def _has_failed(fields: Json) -> bool:
    """Whether its own end was a failure; one that was asked to end needs no evidence."""
    return fields.get("reason") not in ("stopped", "lease") and (
        fields.get("exit_code") != 0 or fields.get("reason") is not None
    )


def _max_rss_bytes(usage: Any) -> Optional[int]:
    """Unknown up to this process's own size: the kernel counts what a child shared with it before its exec."""
    if usage.ru_maxrss <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
        return None
    return int(usage.ru_maxrss) * 1024


def _open_pidfd(process: Identity) -> Optional[int]:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        fd: int = os.pidfd_open(process.pid)
    except OSError:
        return None
    return fd
