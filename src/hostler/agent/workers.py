"""Warm workers: their chunks, their protocol, and what is done about a bad one.

The format is ``docs/reference/worker-protocol.md``.
"""

from __future__ import annotations

import os
import shutil
import signal
from functools import partial
from typing import AbstractSet, Any, Callable, Dict, List, Optional, Tuple

from . import dropping, logs, procs
from .contact import over
from .files import CODE
from .leftovers import Ended, Leftovers
from .node import HELPER, Node
from .pipes import WorkerPipes
from .places import Place
from .procs import Identity, SpawnError
from .protocol import (
    ChunkSpec,
    Json,
    LineTooLong,
    RequestError,
    WorkerSpec,
    decode,
    encode,
    is_bearable,
    is_id,
    line,
    worker_spec,
)
from .worker import NOBODY, Chunk, Worker, check_digest, check_interval, hits_of, in_work, position_of

_ASKED_TO_END = ("recalled", "closed", "lease")  # of these ends, what it says in its time of grace counts
_START_RESTS_S = (1.0, 3.0)  # after the first and the second failed start; the third is the last
_MOST_REFUSED = 1000
_CHECKPOINT_EVERY_S = 1.0
_EXIT_WITHIN_S = 2.0
_LIMIT_OF_ERROR = 4096
_LAST_WORDS_BYTES = 500
_HIT_BYTES_TOLD = 16384
_MOST_HITS_TOLD = 16  # with the progress of a chunk; more of them are told with its end only


class Workers:
    """All declared workers, and every chunk that is queued or in work."""

    def __init__(self, node: Node, leftovers: Leftovers) -> None:
        self._node = node
        self._leftovers = leftovers
        self.live: Dict[str, Worker] = {}
        self.chunks: Dict[str, Chunk] = {}
        self.progress: Dict[str, List[Any]] = {}
        self._by_pid: Dict[int, Worker] = {}
        self._refused: Dict[str, str] = {}
        self._unsent: List[Worker] = []
        self._answers: Dict[str, Callable[[Worker, Json], None]] = {
            "checkpoint": self._on_checkpoint,
            "part": self._on_part,
            "done": self._on_done,
            "failed": self._on_failed,
        }

    def open(self, raw: object) -> None:
        """Declare a worker; one that is declared already stays as it is, but for its lease.

        One that cannot be understood is refused if it has an id that is not taken. Raises RequestError otherwise.
        """
        try:
            spec = worker_spec(raw)
        except RequestError as error:
            if type(raw) is not dict or not is_id(raw.get("id")) or raw["id"] in self.live:
                raise
            self._note_refusal(raw["id"], str(error))
            return
        self._refused.pop(spec.id, None)
        worker = self.live.get(spec.id)
        if worker is None:
            self._declare(spec)
        elif worker.closing or worker.spec.lease_s != spec.lease_s:
            worker.closing, worker.spec = False, worker.spec._replace(lease_s=spec.lease_s)
        else:
            return
        self._node.record({"op": "open", "worker": raw})

    def queue(self, name: str, specs: List[ChunkSpec]) -> None:
        """Queue what is new of these chunks; they come back at once when there is no such worker."""
        worker = self.live.get(name)
        known = self.chunks.keys() | self._node.facts.chunks
        new = [spec for spec in {spec[0]: spec for spec in specs}.values() if spec[0] not in known]
        if worker is None or worker.closing:
            why = self._refused.get(name)
            reason = "closed" if why is None else "worker_start"
            for spec in new:
                self._return(Chunk(spec, NOBODY), reason, why or "no worker %s is open here" % name)
            return
        for spec in new:
            chunk = self.chunks[spec[0]] = Chunk(spec, worker)
            worker.place.chunks.append(chunk)
        worker.queued += len(new)
        self._node.record({"op": "chunks", "worker": name, "chunks": new})
        self._node.touch(worker.place)

    def decline(self, ids: List[str], error: str) -> None:
        """Give chunks back that cannot be searched because what they are cannot be understood."""
        for name in set(ids) - self.chunks.keys() - self._node.facts.chunks:
            self._return(Chunk((name, 0, 0), NOBODY), "failed", error)

    def recall(self, ids: List[str], reason: str) -> None:
        """Give chunks back: queued ones at once, one in a worker's pipe when the worker has ended because of it."""
        for name in ids:
            chunk = self.chunks.get(name)
            if chunk is None:
                if name not in self._node.facts.chunks:
                    self._return(Chunk((name, 0, 0), NOBODY), "recalled", "this agent has no chunk of that id")
            else:
                self._take_back(chunk, "recalled", reason)

    def end_leases(self, silence_s: float) -> None:
        """End the workers whose lease is over after no word from a controller for so long; their chunks go back."""
        for worker in list(self.live.values()):
            lease_s = worker.spec.lease_s
            if lease_s is None or silence_s < lease_s:
                continue
            for chunk in [each for each in self.chunks.values() if each.worker is worker]:
                self._take_back(chunk, "lease", over(silence_s, lease_s))
            self.close(worker.spec.id)

    def trim(self, ends: List[Tuple[str, int]]) -> None:
        """Let chunks end earlier. A worker that cannot be told is ended when it has got there."""
        for name, stop in ends:
            chunk = self.chunks.get(name)
            if chunk is None or not chunk.start < stop < chunk.until:
                continue
            chunk.until = stop
            worker = chunk.worker
            if chunk in worker.pipe and worker.trims and worker.pipes is not None:
                self._write(worker, {"type": "trim", "id": name, "stop": stop})
            self._end_if_reached(worker)

    def close(self, name: str) -> None:
        """End a worker once its chunks are done, and forget it; an unknown one is forgotten already."""
        worker = self.live.get(name)
        if worker is not None and not worker.closing:
            worker.closing = True
            self._node.record({"op": "close", "worker": name})
            self._node.touch(worker.place)
            self._close_if_done(worker)

    def end_all(self, why: str) -> None:
        """Return everything and end every worker."""
        for chunk in list(self.chunks.values()):
            if chunk not in chunk.worker.pipe:
                self._unqueue(chunk)
                self._return(chunk, "closed", why)
        for worker in list(self.live.values()):
            if worker.pid is None:
                self._forget(worker)
            else:
                worker.closing = True
                self._terminate(worker, "closed", why)

    def feed(self, place: Place) -> None:
        """Give the next worker of a place as many chunks as are good for it; start it if need be."""
        worker = place.next_worker()
        if worker is None or worker.end_reason is not None:
            return
        if not worker.is_ready:
            self._start(worker)
            return
        depth = worker.depth()
        if len(worker.pipe) > depth // 2 and depth > 2:
            return  # few large writes are cheaper than many small ones
        while place.chunks and place.chunks[0].worker is worker and len(worker.pipe) < depth:
            self._feed(worker, place.chunks.popleft())

    def flush(self) -> None:
        """Write out what ``feed`` has prepared."""
        for worker in self._unsent:
            if worker.pipes is not None:
                worker.pipes.flush()
        self._unsent.clear()

    def exited(self, pid: int, info: Any) -> Optional[Callable[[Any], None]]:
        """A child is a zombie: end what is left of its group.

        Returns what is to be called once it is reaped; None if it is no worker's process.
        """
        worker = self._by_pid.get(pid)
        if worker is None:
            return None
        if worker.end_reason is None:
            procs.signal_group(pid, signal.SIGKILL)
        else:
            procs.kill_tree(self._mark(worker.spec.id), pid)
        code, number = procs.exit_status(info)
        how = "signal %d" % number if number is not None else "exit status %d" % (code or 0)
        doubts, folder = self._node.doubts, self._path(worker.spec.id)
        ended = Ended(worker.spec.id, folder, procs.start_time(pid) or 0)

        def on_end(_is_gone: bool) -> None:
            doubts.settle(code, number, 0.0, partial(self._reaped, worker, how))

        return lambda _usage: self._leftovers.end(ended, on_end)

    def restore(self, workers: Dict[str, Json], chunks: Dict[str, Json], same_boot: bool) -> None:
        """Declare the workers of the journal again, end what is left of their processes, return their chunks."""
        for name, record in workers.items():
            if "process" in record and same_boot:
                procs.kill_tree(self._mark(name))
            if "close" in record:
                self._node.record({"op": "forget", "worker": name})
            else:
                self._declare(worker_spec(record["spec"]))
        for record in chunks.values():
            name, start, stop = record["spec"]
            chunk = Chunk((name, start, stop), self.live.get(record["worker"], NOBODY))
            if "checkpoint" in record:
                chunk.position, chunk.hits = record["checkpoint"]["position"], record["checkpoint"]["hits"]
            self._return(chunk, "agent_restarted", "the agent was started again")

    def running(self) -> Dict[str, Identity]:
        """The folders of the workers that run, with their processes."""
        found = {self._path(worker.spec.id): procs.identity(pid) for pid, worker in self._by_pid.items()}
        return {folder: each for folder, each in found.items() if each is not None}

    @property
    def pids(self) -> AbstractSet[int]:
        """The worker processes there are."""
        return self._by_pid.keys()

    def watch_logs(self) -> None:
        """Rotate the workers' error files that have grown too long."""
        for worker in self._by_pid.values():
            try:
                logs.rotate(self._path(worker.spec.id, "err"), worker.spec.log_bytes)
            except OSError as error:
                self._node.complain("cannot rotate err of %s: %s" % (worker.spec.id, error.strerror))

    def _declare(self, spec: WorkerSpec) -> None:
        place = self._node.place(spec.queue)
        place.workers += 1
        self.live[spec.id] = Worker(spec, place)

    # --- the life of a worker's process -------------------------------------------------------------------------

    def _start(self, worker: Worker) -> None:
        if worker.pid is not None or not worker.may_start:
            return
        spec, folder = worker.spec, self._path(worker.spec.id)
        env = self._node.merged_env(spec.env)
        env.pop(HELPER, None)
        env["HOSTLER_WORKER"] = spec.id
        env["HOSTLER_WORKER_DIR"] = folder
        worker.heard = self._node.loop.monotonic()
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            worker.pipes = WorkerPipes(self._node.loop, lambda data: self._on_data(worker, data))
            before: List[str] = []
            if spec.user is not None:
                before = dropping.command(CODE, spec.user, self._node.directory, folder, spec.cwd)
            argv = [*before, *spec.argv]
            worker.pid = worker.pipes.spawn(self._node.programs, spec, argv, env, folder)
        except (SpawnError, OSError) as error:
            self._close_pipes(worker)
            self._start_failed(worker, str(error))
            return
        self._by_pid[worker.pid] = worker
        start = procs.start_time(worker.pid)
        self._node.record({"op": "process", "worker": spec.id, "pid": worker.pid, "pid_start": start})
        worker.pipes.write(line({"type": "open", **spec.open}))
        worker.pipes.flush()
        self._watch_silence(worker)

    def _start_failed(self, worker: Worker, error: str, is_final: bool = False) -> None:
        worker.failures += 1
        if is_final or worker.failures > len(_START_RESTS_S):
            self._refuse(worker, error)
            return
        worker.may_start = False
        self._node.later(_START_RESTS_S[worker.failures - 1], lambda: self._allow_start(worker))

    def _allow_start(self, worker: Worker) -> None:
        worker.may_start = True
        self._node.touch(worker.place)

    def _refuse(self, worker: Worker, error: str) -> None:
        """The fact about the worker comes first: it says why the chunks come back."""
        if self.live.pop(worker.spec.id, None) is not None:
            worker.place.workers -= 1
        self._note_refusal(worker.spec.id, error)
        for chunk in [chunk for chunk in worker.place.chunks if chunk.worker is worker]:
            self._unqueue(chunk)
            self._return(chunk, "worker_start", error)
        self._node.touch(worker.place)

    def _note_refusal(self, name: str, error: str) -> None:
        """Chunks that are on their way here yet are told the reason too."""
        self._refused[name] = error = error[:_LIMIT_OF_ERROR]
        if len(self._refused) > _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        at = self._node.loop.wall()
        self._node.facts.add({"fact": "worker_refused", "worker": name, "error": error, "at": at})

    def _watch_silence(self, worker: Worker) -> None:
        """One timer per process, set again for what is left: a line that comes costs no timer."""
        limit = worker.spec.silence_s if worker.is_ready else worker.spec.start_s
        if worker.end_reason is not None or worker.pid is None:
            return
        waited = self._node.loop.monotonic() - worker.heard
        if worker.is_ready and not worker.pipe:
            waited = 0.0
        if waited >= limit:
            what = "sent nothing for %g s" % limit if worker.is_ready else "did not come up in %g s" % limit
            self._kill(worker, "worker_silent" if worker.is_ready else "worker_start", what)
            return
        worker.timers.append(self._node.loop.call_later(limit - waited, lambda: self._rewatch(worker)))

    def _rewatch(self, worker: Worker) -> None:
        worker.timers.clear()
        self._watch_silence(worker)

    def _kill(self, worker: Worker, reason: str, error: str) -> None:
        """At once: what it says is not to be trusted any more, or it says nothing."""
        if worker.end_reason is None and worker.pid is not None:
            worker.end_reason, worker.end_error = reason, error
            procs.signal_group(worker.pid, signal.SIGKILL)

    def _terminate(self, worker: Worker, reason: str, error: str) -> None:
        """With its time of grace, in which it may still send a checkpoint."""
        pid = worker.pid
        if worker.end_reason is not None or pid is None:
            return
        worker.end_reason, worker.end_error = reason, error
        procs.signal_group(pid, signal.SIGTERM)
        worker.timers.append(
            self._node.loop.call_later(worker.spec.grace_s, lambda: procs.signal_group(pid, signal.SIGKILL))
        )

    def _close_if_done(self, worker: Worker) -> None:
        if not worker.closing or worker.queued or worker.end_reason is not None:
            return
        pid = worker.pid
        if pid is None or worker.pipes is None:
            self._forget(worker)
            return
        worker.end_reason = "closed"
        worker.pipes.close_input()
        grace = worker.spec.grace_s
        worker.timers.append(self._node.loop.call_later(grace, lambda: procs.signal_group(pid, signal.SIGKILL)))

    def _forget(self, worker: Worker) -> None:
        if self.live.pop(worker.spec.id, None) is None:
            return
        worker.place.workers -= 1
        self._node.record({"op": "forget", "worker": worker.spec.id})
        self._node.touch(worker.place)
        shutil.rmtree(self._path(worker.spec.id), ignore_errors=True)  # only a log; it may never have been made

    def _reaped(self, worker: Worker, how: str) -> None:
        assert worker.pid is not None
        if worker.pipes is not None:
            worker.pipes.drain()
        was_ready, reason = worker.is_ready, worker.end_reason or "worker_died"
        error = worker.end_error or "the worker ended with %s" % how
        if reason not in (*_ASKED_TO_END, "trimmed"):
            error = error[: _LIMIT_OF_ERROR - 2 * _LAST_WORDS_BYTES] + self._last_words(worker)
        del self._by_pid[worker.pid]
        self._close_pipes(worker)
        self._give_up_pipe(worker, reason, error)
        worker.pid, worker.is_ready, worker.end_reason, worker.end_error = None, False, None, None
        if worker.closing and not worker.queued:
            self._forget(worker)
        elif not was_ready and reason != "closed":
            self._start_failed(worker, error, is_final=reason == "refused")
        self._node.touch(worker.place)

    def _last_words(self, worker: Worker) -> str:
        """The end of its standard error, fit to be shown on a terminal."""
        text = logs.tail(self._path(worker.spec.id, "err"), _LAST_WORDS_BYTES).decode("utf-8", "replace")
        words = "".join(item for item in text.replace("\t", " ") if item == "\n" or item.isprintable()).strip()
        return "; its last words: " + words if words else ""

    def _close_pipes(self, worker: Worker) -> None:
        for timer in worker.timers:
            timer.cancel()
        worker.timers.clear()
        if worker.pipes is not None:
            worker.pipes.close()
            worker.pipes = None

    def _give_up_pipe(self, worker: Worker, reason: str, error: str) -> None:
        """The chunk in work goes back; those behind it were not touched and wait for the next process."""
        waiting = list(worker.pipe)
        worker.pipe.clear()
        worker.place.working = None if worker.place.working is worker else worker.place.working
        if waiting:
            first = waiting.pop(0)
            self._return(first, *(first.recalled or (reason, error)))
        for chunk in reversed(waiting):
            if chunk.recalled is not None or (worker.closing and reason == "closed"):
                self._return(chunk, *(chunk.recalled or (reason, error)))
            else:
                worker.place.chunks.appendleft(chunk)

    # --- chunks ---------------------------------------------------------------------------------------------------

    def _feed(self, worker: Worker, chunk: Chunk) -> None:
        assert worker.pipes is not None
        if not worker.pipe:
            worker.place.working = worker
            self._begin(worker, chunk)
        chunk.stop = chunk.until
        worker.pipe.append(chunk)
        self._write(worker, {"type": "chunk", "id": chunk.id, "start": chunk.start, "stop": chunk.stop})

    def _write(self, worker: Worker, request: Json) -> None:
        assert worker.pipes is not None
        if not worker.pipes.has_unsent:
            self._unsent.append(worker)
        worker.pipes.write(line(request))

    def _begin(self, worker: Worker, chunk: Chunk) -> None:
        chunk.since = worker.heard = self._node.loop.monotonic()

    def _take_back(self, chunk: Chunk, reason: str, error: str) -> None:
        if chunk in chunk.worker.pipe:
            chunk.recalled = chunk.recalled or (reason, error)
            self._end_if_recalled(chunk.worker)
        else:
            self._unqueue(chunk)
            self._return(chunk, reason, error)

    def _end_if_recalled(self, worker: Worker) -> None:
        if worker.pipe and worker.pipe[0].recalled is not None:
            self._terminate(worker, *worker.pipe[0].recalled)

    def _end_if_reached(self, worker: Worker) -> None:
        """What it would search next is another's."""
        chunk = worker.pipe[0] if worker.pipe and not worker.trims else None
        if chunk is not None and chunk.position is not None and chunk.until <= chunk.position < chunk.stop:
            self._terminate(worker, "trimmed", "the rest of the chunk was given to another worker")

    def _unqueue(self, chunk: Chunk) -> None:
        chunk.worker.place.chunks.remove(chunk)

    def _drop(self, chunk: Chunk) -> None:
        if self.chunks.pop(chunk.id, None) is not None:
            self.progress.pop(chunk.id, None)
            chunk.worker.queued -= 1
            if chunk.worker.closing:
                self._close_if_done(chunk.worker)

    def _return(self, chunk: Chunk, reason: str, error: str) -> None:
        self._drop(chunk)
        digest = chunk.worker.spec.open["digest"] if chunk.worker is not NOBODY else None
        self._node.facts.add(
            {
                "fact": "returned",
                "chunk": chunk.id,
                "position": chunk.position,
                "digest": digest,
                "hits": chunk.hits,
                "reason": reason,
                "error": error[:_LIMIT_OF_ERROR],
                "at": self._node.loop.wall(),
            }
        )

    # --- what a worker says ---------------------------------------------------------------------------------------

    def _on_data(self, worker: Worker, data: bytes) -> None:
        if worker.pipes is None:
            return
        if not data:  # it cannot answer any more, and mostly exits by itself now
            text = "the worker closed its output and ran on"
            after = partial(self._terminate, worker, "worker_died", text)
            worker.timers.append(self._node.loop.call_later(_EXIT_WITHIN_S, after))
            return
        worker.heard = self._node.loop.monotonic()
        try:
            for item in worker.pipes.lines.feed(data):
                if worker.end_reason not in (None, *_ASKED_TO_END):
                    return
                if not is_bearable(item):
                    raise LineTooLong("a line has too many lists and objects, or too much text that is not ASCII")
                self._on_line(worker, decode(item))
        except RequestError as error:
            self._distrust(worker, str(error))
        except LineTooLong as error:
            advice = "have it find fewer hits per chunk: a smaller max_chunk, or stricter params"
            self._distrust(worker, "%s; %s" % (error, advice))

    def _distrust(self, worker: Worker, error: str) -> None:
        self._kill(worker, "worker_protocol" if worker.is_ready else "worker_start", "bad answer: %s" % error)

    def _on_line(self, worker: Worker, answer: Json) -> None:
        if not worker.is_ready:
            self._on_opened(worker, answer)
            return
        method = self._answers.get(str(answer.get("type")))
        if method is None:
            raise RequestError("unknown type %.80r" % answer.get("type"))
        method(worker, answer)

    def _on_opened(self, worker: Worker, answer: Json) -> None:
        if answer.get("type") == "failed" and "id" not in answer:
            self._kill(worker, "refused", "the worker refused its parameters: %s" % answer.get("error"))
            return
        if answer.get("type") != "opened":
            raise RequestError("expected opened, got %.80r" % answer.get("type"))
        check_digest(answer, worker)
        worker.is_ready, worker.failures, worker.pace_s = True, 0, None
        worker.trims = answer.get("trims") is True
        worker.ahead = answer.get("ahead") is not False
        for timer in worker.timers:
            timer.cancel()
        self._rewatch(worker)
        self._node.touch(worker.place)

    def _on_checkpoint(self, worker: Worker, answer: Json) -> None:
        chunk = in_work(worker, answer)
        position, hits = position_of(answer, chunk), hits_of(answer, chunk)
        has_moved = position != chunk.position
        chunk.position, chunk.hits = position, hits
        chunk.unsaved = chunk.unsaved or has_moved
        if chunk.first is None:
            chunk.first = (worker.heard - chunk.since, position)
        is_short = len(hits) <= _MOST_HITS_TOLD and len(encode(hits)) <= _HIT_BYTES_TOLD
        told = [worker.spec.open["digest"], hits] if is_short else []
        self.progress[chunk.id] = [position, len(hits), *told]
        if chunk.unsaved and worker.heard - chunk.saved_at >= _CHECKPOINT_EVERY_S:
            chunk.saved_at, chunk.unsaved = worker.heard, False
            self._node.record({"op": "checkpoint", "chunk": chunk.id, "position": position, "hits": hits})
        self._end_if_reached(worker)

    def _on_done(self, worker: Worker, answer: Json) -> None:
        chunk = in_work(worker, answer)
        hits = hits_of(answer, chunk)
        check_interval(answer, chunk)
        check_digest(answer, worker)
        elapsed = self._next(worker, chunk)
        self._node.facts.add(
            {
                "fact": "chunk_done",
                "chunk": chunk.id,
                "digest": answer["digest"],
                "start": chunk.start,
                "stop": answer["stop"],
                "hits": hits,
                "at": self._node.loop.wall(),
                "elapsed_s": round(elapsed, 6),
                "overhead_s": chunk.overhead_s(elapsed, answer["stop"]),
            }
        )

    def _on_part(self, worker: Worker, answer: Json) -> None:
        """The worker ends the chunk here, so that its hits are accepted now: the rest is leased anew."""
        chunk = in_work(worker, answer)
        position, hits = position_of(answer, chunk), hits_of(answer, chunk)
        if not chunk.start < position < chunk.stop:
            raise RequestError("a part must end within the chunk, not at %d" % position)
        chunk.position, chunk.hits = position, hits
        self._next(worker, chunk)
        self._return(chunk, "parted", "the worker ended the chunk here; the rest is leased anew")

    def _on_failed(self, worker: Worker, answer: Json) -> None:
        chunk = in_work(worker, answer)
        self._next(worker, chunk)
        self._return(chunk, "failed", str(answer.get("error")))

    def _next(self, worker: Worker, chunk: Chunk) -> float:
        """The chunk in work is answered: the next in the pipe is. Returns how long it took, in seconds."""
        worker.pipe.popleft()
        elapsed = worker.heard - chunk.since
        worker.pace_s = elapsed if worker.pace_s is None else max(elapsed, 0.7 * worker.pace_s + 0.3 * elapsed)
        if worker.pipe:
            self._begin(worker, worker.pipe[0])
            self._end_if_recalled(worker)
        else:
            worker.place.working = None
        self._drop(chunk)
        self._node.touch(worker.place)
        return elapsed

    def _mark(self, name: str) -> str:
        return "HOSTLER_WORKER_DIR=" + self._path(name)

    def _path(self, name: str, *parts: str) -> str:
        return self._node.path("workers", name, *parts)
