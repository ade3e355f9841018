"""The client of programs that wait: a connection for each request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from httptools import HttpParserError

from hostler.client import trust, wire
from hostler.client.address import Address, address_from, address_in, rests
from hostler.client.calls import API, DONE, PIECE, RECONNECT_S, Answer, Ask, Pages, Told, Work, entry_of, part
from hostler.client.connection import Incomplete, Response, connected, exchange
from hostler.client.operations import Operations
from hostler.model.errors import ControllerAbsent, ControllerStarting, HostlerError, LinkLost

if TYPE_CHECKING:
    from hostler.client.jobs import Group, Job
    from hostler.client.submission import Grid, ManyJobs, OneJob

T = TypeVar("T")

TIMEOUT_S = 60.0
"""Longest silence of the controller; several heartbeats of an event stream fit into it."""


class Client(Operations):
    """A controller, asked over HTTP. A job is named by its id, its key, or its unique name.

    Raises the error that the controller answers with, `ControllerAbsent` where none runs, and `LinkLost` where it
    stopped answering: what was asked may have been done then, and under a key may safely be asked again.
    """

    _waits = True

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

    @classmethod
    def from_state_dir(cls, path: Path, *, timeout_s: float = TIMEOUT_S) -> Client:
        """The controller that holds this state directory, whichever it is at each request."""
        return cls(partial(address_in, path), timeout_s=timeout_s, home=path)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *, timeout_s: float = TIMEOUT_S) -> Client:
        """The controller that `$HOSTLER_URL` and `$HOSTLER_TOKEN` name, on any machine."""
        return cls(partial(address_from, environ), timeout_s=timeout_s)

    @overload
    def submit(
        self, argv: Sequence[object], *, grid: None = None, repeat: None = None, **options: Unpack[OneJob]
    ) -> Job: ...
    @overload
    def submit(
        self, argv: Sequence[object], *, grid: Grid, repeat: int | None = None, **options: Unpack[ManyJobs]
    ) -> Group: ...
    @overload
    def submit(
        self, argv: Sequence[object], *, grid: None = None, repeat: int, **options: Unpack[ManyJobs]
    ) -> Group: ...
    def submit(self, argv: Sequence[object], **options: Any) -> Job | Group:
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
        import warnings

        from hostler.client import submission  # no other operation needs what it imports
        from hostler.client.jobs import Group, HostlerWarning, Job

        made = self._do(submission.submit(argv, options, self._home))
        for note in made.notes:
            warnings.warn(note, HostlerWarning, stacklevel=2)
        return Group(self, made.view, made.notes) if made.is_group else Job(self, made.view, made.notes)

    def attach(self, name: str) -> Job:
        """The job of this id, key or unique name. Raises `NotFound`."""
        wire.expect_job(name)
        from hostler.client.jobs import Job

        (view,) = self.named([name])
        return Job(self, view)

    def attach_group(self, name: str) -> Group:
        """The job group of this id. Raises `NotFound`."""
        from hostler.client.jobs import Group

        return Group(self, self.group(name))

    def events(self, after: int | None = None, *, sleep: Callable[[float], None] = time.sleep) -> Iterator[Any]:
        """Journal entries beyond number `after` (`None`: from now on) as they happen, without end: `Entry`.

        A broken stream is taken up where it broke, without gap or doublet, also from a restarted controller; the
        error is raised when `RECONNECT_S` is used up without a word from one.
        """
        known, failures = after, 0
        while True:
            try:
                is_first = True
                for number, entry in self._stream(known):
                    # The first frame comes from a controller that is about to end, too.
                    known, failures, is_first = number, failures if is_first else 0, False
                    if entry is not None:
                        yield entry
                if failures == len(RECONNECT_S):
                    raise LinkLost("the event stream ends again and again; look at the log of the controller")
            except (LinkLost, ControllerAbsent):
                if failures == len(RECONNECT_S):
                    raise
            sleep(RECONNECT_S[failures])
            failures += 1

    def content(self, name: str) -> Iterator[bytes]:
        """The bytes of an artifact, piece by piece. They are worth something once the last one has come.

        Raises `FilesError` where they have another hash, `LinkLost` where some of them did not come.
        """
        with self._ask(Ask("GET", f"{API}/artifacts/{part(name)}/content")) as response:
            checked = wire.Checked(response.headers, response.url)
            while piece := _read(response, PIECE):
                yield checked.feed(piece)
            checked.end()

    def _do(self, steps: Answer[T]) -> T:
        try:
            wanted = next(steps)
            while True:
                try:
                    told = self._told(wanted)
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
            raise trust.explained(self._locate(), error) from error.__cause__

    def _walk(self, pages: Pages[T]) -> Iterator[T]:
        here: Pages[T] | None = pages
        while here is not None:
            page = self._do(here.fetch())
            yield from page.value
            here = page.next

    def _told(self, wanted: Ask | float | Work[Any]) -> Told:
        if isinstance(wanted, Work):
            wanted.run()
            return DONE
        if isinstance(wanted, float):
            time.sleep(wanted)
            return DONE
        with self._ask(wanted) as response:
            return Told(_read(response), response.headers, response.url)

    def _stream(self, after: int | None) -> Iterator[tuple[int, Any]]:
        """Numbers and entries; the first number comes without an entry, as it is where the stream begins. A frame that
        brings nothing, such as a heartbeat, has the number before it."""
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        with self._ask(Ask("GET", f"{API}/events", None, headers)) as response:
            wire.expect_stream(response.headers, response.url)
            number = 0
            while frame := _frame(response):
                number, entry = entry_of(frame, response.url) if "id" in frame else (number, None)
                yield number, entry

    def _located(self) -> Address:
        """Where the controller answers. One that is starting is waited for."""
        for rest in rests(self._timeout_s):
            try:
                return self._locate()
            except ControllerStarting:
                time.sleep(rest)
        return self._locate()

    @contextmanager
    def _ask(self, ask: Ask) -> Iterator[Response]:
        """An answer that is a success, its body yet to be read."""
        address = self._located()
        with closing(connected(address, self._timeout_s)) as connection:
            known = Ask(*ask[:3], {**ask.headers, "Authorization": f"Bearer {address.token}"})
            response = exchange(connection, address, known)
            self._has_answered = True
            if response.status >= 300:
                raise wire.told(address, response.status, _read(response))
            yield response


def _read(response: Response, most: int | None = None) -> bytes:
    try:
        return response.read(most)
    except (OSError, HttpParserError) as error:
        raise wire.lost(response.url, error) from error


def _frame(response: Response) -> dict[str, str]:
    """The fields of one server-sent event; the end of the stream has none."""
    frames = wire.Frames(response.url)
    try:
        while True:
            made = frames.feed(response.readline().rstrip(b"\n").decode(errors="replace"))
            if made is not None:
                return made
    except Incomplete:
        return {}
    except (OSError, HttpParserError) as error:
        raise wire.lost(response.url, error) from error
