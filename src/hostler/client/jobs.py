"""Jobs and job groups as objects: what `submit` returns, to wait for, read, fetch and end.

`Job` and `Group` belong to `Client`; `AsyncJob` and `AsyncGroup` have the same methods, to be awaited. What they know
without asking, such as `state`, is from the last answer of the controller; `refresh` asks again.
"""

from __future__ import annotations

import base64
import codecs
import itertools
import math
import os
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostler.client.calls import Answer, Driver, Rows, View, by_name, get, given, operation, part, rows, write
from hostler.client.outcomes import is_of_process, is_over, outcome, status_of
from hostler.client.results import rows_of
from hostler.model.errors import (
    Conflict,
    ControllerAbsent,
    HostlerError,
    LinkLost,
    NotFound,
    StandsBy,
    StoreError,
    UsageError,
)
from hostler.model.units import duration, printable

if TYPE_CHECKING:
    from hostler.client import shapes

AWAY = (LinkLost, ControllerAbsent, StandsBy, StoreError)
"""Errors of a controller, or of the node of an attempt, that may answer again."""
POLL_S = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Rests between two questions for the state of a job; the last one is repeated."""
FOLLOW_S = 0.3
"""The rest between two questions for output that grows."""
PIECE = 1 << 20
PRINTING = frozenset({"exit", "signal", "timeout", "memory", "result"})
"""Classes of failure of an attempt whose process has run."""


class HostlerWarning(UserWarning):
    """A note on a submitted job, such as that it fits on no device now; or a controller that does not answer."""


class JobFailed(HostlerError):
    """A job has failed or was cancelled, and so has no result."""

    def __init__(self, message: str, job: str, exit_status: int) -> None:
        super().__init__(message)
        self.job = job
        """Its id."""
        self.exit_status = exit_status
        """That of its last process (128 + N if signal N ended it), or 1."""


class _Handle:
    """A job or a job group at a controller, with the last answer about it."""

    def __init__(self, client: Driver, view: View, notes: Sequence[str] = ()) -> None:
        self._client = client
        self._view = view
        self.notes = tuple(notes)
        """The notes on its submission, such as that it fits on no device."""

    @property
    def id(self) -> str:
        """Its id: `j17` or `g1`."""
        return str(self._view["id"])

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self._view["name"])

    @property
    def submitted_at(self) -> datetime:
        """When it was submitted."""
        return datetime.fromtimestamp(self._view["submitted_at"], UTC)

    @property
    def ended_at(self) -> datetime | None:
        """When it ended; `None`: it has not."""
        return _moment(self._view["ended_at"])

    @property
    def view(self) -> View:
        """The last answer about it (`shapes.JobView`, `shapes.GroupView`)."""
        return self._view

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handle) and (other._client, other.id) == (self._client, self.id)

    def __hash__(self) -> int:
        return hash(self.id)

    def _repr_html_(self) -> str:
        from hostler.client.tables import fields_html

        return fields_html(self._view)

    def _do(self, steps: Answer[Any]) -> Any:
        return self._client._do(steps)


class JobOperations(_Handle):
    """What `Job` and `AsyncJob` have in common."""

    @property
    def state(self) -> str:
        """As of the last answer: `pending`; `leased`, `launching`, `running` or `collecting` while an attempt is under
        way; `done`, `failed` or `cancelled` at its end.
        """
        return str(self._view["state"])

    @property
    def device(self) -> str | None:
        """The device it runs on, or ran on last."""
        found = self._view["device"]
        return None if found is None else str(found)

    @property
    def started_at(self) -> datetime | None:
        """When its last attempt began; `None`: none has."""
        return _moment(self._view["started_at"])

    @property
    def duration_s(self) -> float | None:
        """How long its last attempt ran, by the clock of its node; `None`: it has not ended."""
        found = self._view["duration_s"]
        return None if found is None else float(found)

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.state}: {printable(self.name)}>"

    @operation
    def refresh(self) -> Answer[str]:
        """Ask for its state."""
        yield from self._look()
        return self.state

    @operation
    def wait(self, timeout_s: float | None = None) -> Answer[str]:
        """Wait until it has ended; returns its state. A controller that is restarted meanwhile is waited for.

        Raises `TimeoutError` where it has not ended after so many seconds.
        """
        yield from self._ended(timeout_s)
        return self.state

    @operation
    def result(self, timeout_s: float | None = None) -> Answer[Any]:
        """Wait until it is done; returns the JSON that it left in `$HOSTLER_RESULT`, `None` where it left none.

        Raises `JobFailed` where it has failed or was cancelled, and `TimeoutError`.
        """
        yield from self._ended(timeout_s)
        if self.state != "done":
            raise (yield from self._failure())
        detail = yield from get(f"/jobs/{part(self.id)}")
        return detail["result"]

    @operation
    def logs(self, attempt: int | None = None) -> Answer[str]:
        """The text that an attempt has written to both streams, in the order of writing; by default the last attempt.

        It is empty where no process has begun, and where the output is not kept any more. Raises `LinkLost` where the
        node cannot be reached, and `NotFound` for an attempt that the job does not have.
        """
        attempts = yield from self._attempts()
        name = f"{self.id}.{attempt}" if attempt is not None else attempts[-1] if attempts else None
        if name is None:
            return ""
        if name not in attempts:
            raise NotFound(f"{self.id} has no attempt {attempt}. Its attempts are {', '.join(attempts) or 'none yet'}")
        reader = _Reader(name)
        text = ""
        while True:
            try:
                piece, is_more = yield from reader.read()
            except NotFound:
                return text
            text += piece
            if not is_more:
                return text + reader.end()

    @operation
    def files(self) -> Answer[Rows[shapes.OutputFile]]:
        """The files that it left: `path`, `size`, `sha256`; none while it is not done."""
        from hostler.client.calls import listed

        return listed(f"/jobs/{part(self.id)}/files")

    @operation
    def fetch(self, directory: str | os.PathLike[str] | None = None, *, force: bool = False) -> Answer[list[Path]]:
        """Copy the files that it left to a folder, by default one with its id as name; returns their paths here.

        A file appears when it is whole and has the right hash. Raises as `Client.fetch`.
        """
        from hostler.client.downloads import fetch, ignore

        folder = Path(self.id if directory is None else directory)
        is_new = not folder.exists()
        found = yield from fetch(self.id, folder, force=force)
        if is_new:
            ignore(folder)
        return [Path(row["file"]) for row in found]

    @operation
    def explain(self) -> Answer[shapes.Explanation]:
        """Why it waits, or runs where it runs."""
        return get(f"/jobs/{part(self.id)}/explain")

    @operation
    def cancel(self, reason: str | None = None) -> Answer[str]:
        """End it; returns its state. Raises `Conflict` where it has ended."""
        self._view = yield from write("POST", f"/jobs/{part(self.id)}/cancel", given(reason=reason))
        return self.state

    @operation
    def retry(self) -> Answer[str]:
        """Try it again after it failed or was cancelled; returns its state."""
        self._view = yield from write("POST", f"/jobs/{part(self.id)}/retry")
        return self.state

    def _look(self) -> Answer[None]:
        (self._view,) = yield from by_name("/jobs", [self.id])

    def _ended(self, timeout_s: float | None) -> Answer[None]:
        yield from _until(self, lambda: is_over(self._view), self._look, timeout_s)

    def _failure(self) -> Answer[JobFailed]:
        """The error of a job that is not done."""
        events: Sequence[Any] = ()
        if is_of_process(self._view):
            story = yield from rows(f"/jobs/{part(self.id)}/story")
            events = [entry["event"] for entry in story]
        what = printable(outcome(self._view))
        advice = ". Its logs() have what it printed" if self._view["failure"] in PRINTING else ""
        return JobFailed(f"{what}{advice}", self.id, status_of(self._view, events))

    def _attempts(self) -> Answer[list[str]]:
        """The names of its attempts, the first one first."""
        story = yield from rows(f"/jobs/{part(self.id)}/story")
        return [str(each["event"]["attempt"]) for each in story if each["event"]["kind"] == "attempt.leased"]

    def _more(self, reading: _Following) -> Answer[str]:
        """Text that has been written since the last time, after a rest where there is none."""
        try:
            text = yield from self._more_of(reading)
        except AWAY:
            text = ""
        if not text and not reading.is_over:
            yield FOLLOW_S
        return text

    def _more_of(self, reading: _Following) -> Answer[str]:
        if reading.reader is None:
            yield from self._look()
            over = is_over(self._view)
            attempts = yield from self._attempts()
            if len(attempts) <= reading.attempts:
                reading.is_over = over
                return ""
            reading.reader, reading.is_last = _Reader(attempts[reading.attempts]), False
            reading.attempts += 1
        try:
            text, is_more = yield from reading.reader.read()
        except NotFound:  # its output is not kept
            text, is_more, reading.reader.is_whole = "", False, True
        if reading.reader.is_whole and not is_more:
            text += reading.reader.end()
            reading.reader = None
        elif not text and reading.is_last:
            # The output of an attempt that was lost with its node never comes to an end.
            text, reading.reader = reading.reader.end(), None
        elif not text:
            yield from self._look()
            # It may have written its last lines since they were read: they are read once more.
            reading.is_last = is_over(self._view) or self._view["attempt"] != reading.reader.attempt
        return text


class Job(JobOperations):
    """A job of a `Client`."""

    _waits = True

    def follow(self) -> Iterator[str]:
        """The lines that it writes, as they come, through all attempts, until it has ended."""
        reading, rest = _Following(), ""
        while not reading.is_over:
            *lines, rest = (rest + self._do(self._more(reading))).split("\n")
            yield from lines
        if rest:
            yield rest


class AsyncJob(JobOperations):
    """A job of an `AsyncClient`."""

    _awaits = True

    async def follow(self) -> AsyncIterator[str]:
        """The lines that it writes, as they come, through all attempts, until it has ended."""
        reading, rest = _Following(), ""
        while not reading.is_over:
            *lines, rest = (rest + await self._do(self._more(reading))).split("\n")
            for line in lines:
                yield line
        if rest:
            yield rest


class GroupOperations(_Handle):
    """What `Group` and `AsyncGroup` have in common."""

    @property
    def size(self) -> int:
        """Its number of jobs."""
        return int(self._view["size"])

    @property
    def counts(self) -> Mapping[str, int]:
        """Its jobs by state, as of the last answer."""
        return {str(state): int(number) for state, number in self._view["jobs"].items() if number}

    @property
    def state(self) -> str:
        """`running` until all of its jobs have ended; then `done` if all of them are done, otherwise `failed`."""
        if self._view["ended_at"] is None:
            return "running"
        return "done" if self._view["jobs"]["done"] == self._view["size"] else "failed"

    def __repr__(self) -> str:
        counts = ", ".join(f"{number} {state}" for state, number in self.counts.items())
        return f"<Group {self.id}, {counts}: {printable(self.name)}>"

    @operation
    def refresh(self) -> Answer[str]:
        """Ask for its state."""
        yield from self._look()
        return self.state

    @operation
    def wait(self, timeout_s: float | None = None) -> Answer[str]:
        """Wait until all of its jobs have ended; returns its state. Raises `TimeoutError`."""
        yield from _until(self, lambda: self._view["ended_at"] is not None, self._look, timeout_s)
        return self.state

    @operation
    def results(self) -> Answer[Rows[dict[str, Any]]]:
        """A row for each job: `job`, its parameters, `outcome`, `duration_s`, and the fields of its result.

        A parameter whose values are all numbers has numbers. `pandas.DataFrame(group.results())` is a table of them.
        """
        found = yield from self._results()
        return Rows(rows_of(found))

    @operation
    def fetch(self, directory: str | os.PathLike[str] | None = None, *, force: bool = False) -> Answer[list[Path]]:
        """Copy the files of its jobs that are done; returns their paths here.

        Each job has a folder, named by its parameters (`lr=0.1,bs=16`), in `directory`, by default one with the id of
        the group as name. Raises as `Client.fetch`, and `Conflict` where no job has left files.
        """
        from hostler.client.calls import listed
        from hostler.client.downloads import fetch, ignore
        from hostler.client.folders import folders_of

        found = yield from self._results()
        here = Path(self.id if directory is None else directory)
        is_new = not here.exists()
        paths: list[Path] = []
        folders = folders_of(found)
        for job in (str(row["job"]) for row in found if row["state"] == "done"):
            if (yield from listed(f"/jobs/{part(job)}/files")):
                paths += [Path(row["file"]) for row in (yield from fetch(job, here / folders[job], force=force))]
        if not paths:
            raise Conflict(f"no job of {self.id} has left files. Files are there once a job is done")
        if is_new:
            ignore(here)
        return paths

    @operation
    def cancel(self, reason: str | None = None) -> Answer[str]:
        """Cancel all of its jobs that have not ended; returns its state. Raises `Conflict` where all have."""
        self._view = yield from write("POST", f"/groups/{part(self.id)}/cancel", given(reason=reason))
        return self.state

    @operation
    def retry(self, *, only_failed: bool = False) -> Answer[str]:
        """Try its failed jobs again, and its cancelled jobs unless `only_failed`; returns its state."""
        self._view = yield from write("POST", f"/groups/{part(self.id)}/retry", {"only_failed": only_failed})
        return self.state

    def _look(self) -> Answer[None]:
        self._view = yield from get(f"/groups/{part(self.id)}")

    def _results(self) -> Answer[list[Any]]:
        found = yield from rows(f"/groups/{part(self.id)}/results")
        return found

    def _jobs(self) -> Answer[list[View]]:
        found = yield from rows("/jobs", group=self.id)
        return found


class Group(GroupOperations):
    """A job group of a `Client`."""

    _waits = True

    def jobs(self) -> list[Job]:
        """Its jobs, in order."""
        return [Job(self._client, view) for view in self._do(self._jobs())]


class AsyncGroup(GroupOperations):
    """A job group of an `AsyncClient`."""

    _awaits = True

    async def jobs(self) -> list[AsyncJob]:
        """Its jobs, in order."""
        return [AsyncJob(self._client, view) for view in await self._do(self._jobs())]


class _Reader:
    """The output of one attempt, as far as it has been read."""

    def __init__(self, attempt: str) -> None:
        self.attempt = attempt
        self.is_whole = False
        """Whether all of it has been read, and no more comes."""
        self._at = {"out": 0, "err": 0}
        new = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: new("replace") for stream in self._at}

    def read(self) -> Answer[tuple[str, bool]]:
        """The next text of both streams, and whether there is more at once."""
        path = f"/attempts/{part(self.attempt)}/output"
        told = yield from get(path, out=self._at["out"], err=self._at["err"], limit=PIECE)
        self._at = {"out": told["out"], "err": told["err"]}
        text = ""
        for piece in told["pieces"]:
            data = base64.b64decode(piece["data"])
            self._at[piece["stream"]] += len(data)
            text += self._decoders[piece["stream"]].decode(data)
        is_more = self._at["out"] < told["out_size"] or self._at["err"] < told["err_size"]
        self.is_whole = bool(told["ended"]) and not is_more
        return text, is_more and bool(told["pieces"])

    def end(self) -> str:
        """What is left of characters of which the rest never came."""
        return "".join(decoder.decode(b"", True) for decoder in self._decoders.values())


class _Following:
    """How far the output of a job has been read."""

    def __init__(self) -> None:
        self.attempts = 0
        """Attempts that were begun."""
        self.reader: _Reader | None = None
        """The output of the last one; `None`: it is read."""
        self.is_last = False
        """Whether its attempt had ended when it was last asked."""
        self.is_over = False


def _until(
    handle: _Handle, is_over: Callable[[], bool], look: Callable[[], Answer[None]], timeout_s: float | None
) -> Answer[None]:
    """Ask again and again until something has ended."""
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if timeout_s is not None and not (is_number and timeout_s >= 0):
        raise UsageError(f"timeout_s is {timeout_s!r}. Give a number of seconds, 0 or more")
    ends_at = math.inf if timeout_s is None else time.monotonic() + timeout_s
    rests = itertools.chain(POLL_S, itertools.repeat(POLL_S[-1]))
    away: HostlerError | None = None
    while not is_over():
        try:
            yield from look()
        except AWAY as error:  # the controller may be starting again
            if away is None:
                warnings.warn(
                    f"the controller does not answer, and is waited for: {error}", HostlerWarning, stacklevel=2
                )
            away = error
        else:
            away = None
        if is_over():
            return
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            seen = f"{handle!r}" if away is None else f"the controller does not answer: {away}"
            raise TimeoutError(f"{handle.id} has not ended after {duration(timeout_s)}: {seen}")
        yield min(next(rests), left_s)


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
