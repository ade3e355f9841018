"""The client of programs that do something else meanwhile: httpx2, whose connections are kept for the next request."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

import httpx2

from hostler.client import trust, wire
from hostler.client.address import Address, address_from, address_in, rests
from hostler.client.bounds import BODY_BYTES_MAX, Bounds, Lines
from hostler.client.calls import API, DONE, PIECE, RECONNECT_S, Answer, Ask, Pages, Told, Work, entry_of, part
from hostler.client.operations import Operations
from hostler.client.plain import TIMEOUT_S
from hostler.model.errors import ControllerAbsent, ControllerStarting, HostlerError, LinkLost

if TYPE_CHECKING:
    from hostler.client.jobs import AsyncGroup, AsyncJob
    from hostler.client.submission import Grid, ManyJobs, OneJob

T = TypeVar("T")

KEPT_S = 2.0
"""How long a connection is kept that nothing is asked over; the controller would hang up after 5 s."""
KEPT = httpx2.Limits(max_keepalive_connections=4, keepalive_expiry=KEPT_S)


class AsyncClient(Operations):
    """A controller, asked over HTTP by an asyncio program; otherwise like `Client`.

    It keeps connections: leave it by `async with`, or call `aclose`. It is for one event loop.
    """

    _awaits = True

    def __init__(
        self, locate: Callable[[], Address], *, timeout_s: float = TIMEOUT_S, home: Path | None = None
    ) -> None:
        """`locate` is asked before every request: a restarted controller may answer elsewhere.

        `home` is its state directory where it is on this machine: jobs then run the programs that this one would.
        """
        self._locate = locate
        self._home = home
        self._timeout_s = timeout_s
        self._has_answered = False
        self._kept: dict[Address, httpx2.AsyncClient] = {}

    @classmethod
    def from_state_dir(cls, path: Path, *, timeout_s: float = TIMEOUT_S) -> AsyncClient:
        """The controller that holds this state directory, whichever it is at each request."""
        return cls(partial(address_in, path), timeout_s=timeout_s, home=path)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *, timeout_s: float = TIMEOUT_S) -> AsyncClient:
        """The controller that `$HOSTLER_URL` and `$HOSTLER_TOKEN` name, on any machine."""
        return cls(partial(address_from, environ), timeout_s=timeout_s)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Hang up."""
        while self._kept:
            _, kept = self._kept.popitem()
            await kept.aclose()

    @overload
    async def submit(
        self, argv: Sequence[object], *, grid: None = None, repeat: None = None, **options: Unpack[OneJob]
    ) -> AsyncJob: ...
    @overload
    async def submit(
        self, argv: Sequence[object], *, grid: Grid, repeat: int | None = None, **options: Unpack[ManyJobs]
    ) -> AsyncGroup: ...
    @overload
    async def submit(
        self, argv: Sequence[object], *, grid: None = None, repeat: int, **options: Unpack[ManyJobs]
    ) -> AsyncGroup: ...
    async def submit(self, argv: Sequence[object], **options: Any) -> AsyncJob | AsyncGroup:
        """Submit a command, a list of words: a program and its arguments, for no shell. Returns the job.

        The files of the folder `cwd` (by default the current one) are sent with it, as they are now. `options` are the
        fields of `hostler.JobOptions`: name, key, after, priority, cwd, in_place, files, outputs, env, python_env,
        walltime_s, device, gpus, vram_gb, memory_gb, cpus, shards, shared, tiers, nodes, exclude_nodes, gpu_models,
        exclude_gpu_models, providers, labels, max_attempts, require_result, work, config, expected_s, checkpoints;
        besides strict and allow_large.

        With `grid` (`{"lr": [0.1, 0.03]}`, or a list with the parameters of each job) or `repeat` it is a job group:
        `{lr}` in the command, `env`, `name` and `outputs` becomes the value, and `max_running` and `max_failures` limit
        it. Returns the group.

        Notes, such as that a job fits on no device now, are warnings (`HostlerWarning`); with `strict=True` they are
        errors.
        """
        from hostler.client import submission  # no other operation needs what it imports
        from hostler.client.jobs import AsyncGroup, AsyncJob, HostlerWarning

        made = await self._do(submission.submit(argv, options, self._home))
        for note in made.notes:
            warnings.warn(note, HostlerWarning, stacklevel=2)
        return AsyncGroup(self, made.view, made.notes) if made.is_group else AsyncJob(self, made.view, made.notes)

    async def attach(self, name: str) -> AsyncJob:
        """The job of this id, key or unique name. Raises `NotFound`."""
        wire.expect_job(name)
        from hostler.client.jobs import AsyncJob

        (view,) = await self.named([name])
        return AsyncJob(self, view)

    async def attach_group(self, name: str) -> AsyncGroup:
        """The job group of this id. Raises `NotFound`."""
        from hostler.client.jobs import AsyncGroup

        return AsyncGroup(self, await self.group(name))

    async def events(
        self, after: int | None = None, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> AsyncGenerator[Any, None]:
        """Journal entries beyond number `after` (`None`: from now on) as they happen, without end: `Entry`.

        A broken stream is taken up where it broke, without gap or doublet, also from a restarted controller; the
        error is raised when `RECONNECT_S` is used up without a word from one.
        """
        known, failures = after, 0
        while True:
            try:
                async with aclosing(self._stream(known)) as stream:
                    is_first = True
                    async for number, entry in stream:
                        # The first frame comes from a controller that is about to end, too.
                        known, failures, is_first = number, failures if is_first else 0, False
                        if entry is not None:
                            yield entry
                if failures == len(RECONNECT_S):
                    raise LinkLost("the event stream ends again and again; look at the log of the controller")
            except (LinkLost, ControllerAbsent):
                if failures == len(RECONNECT_S):
                    raise
            await sleep(RECONNECT_S[failures])
            failures += 1

    async def content(self, name: str) -> AsyncGenerator[bytes, None]:
        """The bytes of an artifact, piece by piece. They are worth something once the last one has come.

        Raises `FilesError` where they have another hash, `LinkLost` where some of them did not come.
        """
        async with self._ask(Ask("GET", f"{API}/artifacts/{part(name)}/content")) as response:
            checked = wire.Checked({name.lower(): value for name, value in response.headers.items()}, _origin(response))
            async for piece in response.aiter_raw(PIECE):
                yield checked.feed(piece)
            checked.end()

    async def _do(self, steps: Answer[T]) -> T:
        try:
            wanted = next(steps)
            while True:
                try:
                    told = await self._told(wanted)
                except HostlerError as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(told)
        except StopIteration as end:
            made: T = end.value
            return made
        except LinkLost as error:
            if self._has_answered:
                raise
            raise await asyncio.to_thread(trust.explained, self._locate(), error) from error.__cause__

    async def _walk(self, pages: Pages[T]) -> AsyncIterator[T]:
        here: Pages[T] | None = pages
        while here is not None:
            page = await self._do(here.fetch())
            for row in page.value:
                yield row
            here = page.next

    async def _told(self, wanted: Ask | float | Work[Any]) -> Told:
        if isinstance(wanted, Work):
            await asyncio.to_thread(wanted.run)
            return DONE
        if isinstance(wanted, float):
            await asyncio.sleep(wanted)
            return DONE
        async with self._ask(wanted) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Told(await self._read(response), headers, _origin(response))

    async def _stream(self, after: int | None) -> AsyncGenerator[tuple[int, Any], None]:
        """Numbers and entries; the first number comes without an entry, as it is where the stream begins. A frame that
        brings nothing, such as a heartbeat, has the number before it."""
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        async with self._ask(Ask("GET", f"{API}/events", None, headers)) as response:
            url = _origin(response)
            frames, lines = wire.Frames(url), Lines(url, self._timeout_s)
            wire.expect_stream({name.lower(): value for name, value in response.headers.items()}, url)
            number = 0
            async for piece in response.aiter_raw():
                for line in lines.feed(piece):
                    frame = frames.feed(line)
                    if frame:
                        number, entry = entry_of(frame, url) if "id" in frame else (number, None)
                        yield number, entry

    async def _located(self) -> Address:
        """Where the controller answers. One that is starting is waited for."""
        for rest in rests(self._timeout_s):
            try:
                return self._locate()
            except ControllerStarting:
                await asyncio.sleep(rest)
        return self._locate()

    @asynccontextmanager
    async def _ask(self, ask: Ask) -> AsyncIterator[httpx2.Response]:
        """An answer that is a success, its body yet to be read."""
        address = await self._located()
        known = {"Accept-Encoding": "identity", **ask.headers, "Authorization": f"Bearer {address.token}"}
        kept = await self._connections(address)
        try:
            async with kept.stream(ask.method, address.url + ask.target, content=ask.body, headers=known) as response:
                self._has_answered = True
                if response.status_code >= 300:
                    raise wire.told(address, response.status_code, await self._read(response))
                yield response
        except httpx2.TransportError as error:
            raise _broken(address, error) from error

    async def _read(self, response: httpx2.Response) -> bytes:
        """The whole body. Raises `AnswerError` beyond its bounds."""
        bounds, body = Bounds(_origin(response), self._timeout_s, BODY_BYTES_MAX), bytearray()
        async for piece in response.aiter_raw():
            bounds.count(len(piece))
            body += piece
        return bytes(body)

    async def _connections(self, address: Address) -> httpx2.AsyncClient:
        """Those to where the controller is now; those to where it was are hung up."""
        if address not in self._kept:
            await self.aclose()
            verify = trust.tls(address) if address.url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._kept[address] = httpx2.AsyncClient(
                verify=verify, timeout=self._timeout_s, limits=KEPT, trust_env=False
            )
        return self._kept[address]


def _origin(response: httpx2.Response) -> str:
    """The address of the controller that answered."""
    return str(response.url.join("/")).rstrip("/")


def _broken(address: Address, error: httpx2.TransportError) -> HostlerError:
    """What a broken connection means; the library tells the cause only along with its own errors."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return trust.fault(address, cause)
        if isinstance(cause, ConnectionRefusedError):
            return wire.absent(address.url)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout):
        return wire.lost(address.url, TimeoutError())
    return wire.absent(address.url) if isinstance(error, httpx2.ConnectError) else wire.lost(address.url, error)
