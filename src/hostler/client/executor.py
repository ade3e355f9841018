"""Function calls on the fleet: `Executor` is a `concurrent.futures.Executor`, `AsyncExecutor` its awaitable form.

::

    with Executor(gpus=1, cwd=".") as executor:
        for loss in executor.map(train, [1e-2, 1e-3, 1e-4]):
            print(loss)

Calls are pickled where they are submitted, gathered for a moment, and sent as a batch: one sweep over `[0, n)`, whose
items are the calls (docs/decisions/0034). So each call has exactly one accepted result, also where nodes are lost and
the controller is restarted in between; a call whose node was lost runs again. One thread sends batches and reads
results; it ends when nothing is left to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import secrets
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from hostler.client.call_errors import CallFailed
from hostler.client.calls import PAGE, Answer, Rows, Submitted, part, rows
from hostler.model.errors import (
    ControllerAbsent,
    FilesChanged,
    HostlerError,
    LinkLost,
    StandsBy,
    UsageError,
)

if TYPE_CHECKING:
    from hostler.client.awaited import AsyncClient
    from hostler.client.call_batches import PickledCall
    from hostler.client.plain import Client
    from hostler.snapshots.folder import FolderSnapshot

T = TypeVar("T")
P = ParamSpec("P")

QUIET_S = 0.01
"""A batch is sent when no call was added for so long,"""
GATHER_S = 0.1
"""or when its first call has waited for so long; both are longer the more batches are out."""
LONGEST_GATHER_S = 2.0
BATCHES_EASY = 4
"""The times double with each so many batches that are out."""
SOONEST_S, LATEST_S = 0.02, 1.0
"""Rests between two looks for results of a batch: short while results come, longer in silence."""
SLOWER = 1.3
ASKED_EVERY_S = 1.0
"""How often the state of a batch without new results is asked for."""
PER_BATCH_S = 0.01
"""With many batches out, the rests are at least so long for each of them."""
PAGE_BYTES = 8 << 20
"""Results of one request, as far as their sizes can be known before."""
FIRST_PAGE = 8
AWAY_S = 3600.0
AWAY_RESTS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
TARGET_S = 1.0
"""Calls that take less are put into chunks that take so long."""
SILENCE_S = 120.0
"""The worker reports every second whatever its call does; a machine that swaps may take longer."""
DEATHS_MAX = 10_000
"""Workers that may die in one batch: what a call does to them is counted by the worker itself."""
NAME_LENGTH = 200
LOG = logging.getLogger("concurrent.futures")
"""Where that package tells of callbacks that raise; without handlers it is standard error."""


def _line_of_caller() -> tuple[str, int] | None:
    """File and line of the program that called this module."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") == __name__ and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


class _Call(NamedTuple):
    pickled: PickledCall
    future: Future[Any]
    name: str


class _Batch:
    """A batch that is out: its job, and the futures that have no result yet."""

    def __init__(self, job: str, waiting: dict[int, Future[Any]]) -> None:
        self.job = job
        self.waiting = waiting
        self.read = 0
        self.page = FIRST_PAGE
        self.rest_s = SOONEST_S
        self.due_at = time.monotonic() + SOONEST_S
        self.asked_at = time.monotonic()


class Executor(futures.Executor):
    """Runs calls on the devices of a fleet.

    `device` is `gpu`, `cpu` or `any`; `gpus=1` means `device="gpu"`, `gpus=0` `device="cpu"`; by default any device
    will do. `resources` has more of what a call needs, as in a job (`vram_gb`, `nodes`, `labels`, …). At most
    `max_workers` calls are out at the same time. `cwd` is a folder whose files are sent along: calls start in a
    copy of it and import from it; one of more than 1 GB needs `allow_large`. `python` is the interpreter on the
    nodes, by default that of the fleet file; it must be of the client's version. With `trust` results and
    exceptions of any type come back as pickles; without it, JSON values and arrays do, and nothing that a node
    sends is unpickled. A controller that has answered once, and then cannot be reached, is waited for `away_s`
    seconds. That no device can take a batch as the fleet is now is a warning (`HostlerWarning`), once for each
    reason.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        device: str | None = None,
        gpus: int | None = None,
        max_workers: int | None = None,
        cwd: str | os.PathLike[str] | None = None,
        python: str | None = None,
        trust: bool = False,
        name: str | None = None,
        priority: int = 0,
        resources: Mapping[str, Any] | None = None,
        away_s: float = AWAY_S,
        allow_large: bool = False,
    ) -> None:
        """Raises `UsageError` for options that contradict each other."""
        self._client = client
        self._resources = {**(resources or {}), **_device(device, gpus)}
        if max_workers is not None and (type(max_workers) is not int or max_workers < 1):
            raise UsageError(f"max_workers is {max_workers!r:.40}. Give a whole number, 1 or more")
        self._most = max_workers
        self._cwd = None if cwd is None else Path(cwd)
        self._python = python
        self._trust = trust
        self._name = name
        self._priority = priority
        self._away_s = away_s
        self._allow_large = allow_large
        self._project: FolderSnapshot | None = None
        """The files of `cwd` as the controller has them."""
        self._answered = False
        self._caller: tuple[str, int] | None = None
        """The line of the program that submitted last, to which warnings point."""
        """Whether a controller ever did."""
        self._warned = set[tuple[bool, str]]()
        self._dumps: Callable[[Any], bytes] | None = None
        self._changed = threading.Condition()
        """Guards all that follows."""
        self._pending: deque[_Call] = deque()
        self._first_at = self._last_at = 0.0
        self._batches: list[_Batch] = []
        self._thread: threading.Thread | None = None
        self._closed = False
        self._cancelling = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """The future of one call. Its arguments are pickled now; what cannot be pickled is the future's exception."""
        future: Future[T] = Future()
        self._caller = _line_of_caller()
        self._add([self._pickled(fn, self._function(fn), args, kwargs, future)])
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """The values of the calls in the order of their arguments, each as soon as it and all before it are there.

        With `buffersize`, so many calls are out at most beyond the value that is read next; without it all are
        submitted at once. `chunksize` is not used: the scheduler makes chunks by measured speed.
        """
        if chunksize < 1 or (buffersize is not None and buffersize < 1):
            raise ValueError("chunksize and buffersize are at least 1")
        self._caller = _line_of_caller()
        function = self._function(fn)
        arguments = zip(*iterables, strict=False)
        end = None if timeout is None else time.monotonic() + timeout

        def submitted(count: int | None) -> list[Future[T]]:
            calls = list[_Call | None]()
            made = list[Future[T]]()
            for args in arguments if count is None else _first(arguments, count):
                future: Future[T] = Future()
                calls.append(self._pickled(fn, function, args, {}, future))
                made.append(future)
            self._add(calls)
            return made

        return _values(deque(submitted(buffersize)), submitted if buffersize else None, end)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and with `wait` return when all are over.

        `cancel_futures` cancels those that are not sent yet and ends the batches that are out: their futures raise
        `CancelledError`.
        """
        with self._changed:
            self._closed = True
            self._cancelling = self._cancelling or cancel_futures
            if cancel_futures:
                self._start()
            self._changed.notify_all()
            thread = self._thread
        if wait and thread is not None:
            thread.join()

    # --- calls ------------------------------------------------------------------------------------------------------

    def _function(self, fn: Callable[..., Any]) -> bytes | Exception:
        """The function as it is now."""
        if self._dumps is None:
            from hostler.client.call_batches import pickler

            self._dumps = pickler()
        return _pickle(self._dumps, fn)

    def _pickled(
        self,
        fn: Callable[..., Any],
        function: bytes | Exception,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        future: Future[Any],
    ) -> _Call | None:
        """`None`: it cannot be sent, which its future has as its exception."""
        from hostler.client.call_batches import CALL_BYTES, PickledCall

        assert self._dumps is not None
        arguments = _pickle(self._dumps, (args, dict(kwargs)))
        for found in (function, arguments):
            if isinstance(found, Exception):
                future.set_exception(found)
                return None
        assert isinstance(function, bytes)
        assert isinstance(arguments, bytes)
        pickled = PickledCall(function, arguments)
        if pickled.size > CALL_BYTES:
            future.set_exception(
                UsageError(
                    f"the call takes {pickled.size} bytes as a pickle; at most {CALL_BYTES} are sent. Put its data "
                    "into a file of `cwd`, or where the nodes can read it"
                )
            )
            return None
        return _Call(pickled, future, getattr(fn, "__qualname__", type(fn).__qualname__))

    def _add(self, calls: Sequence[_Call | None]) -> None:
        with self._changed:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            now = time.monotonic()
            self._first_at = self._first_at if self._pending else now
            self._last_at = now
            self._pending.extend(call for call in calls if call is not None)
            if self._pending:
                self._start()
                self._changed.notify_all()

    def _start(self) -> None:
        """Start the thread, unless it runs or has nothing to do; the lock is held."""
        if self._thread is None and (self._pending or self._batches):
            self._thread = threading.Thread(target=self._work, name="hostler-executor")
            self._thread.start()

    # --- the thread -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._cancelling:
                    _cancel(self._pending)
                if not self._pending and not self._batches:
                    self._thread = None
                    return
                calls = self._due()
                cancelled = list(self._batches) if self._cancelling else []
                if not calls and not cancelled:
                    self._changed.wait(self._rest_s())
                batches = [batch for batch in self._batches if batch.due_at <= time.monotonic()]
            if calls:
                self._send(calls)
            for batch in cancelled:
                self._end(batch, "its executor was shut down", futures.CancelledError())
            for batch in batches:
                self._look(batch)

    def _due(self) -> list[_Call]:
        """The calls of the next batch, if it is to be sent now; the lock is held."""
        room = self._room()
        if not self._pending or not room:
            return []
        if len(self._pending) < room and not self._closed and self._send_at() > time.monotonic():
            return []
        from hostler.client.call_batches import BATCH_BYTES

        calls, size, functions = list[_Call](), 0, set[bytes]()
        while self._pending and len(calls) < room:
            pickled = self._pending[0].pickled
            size += len(pickled.arguments) + (0 if pickled.function in functions else len(pickled.function))
            functions.add(pickled.function)
            if calls and size > BATCH_BYTES:
                break
            call = self._pending.popleft()
            if call.future.set_running_or_notify_cancel():
                calls.append(call)
        self._first_at = time.monotonic()
        return calls

    def _room(self) -> int:
        """How many calls the next batch may have."""
        from hostler.client.call_batches import CALLS_MAX

        if self._most is None:
            return CALLS_MAX
        return max(min(CALLS_MAX, self._most - sum(len(batch.waiting) for batch in self._batches)), 0)

    def _send_at(self) -> float:
        longer: float = 2.0 ** (len(self._batches) / BATCHES_EASY)
        quiet_s, gather_s = (min(each * longer, LONGEST_GATHER_S) for each in (QUIET_S, GATHER_S))
        return min(self._last_at + quiet_s, self._first_at + gather_s)

    def _rest_s(self) -> float:
        """Until something is due."""
        at = [batch.due_at for batch in self._batches]
        if self._pending and self._room():
            at.append(self._send_at())
        return max(min(at, default=time.monotonic() + LATEST_S) - time.monotonic(), 0.0)

    def _send(self, calls: list[_Call]) -> None:
        """Send a batch. What fails is the exception of its futures."""
        try:
            submitted = self._submitted(calls)
        except Exception as error:  # noqa: BLE001 - whatever it is, no future may be left without it
            for call in calls:
                _settle(call.future, error=error)
            return
        (job,) = submitted
        batch = _Batch(job, {at: call.future for at, call in enumerate(calls)})
        with self._changed:
            self._batches.append(batch)
        try:
            self._warn(submitted.notes)
        except Warning as error:  # a filter makes errors of warnings
            self._end(batch, "a note on it was an error", error)

    def _warn(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Tell the notes on a batch whose reasons were not told before."""
        new = [note for note in notes if (note["fits"], note["why"]) not in self._warned]
        if not new:
            return
        from hostler.client.jobs import HostlerWarning
        from hostler.client.notes import note_texts

        self._warned.update((note["fits"], note["why"]) for note in new)
        for text in note_texts(new, ()):
            if self._caller is None:
                warnings.warn(text, HostlerWarning, stacklevel=2)
            else:  # this thread is not the one that submitted
                warnings.warn_explicit(text, HostlerWarning, *self._caller)

    def _submitted(self, calls: list[_Call]) -> Submitted:
        from hostler.client.call_batches import params_of, write_batch
        from hostler.model.calls import FOLDER

        with tempfile.TemporaryDirectory(prefix="hostler-") as folder:
            batch = write_batch(Path(folder) / FOLDER, [call.pickled for call in calls])
            params = params_of(len(calls), self._trust, batch)
            snapshot = self._sent(Path(folder))
        spec = self._spec(calls, params, snapshot)
        return self._asked(lambda client: client.submit_jobs([spec]))

    def _sent(self, folder: Path) -> str:
        """Send the files of a batch with those of `cwd`, which are read again where they change meanwhile; returns the
        digest of the snapshot.
        """
        from hostler.client.call_batches import snapshot_of
        from hostler.client.snapshots import CHANGES_MAX

        for left in range(CHANGES_MAX, -1, -1):
            project = self._taken() if self._project is None else self._project
            try:
                digest = self._asked(partial(_send_snapshot, snapshot_of(folder, project)))
            except (FilesChanged, FileNotFoundError):
                self._project = None
                if not left:
                    raise
            else:
                self._project = project
                return digest
        raise AssertionError("unreachable")

    def _taken(self) -> FolderSnapshot | None:
        """The files of `cwd` as they are now, without the controller's own folder."""
        if self._cwd is None:
            return None
        from hostler.client.snapshots import expect_small
        from hostler.snapshots.folder import hashed, measured

        folder = self._cwd.resolve()
        home = self._asked(lambda client: client._home)
        skip = None if home is None else home.resolve()
        if folder == skip:
            raise UsageError(f"{folder} is the controller's own folder, which is not sent. Give another one as cwd")
        sizes = measured(folder, skip=skip)
        expect_small(sizes, self._allow_large)
        return hashed(sizes)

    def _spec(self, calls: list[_Call], params: Mapping[str, Any], snapshot: str) -> Mapping[str, Any]:
        from hostler.model.calls import WORKER

        text = json.dumps(params, sort_keys=True, separators=(",", ":"))
        names = list(dict.fromkeys(call.name for call in calls))
        name = self._name or names[0] + ("" if len(names) == 1 else f" and {len(names) - 1} other functions")
        return {
            "name": name[:NAME_LENGTH],
            "key": f"calls-{secrets.token_hex(16)}",
            "priority": self._priority,
            "resources": self._resources,
            "retry": {"max_attempts": {"worker": DEATHS_MAX}},
            "payload": {
                "kind": "sweep",
                "schema": 1,
                "start": 0,
                "stop": len(calls),
                "worker": [self._python or "{python}", WORKER],
                "params": params,
                "digest": hashlib.sha256(text.encode("ascii")).hexdigest(),
                "snapshot": snapshot,
                "max_hits": len(calls),
                "target_s": TARGET_S,
                "silence_s": SILENCE_S,
                "uneven": True,
            },
        }

    def _look(self, batch: _Batch) -> None:
        """Read new results of a batch, and what became of it where there are none."""
        try:
            found = self._asked(lambda client: _hits(client, batch.job, batch.read, batch.page))
            self._settle(batch, found)
            if not found and batch.waiting and time.monotonic() - batch.asked_at >= ASKED_EVERY_S:
                self._look_at_job(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, no future may be left without it
            _fail(batch, error)
        with self._changed:
            if not batch.waiting and batch in self._batches:
                self._batches.remove(batch)
            least_s = min(PER_BATCH_S * len(self._batches), LATEST_S)
            batch.due_at = time.monotonic() + max(batch.rest_s, least_s)

    def _settle(self, batch: _Batch, hits: Sequence[Mapping[str, Any]]) -> None:
        from hostler.client.call_results import outcome

        if not hits:
            batch.rest_s = min(batch.rest_s * SLOWER, LATEST_S)
            return
        batch.rest_s = 0.0 if len(hits) == batch.page else SOONEST_S
        batch.read += len(hits)
        size = sum(_size(hit["data"]) for hit in hits) / len(hits)
        batch.page = max(1, min(PAGE, int(PAGE_BYTES / max(size, 1))))
        for hit in hits:
            future = batch.waiting.pop(hit["at"], None)
            if future is None:
                continue
            value, error = outcome(hit["data"], trust=self._trust)
            _settle(future, value, error)

    def _look_at_job(self, batch: _Batch) -> None:
        batch.asked_at = time.monotonic()
        detail = self._asked(lambda client: client.job(batch.job))
        job, sweep = detail["job"], detail["sweep"]
        # Results can be read a moment later than counted.
        if job["state"] in ("failed", "cancelled") and (sweep is None or batch.read >= sweep["hits"]):
            from hostler.client.call_results import printable

            why = f": {printable(job['why'])}" if job["why"] else ""
            raise CallFailed(f"the batch {batch.job} {_ended(job['state'])}{why}")

    def _end(self, batch: _Batch, why: str, error: BaseException) -> None:
        """Cancel a batch that is out; its futures get the error."""
        with contextlib.suppress(HostlerError):  # it may be over already
            self._asked(lambda client: client.cancel(batch.job, why))
        _fail(batch, error)
        with self._changed:
            self._batches.remove(batch)

    def _asked(self, question: Callable[[Client], T]) -> T:
        """The answer of the controller; one that has answered before and cannot be reached is waited for."""
        until, rests = time.monotonic() + self._away_s, list(AWAY_RESTS_S)
        while True:
            try:
                return question(self._known())
            except (LinkLost, ControllerAbsent, StandsBy) as error:
                self._answered = self._answered or isinstance(error, StandsBy)
                if not self._answered:
                    raise
                rest_s = rests.pop(0) if len(rests) > 1 else rests[0]
                if time.monotonic() + rest_s > until or (self._cancelling and len(rests) == 1):
                    raise
                time.sleep(rest_s)

    def _known(self) -> Client:
        """The client, whose controller has answered once: what sends files would try for long."""
        if self._client is None:
            self._client = _connected()
        elif not self._answered:
            self._client.status()
        self._answered = True
        return self._client


class AsyncExecutor:
    """`Executor` for coroutines, with the same options: `await executor.submit(fn, 1)`, `async for` over `map`."""

    def __init__(self, client: Client | AsyncClient | None = None, **options: Any) -> None:
        """The options of `Executor`."""
        from hostler.client.plain import Client

        plain = client if client is None or isinstance(client, Client) else Client(client._locate, home=client._home)
        self._executor = Executor(plain, **options)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """The future of one call, to be awaited."""
        return asyncio.wrap_future(self._executor.submit(fn, *args, **kwargs))

    async def map(self, fn: Callable[..., T], *iterables: Iterable[Any]) -> AsyncIterator[T]:
        """The values of the calls in the order of their arguments."""
        made = [self.submit(fn, *args) for args in zip(*iterables, strict=False)]
        try:
            for future in made:
                yield await future
        finally:
            for future in made:
                future.cancel()

    async def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of `Executor`."""
        self._executor.shutdown(wait=False, cancel_futures=cancel_futures)
        if wait:
            await asyncio.to_thread(self._executor.shutdown, wait=True)

    async def __aenter__(self) -> AsyncExecutor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()


def _device(device: str | None, gpus: int | None) -> dict[str, str]:
    if gpus is not None and gpus not in (0, 1):
        raise UsageError(f"gpus is {gpus}; a call has one GPU (gpus=1) or none (gpus=0). For more, submit a job")
    meant = None if gpus is None else ("gpu" if gpus else "cpu")
    if device is not None and device not in ("any", "cpu", "gpu"):
        raise UsageError(f"device is {device!r}; it is 'any', 'cpu' or 'gpu'")
    if meant is not None and device not in (None, meant):
        raise UsageError(f"device={device!r} and gpus={gpus} contradict each other. Give one of them")
    chosen = device or meant
    return {} if chosen is None else {"device": chosen}


def _connected() -> Client:
    from hostler.client.connecting import connect

    return connect()


def _pickle(dumps: Callable[[Any], bytes], value: Any) -> bytes | Exception:
    try:
        return dumps(value)
    except Exception as error:  # noqa: BLE001 - whatever the values' own code raises
        return error


def _hits(client: Client, job: str, after: int, limit: int) -> Rows[Any]:
    def ask() -> Answer[Rows[Any]]:
        return rows(f"/sweeps/{part(job)}/hits", limit, after=after)

    return client._do(ask())


def _send_snapshot(snapshot: FolderSnapshot, client: Client) -> str:
    return client.send_snapshot(snapshot)


def _size(data: Mapping[str, Any]) -> int:
    return sum(len(value) for value in data.values() if isinstance(value, str)) + 100


def _ended(state: str) -> str:
    return "failed" if state == "failed" else "was cancelled"


def _fail(batch: _Batch, error: BaseException) -> None:
    for future in batch.waiting.values():
        _settle(future, error=error)
    batch.waiting.clear()


def _settle(future: Future[Any], value: Any = None, error: BaseException | None = None) -> None:
    """Give a future what its call came to. What a callback of it raises must not end the thread."""
    with _callbacks(future):
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


@contextlib.contextmanager
def _callbacks(future: Future[Any]) -> Iterator[None]:
    """Tells what callbacks raise that futures let pass, such as `SystemExit`, as futures tell of other exceptions."""
    try:
        yield
    except BaseException:
        LOG.exception("exception calling callback for %r", future)


def _cancel(calls: deque[_Call]) -> None:
    while calls:
        call = calls.popleft()
        with _callbacks(call.future):
            call.future.cancel()
        if call.future.cancelled():
            call.future.set_running_or_notify_cancel()


def _first(arguments: Iterator[T], count: int) -> Iterator[T]:
    for _ in range(count):
        try:
            yield next(arguments)
        except StopIteration:
            return


def _values(made: deque[Future[T]], more: Callable[[int], list[Future[T]]] | None, end: float | None) -> Iterator[T]:
    try:
        while made:
            future = made.popleft()
            try:
                value = future.result(None if end is None else max(end - time.monotonic(), 0.0))
            finally:
                future.cancel()
            if more is not None:
                made.extend(more(1))
            yield value
    finally:
        for future in made:
            future.cancel()
