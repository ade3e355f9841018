"""The supervisor: one loop that takes requests, runs attempts and workers, and delivers facts."""

from __future__ import annotations

import gc
import math
import os
import platform
import signal
import socket
import sys
import traceback
import uuid
from functools import partial
from typing import Callable, Dict, List, Optional, Set

from . import files, logs, probe, procs
from .allocation import GONE, IDLE, SIGNAL, TOLD, Allocation
from .attempts import Attempts
from .canaries import Canaries
from .connection import Connection, listen
from .contact import Contact
from .devices import Devices
from .doubts import Doubts
from .farewell import Farewell
from .helpers import Helpers
from .interim import Interim
from .journal import Journal
from .keeper import EXIT_UPGRADE
from .loop import Loop
from .node import Node, log
from .paths import file_id
from .places import Place
from .protocol import (
    ALLOCATION_ENDS,
    PROTOCOL,
    VERSION,
    Json,
    RequestError,
    chunk_specs,
    decode,
    echo,
    ends,
    id_list,
    integer,
    is_shallow,
    line,
)
from .sampler import Sampler
from .state import State
from .tools import Tools
from .visible import Visible
from .workers import Workers

UPGRADE = "upgrade"
"""The file that names the program to go on with."""
_GATHER_S = 0.005
_RETRY_S = 1.0
_FACTS_PER_LINE_BYTES = 1 << 18
_MOST_UNREAD_BYTES = 1 << 20
_COMPACT_FROM_BYTES = 4 << 20
_HELLO_WITHIN_S = 10.0
_HOUSEKEEPING_S = 2.0
_ALONE_S = 120.0
_LAST_WORDS_S = 10.0
_TELEMETRY_S = 10.0
_PROGRESS_S = 1.0
_AGENT_LOG_BYTES = 4 << 20
_GARBAGE_EVERY = 50_000


class Supervisor:
    """Everything the agent does for one folder, in one thread. ``run`` returns when it is to exit.

    With an ``allocation`` it is at home there only: it ends with it, or before it when there is nothing to do.
    """

    def __init__(self, directory: str, allocation: Optional[Allocation] = None) -> None:
        procs.become_subreaper()
        self._loop = Loop()
        self._directory = directory
        self._allocation = allocation
        self._code = files.own_digest()
        journal = Journal(directory + "/journal.jsonl")
        state = State(journal.replay())
        same_boot = state.boot == procs.boot_id()
        state.agent = state.agent or uuid.uuid4().hex
        state.boot, state.incarnation = procs.boot_id(), state.incarnation + 1
        self._agent, self._incarnation, self._boot = state.agent, state.incarnation, state.boot
        self._epoch = state.epoch
        doubts = Doubts(None if allocation is None else self._loop)
        visible = Visible(os.environ if allocation is None else None)
        self._node = Node(directory, self._loop, journal, state, doubts, visible)
        self._devices = Devices(Tools(self._node), visible=visible)
        self._sampler = Sampler(self._devices)
        self._contact = Contact(self._node, state.contact if same_boot else None)
        self._connection: Optional[Connection] = None
        self._connected_at = 0.0
        self._greeting: Set[Connection] = set()
        self._helpers = Helpers(self._node)
        self._goodbye = Farewell(self._node)
        self._leaving: Optional[str] = None
        self._why = TOLD
        self._upgrading = False
        self._deliver_at = 0.0
        self._compact_at = 0
        self._node.record({"op": "agent", "agent": state.agent, "incarnation": state.incarnation, "boot": state.boot})
        self._compact(state)
        self._attempts = Attempts(self._node)
        self._interim = Interim(self._node, self._attempts, self._tell)
        self._workers = Workers(self._node)
        self._canaries = Canaries(self._node, sys.executable, self._tell)
        self._requests: Dict[str, Callable[[Json], None]] = {
            "launch": self._launch,
            "stop": self._stop,
            "open": lambda request: self._workers.open(request.get("worker")),
            "chunks": self._queue_chunks,
            "recall": self._recall,
            "trim": self._trim,
            "close": lambda request: self._workers.close(str(request.get("worker"))),
            "ack": self._acknowledge,
            "discard": self._discard,
            "read": lambda request: self._tell(self._attempts.read(request)),
            "probe": self._probe,
            "prove": self._canaries.prove,
            "sample": lambda request: self._sampler.read(self._tell_telemetry),
            "here": lambda request: None,
            "bye": lambda request: self._goodbye.let_go(),
            "shutdown": self._shutdown,
            "upgrade": self._upgrade,
        }
        self._restore(state, same_boot)
        self._listener = listen(directory)
        self._socket_id = file_id(directory + "/agent.sock")
        self._alone_since = self._loop.monotonic()

    def run(self) -> int:
        """Serve until a shutdown is asked for; the result is the exit status of the agent."""
        self._loop.on_signals(
            {
                signal.SIGCHLD: self._reap,
                signal.SIGTERM: self._on_term,
                signal.SIGINT: self._on_term,
            }
        )
        self._loop.watch(self._listener.fileno(), self._accept)
        if self._allocation is not None:
            self._allocation.listen(self._loop)
        gc.freeze()
        gc.set_threshold(_GARBAGE_EVERY)  # next to nothing here is cyclic
        self._housekeep()
        self._send_telemetry()
        self._send_progress()
        self._interim.look()
        self._reap()
        while not (self._may_exit() or self._may_make_way()):
            self._loop.turn(min(self._settle(), self._rest_s()))
        self._devices.tools.stop()
        self._canaries.stop()
        self._helpers.end()
        self._deliver()
        self._node.journal.flush()
        if self._allocation is not None:
            self._have_it_heard()
            self._allocation.leave_word(self._why)
        if self._is_reachable():
            os.unlink(self._directory + "/agent.sock")
        return EXIT_UPGRADE if self._upgrading and self._leaving is None else 0

    # --- once per turn --------------------------------------------------------------------------------------------

    def _settle(self) -> float:
        """Do what the events of a turn have made possible. Returns how long the loop may wait, in seconds.

        Facts are gathered for a moment, so that many of them share one write and one line.
        """
        self._advance()
        self._workers.flush()
        if not self._has_news():
            return 60.0
        wait = self._deliver_at - self._loop.monotonic()
        if wait > 0:
            return wait
        self._deliver()
        return 60.0 if self._node.journal.is_clean else _RETRY_S

    def _advance(self) -> None:
        while self._node.touched:
            touched, self._node.touched = self._node.touched, set()
            starting = [place for place in touched if place.next_attempt() is not None]
            if starting and not self._announce(starting):
                self._loop.call_later(_RETRY_S, partial(self._node.touched.update, starting))
                return
            for place in starting:
                self._attempts.start(place)
            for place in touched:
                self._workers.feed(place)
                if place.is_idle():
                    self._node.places.pop(place.name, None)

    def _announce(self, starting: List[Place]) -> bool:
        """What is about to be started is on disk first, so that a dead agent's successor looks for it."""
        journal = self._node.journal
        if journal.error is not None and not journal.flush():
            return False
        at = self._loop.wall()
        for place in starting:
            self._node.record({"op": "starting", "attempt": place.attempts[0].spec.id, "at": at})
        return journal.flush()

    def _has_news(self) -> bool:
        if not self._node.journal.is_clean or self._node.complaints or self._attempts.unannounced:
            return True
        peer = self._connection
        return peer is not None and peer.sent_seq < self._node.facts.seq and peer.backlog < _MOST_UNREAD_BYTES

    def _deliver(self) -> None:
        journal, facts, peer = self._node.journal, self._node.facts, self._connection
        self._attempts.announce()
        is_durable = journal.flush()
        self._deliver_at = self._loop.monotonic() + (_GATHER_S if is_durable else _RETRY_S)
        if not is_durable:
            self._node.complain(str(journal.error))
        self._send_complaints()
        if not is_durable:
            return
        while peer is not None and peer.sent_seq < facts.seq and peer.backlog < _MOST_UNREAD_BYTES:
            batch = facts.after(peer.sent_seq, _FACTS_PER_LINE_BYTES)
            peer.sent_seq = batch[-1].seq
            body = ",".join([fact.encoded for fact in batch])
            peer.send_line(('{"type":"facts","facts":[%s]}\n' % body).encode("ascii"))
        if journal.size > self._compact_at:
            self._compact(State(journal.replay()))

    def _tell(self, message: Json) -> None:
        """Send what is worth something to the controller of now only; if there is none, nobody wants it."""
        if self._connection is not None:
            self._connection.send(message)

    def _send_complaints(self) -> None:
        complaints = self._node.complaints
        if self._connection is None or not complaints:
            return
        # In one piece: the connection may turn out to be gone with the first.
        told = [line({"type": "error", "error": problem, "request": None}) for problem in complaints]
        complaints.clear()
        self._connection.send_line(b"".join(told))

    def _compact(self, state: State) -> None:
        journal = self._node.journal
        try:
            journal.rewrite(state.entries())
        except OSError as error:
            self._node.complain("cannot compact the journal: %s" % error.strerror)
        self._compact_at = max(_COMPACT_FROM_BYTES, 3 * journal.size)

    # --- children -------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Learn of each end while its zombie still holds the pid; write it down; only then let it go."""
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                return
            reaped = self._attempts.exited(info.si_pid, info)
            if reaped is None:
                reaped = self._workers.exited(info.si_pid, info) or self._canaries.exited(info.si_pid, info)
            elif not self._node.journal.flush():
                self._loop.call_later(_RETRY_S, self._reap)
                return
            usage = os.wait4(info.si_pid, 0)[2]
            if info.si_pid in self._helpers.pids:
                self._helpers.pids.discard(info.si_pid)
            elif reaped is None:
                self._attempts.stranger_reaped(info.si_pid)
            else:
                reaped(usage)

    def _restore(self, state: State, same_boot: bool) -> None:
        self._attempts.restore(state.attempts, same_boot, self._directory + "/exits.jsonl")
        self._workers.restore(state.workers, state.chunks, same_boot)

    # --- the connection -------------------------------------------------------------------------------------------

    def _accept(self, _events: int) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:  # it hung up already
            return
        connection = Connection(self._loop, peer, self._on_line, self._on_close)
        self._greeting.add(connection)
        self._loop.call_later(_HELLO_WITHIN_S, lambda: self._hang_up_on_silent(connection))

    def _hang_up_on_silent(self, connection: Connection) -> None:
        if connection in self._greeting:
            self._greeting.discard(connection)
            connection.close()

    def _on_close(self, connection: Connection) -> None:
        self._greeting.discard(connection)
        self._helpers.forget(connection)
        if connection is self._connection:
            self._connection = None
            self._contact.note(0.0)

    def _on_line(self, connection: Connection, data: bytes) -> None:
        request: Json = {}
        try:
            request = decode(data, len(data))  # its fields have their limits: an id is read however deep the rest is
            if connection is self._connection:
                self._contact.heard()
                self._request(request)
            else:
                self._greet(connection, request)
        except RequestError as error:
            connection.send({"type": "error", "error": str(error), "request": echo(request, data)})
        except Exception as error:  # noqa: BLE001 - one request must not end the others' supervisor; it is told and logged
            log("a request failed: %s" % traceback.format_exc())
            connection.send({"type": "error", "error": "it failed: %r" % error, "request": echo(request, data)})

    def _greet(self, connection: Connection, hello: Json) -> None:
        if hello.get("type") not in ("hello", "files") or hello.get("protocol") != PROTOCOL:
            self._refuse(connection, "this agent expects a hello of protocol %d" % PROTOCOL)
            return
        epoch = integer(hello.get("epoch"), "epoch")
        if epoch < self._epoch:
            self._refuse(connection, "epoch %d has been followed by %d" % (epoch, self._epoch))
            return
        if hello["type"] == "files":
            self._greeting.discard(connection)
            connection.send({"type": "hello", "protocol": PROTOCOL})
            if hello.get("guest"):
                self._helpers.let_in(connection)
            else:
                self._helpers.serve(connection)
            return
        ack = integer(hello.get("ack"), "ack")
        if epoch > self._epoch:
            self._epoch = epoch
            self._node.record({"op": "epoch", "epoch": epoch})
        self._acknowledge({"seq": ack, "agent": hello.get("agent")})
        self._leaving = "now" if self._leaving == "now" else None
        self._greeting.discard(connection)
        if self._connection is not None:
            self._connection.close()
        self._helpers.end()  # one that is slow must not lay out a folder in which somebody works by then
        self._canaries.forget()
        self._interim.forget()
        self._goodbye.greeted(hello)
        self._connection, self._connected_at = connection, self._loop.wall()
        self._contact.heard()
        self._contact.note(0.0)
        self._node.journal.flush()
        connection.sent_seq = self._node.facts.acked
        connection.send(self._inventory())
        connection.send(self._telemetry())
        self._sampler.read(self._tell_telemetry)
        self._helpers.clean_environments(self._attempts.environments_in_use())

    def _refuse(self, connection: Connection, reason: str) -> None:
        self._greeting.discard(connection)
        connection.send({"type": "refused", "reason": reason, "epoch": self._epoch})
        connection.close()

    def _inventory(self) -> Json:
        return {
            "type": "hello",
            "protocol": PROTOCOL,
            "agent": self._agent,
            "incarnation": self._incarnation,
            "boot": self._boot,
            "version": VERSION,
            "tells": True,
            "merges": True,
            "sets_up": True,
            "limits_builds": True,
            "keeps_secrets": True,
            "samples": True,
            "memory_limits": self._attempts.memory_limits,
            "leaving": self._goodbye.why,
            "code": self._code,
            "host": socket.gethostname(),
            "python": platform.python_version(),
            "now": self._loop.wall(),
            "seq": self._node.facts.seq,
            "attempts": [*self._attempts.live, *self._node.facts.attempts],
            "chunks": [*self._workers.chunks, *self._node.facts.chunks],
        }

    # --- requests -------------------------------------------------------------------------------------------------

    def _request(self, request: Json) -> None:
        method = self._requests.get(str(request.get("type")))
        if method is None:
            raise RequestError("unknown type %.80r" % request.get("type"))
        if not is_shallow(request.get("id"), 0):
            raise RequestError("id must be a number or a text")
        method(request)

    def _launch(self, request: Json) -> None:
        try:
            self._attempts.launch(request.get("attempts"))
        finally:
            if self._leaving == "now":  # its sender did not know it yet
                self._attempts.stop(list(self._attempts.live), self._farewell())

    def _stop(self, request: Json) -> None:
        names, error = id_list(request.get("attempts"), "attempts")
        self._attempts.stop(names, str(request.get("reason")))
        _complain(error)

    def _discard(self, request: Json) -> None:
        names, error = id_list(request.get("attempts"), "attempts")
        _complain(error)
        self._attempts.discard(names, self._workers.pids | self._helpers.pids)

    def _queue_chunks(self, request: Json) -> None:
        good, bad, error = chunk_specs(request.get("chunks"))
        self._workers.queue(str(request.get("worker")), good)
        self._workers.decline(bad, str(error))
        _complain(error)

    def _recall(self, request: Json) -> None:
        names, error = id_list(request.get("chunks"), "chunks")
        self._workers.recall(names, str(request.get("reason")))
        _complain(error)

    def _trim(self, request: Json) -> None:
        good, error = ends(request.get("chunks"))
        self._workers.trim(good)
        _complain(error)

    def _acknowledge(self, request: Json) -> None:
        """An ``ack`` that names another agent, whose folder this was, counts that one's facts."""
        if request.get("agent") not in (None, self._agent):
            return
        if self._node.facts.acknowledge(integer(request.get("seq"), "seq")):
            self._node.record({"op": "ack", "seq": self._node.facts.acked})
        if self._connection is not None:  # what it knew from before need not be sent to it first
            self._connection.sent_seq = max(self._connection.sent_seq, self._node.facts.acked)

    def _probe(self, request: Json) -> None:
        def on_devices(devices: Optional[List[Json]]) -> None:
            facts = probe.node_facts(self._directory, devices)
            self._tell({"type": "probe", "id": request.get("id"), "facts": facts})

        self._devices.ask(on_devices)

    # --- the end --------------------------------------------------------------------------------------------------

    def _shutdown(self, request: Json) -> None:
        when = request.get("when")
        if when not in ("idle", "now"):
            raise RequestError("shutdown needs when: idle or now")
        if when == "now":
            self._leave_now(TOLD)
        elif self._leaving is None:
            self._leaving = "idle"

    def _upgrade(self, request: Json) -> None:
        """Make way for another program: the next supervisor is its, and finds everything as after a crash."""
        if self._allocation is not None:
            raise RequestError("the agent of an allocation stays as it is; the next allocation gets the new one")
        path, digest = str(request.get("zipapp")), request.get("sha256")
        try:
            if files.digest_of(path) != digest:
                raise RequestError("%.300r is not the program that was told of" % path)
            with open(self._node.path(UPGRADE), "w", encoding="utf-8") as output:
                output.write(path)
        except OSError as error:
            raise RequestError("cannot upgrade to %.300r: %s" % (path, error.strerror)) from None
        self._upgrading = True

    def _leave_now(self, why: str) -> None:
        if self._leaving != "now":
            self._leaving, self._why = "now", why
            self._attempts.stop(list(self._attempts.live), self._farewell())
            self._workers.end_all(self._farewell())
            self._node.doubts.resolve()

    def _farewell(self) -> str:
        """Why this agent stops what it has."""
        is_told = self._allocation is None or self._why == TOLD
        return "the agent shuts down" if is_told else ALLOCATION_ENDS

    def _on_term(self) -> None:
        """The first signal stops everything; the second one leaves at once, and what runs runs on.

        But in an allocation each is sent several times: to all its processes, and by the parents among them.
        """
        if self._leaving == "now" and self._allocation is None:
            log("asked to end a second time: leaving at once")
            os._exit(0)
        self._say_farewell("it was told to end (SIGTERM): its machine may be about to go")
        self._leave_now(SIGNAL)

    def _heed_notice(self) -> None:
        """It stays: one that went would be started anew by whoever connects next, while there is the machine."""
        notice = self._goodbye.notice()
        if notice is not None and self._allocation is None:
            self._say_farewell(notice)
            self._attempts.stop(list(self._attempts.live), notice)
            self._workers.end_all(notice)

    def _say_farewell(self, why: str) -> None:
        """Have the controller fetch what is here, and bring nothing more; in an allocation the berth sees to that."""
        if self._allocation is None and self._leaving != "now":
            self._goodbye.why = why
            self._tell({"type": "leaving", "why": why})

    def _may_exit(self) -> bool:
        if self._leaving is None or self._attempts.live or self._workers.chunks:
            return False
        if self._leaving == "idle":
            if len(self._node.facts):
                return False
            self._workers.end_all(self._farewell())
        return not self._workers.pids and self._goodbye.may_go(self._connection is not None)

    def _may_make_way(self) -> bool:
        """Only with all that happened on disk: the next supervisor knows nothing else. A full disk is waited for."""
        if not self._upgrading or self._leaving is not None:
            return False
        self._attempts.announce()
        return self._node.journal.flush()

    def _rest_s(self) -> float:
        """For how long it may go on if it gets nothing to do; an allocation that is idle for too long is left."""
        if self._allocation is None:
            return math.inf
        has_work = self._attempts.live or self._workers.chunks or self._canaries.is_busy
        is_awaited = self._allocation.while_alone and self._connection is not None
        is_busy = has_work or is_awaited or not self._node.journal.is_clean
        rest = self._allocation.rest_s(is_busy=bool(is_busy), now=self._loop.monotonic())
        if rest <= 0:
            self._leave_now(IDLE)
        return max(0.0, rest)

    def _have_it_heard(self) -> None:
        """Let the controller's side take what there is to say; facts that it does not take are in the journal."""
        patience = self._loop.monotonic() + _LAST_WORDS_S
        while self._loop.monotonic() < patience:
            peer = self._connection
            if peer is None or not (peer.backlog or self._has_news()):
                return
            self._loop.turn(0.01)
            self._deliver()

    # --- now and then ---------------------------------------------------------------------------------------------

    def _is_reachable(self) -> bool:
        # By identity: where the folder was moved away, another agent may have made another one in its place.
        try:
            return file_id(self._directory + "/agent.sock") == self._socket_id
        except OSError as error:  # a shared file system has its bad moments
            self._node.complain("cannot look after %s: %s" % (self._directory, error.strerror))
            return True

    def _is_needed(self) -> bool:
        """Whether it holds anything, or was spoken to of late; an agent that is not is started again when it is."""
        if self._connection is not None or self._attempts.live or self._workers.chunks or len(self._node.facts):
            self._alone_since = self._loop.monotonic()
        return self._loop.monotonic() - self._alone_since < _ALONE_S

    def _housekeep(self) -> None:
        if self._allocation is None and not self._is_needed():
            self._leave_now(IDLE)
        if not self._is_reachable():
            # Somebody deleted the folder: no controller will ever ask for what runs here, and its output is gone.
            self._leave_now(GONE)
        self._heed_notice()
        self._contact.note()
        self._attempts.end_leases(self._contact.silence_s())
        self._workers.end_leases(self._contact.silence_s())
        self._attempts.watch_logs()
        self._workers.watch_logs()
        self._node.note_oom_kills()
        self._node.programs.forget()
        try:
            logs.rotate(self._directory + "/agent.log", _AGENT_LOG_BYTES)
        except OSError as error:
            self._node.complain("cannot rotate agent.log: %s" % error.strerror)
        self._loop.call_later(_HOUSEKEEPING_S, self._housekeep)

    def _tell_telemetry(self) -> None:
        if self._connection is not None:
            self._connection.send(self._telemetry())

    def _send_telemetry(self) -> None:
        self._tell_telemetry()
        if self._connection is not None:
            self._sampler.refresh()
        self._loop.call_later(_TELEMETRY_S, self._send_telemetry)

    def _telemetry(self) -> Json:
        now = self._loop.wall()
        return probe.telemetry(
            self._directory, now, self._node.facts.backlog_s(now, self._connected_at), self._sampler.devices()
        )

    def _send_progress(self) -> None:
        if self._connection is not None and self._workers.progress:
            self._connection.send({"type": "progress", "chunks": self._workers.progress})
            self._workers.progress.clear()
        self._loop.call_later(_PROGRESS_S, self._send_progress)


def _complain(error: Optional[RequestError]) -> None:
    if error is not None:
        raise error
