"""`logs`: what a job has written, both streams in the order of time, attempt by attempt, and how it ended."""

from __future__ import annotations

import base64
import codecs
import os
import re
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, TextIO, TypeAlias

from hostler.cli.common import JobName, StateDir, client
from hostler.cli.declarations import Option
from hostler.cli.outcomes import exit_status, outcome_line, print_interrupted
from hostler.cli.show import clean, clean_output
from hostler.client.outcomes import FAILED, is_over
from hostler.model.errors import LinkError, LinkLost, NotFound, StandsBy, StoreError, UsageError
from hostler.model.units import duration

if TYPE_CHECKING:
    from hostler.client import Client, View


POLL_S = 0.3
"""The rest between two questions for output that grows."""
LOOK_S = 1.0
"""How often a job is looked at whose output does not grow."""
SAID = "hostler: "
"""What begins a line of the agent in the stream `setup`; with `$ ` behind it, it is a command."""
COMMAND_SAID = SAID + "$ "
EXITED = r"\S+ failed: exit \d+, attempt \d+ of \d+(?=: )"
COLOUR, PLAIN = "\x1b[33m", "\x1b[0m"
MARK = "err| "
ESCAPE_BEGUN = r"(?:\x1b(?:\[[0-9;]{0,32})?)?\Z"
"""The end of a text, and the beginning of a colour there whose rest has not come."""

AWAY = (LinkError, StandsBy, StoreError)
"""What a controller or a node that may come back is told by."""

Stream: TypeAlias = Literal["out", "err"]
STREAMS: tuple[Stream, Stream] = ("out", "err")
NAMES = {"out": "standard output", "err": "standard error"}


def logs(
    name: JobName,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    stream: Annotated[
        Literal["out", "err", "setup"] | None,
        Option(help="One stream only; setup is what was printed while its Python environment was built."),
    ] = None,
    state_dir: StateDir = None,
) -> int:
    """Print what a job has written, and how it ended.

    Both streams of all its attempts, in the order in which the lines were written, or of the attempt named (as j17.2).
    How the job stands is printed to standard error at the end. With --follow it goes on through further attempts until
    the job has ended, also while its node or the controller is out of reach, and the exit status is that of the job: 0
    if it is done, otherwise that of its last process (128 + N if signal N ended it), or 1.

    On a terminal, lines of the standard error are coloured (with NO_COLOR, `err| ` stands before them), and control
    characters other than colours are made visible. In a pipe the bytes come as they are, each stream on its own. With
    --stream, that stream is printed to the standard output. The stream setup of an attempt whose Python environment
    could not be built is printed in any case, to the standard error.

    Example:
      hostler logs j17 -f
      hostler logs j17.1 --stream err | tail
    """
    asked = client(state_dir)
    job, attempt = _named(asked, name)
    if job["work"] == "sweep":
        raise UsageError(f"{job['id']} is a sweep and writes nothing; `hostler sweep ledger {job['id']}` shows it")
    if not job["attempts"] and not follow:
        raise NotFound(f"{job['id']} has not been tried yet; `hostler explain {job['id']}` tells why")
    if stream == "setup":
        if follow:
            raise UsageError("--stream setup prints what there is; leave out --follow")
        return print_setup(asked, job, attempt)
    printer = Printer(stream)
    if attempt is not None:
        return _show_attempt(asked, printer, job, attempt, follow=follow)
    return follow_job(asked, job["id"], printer) if follow else _show(asked, printer, job)


def follow_job(asked: Client, job: str, printer: Printer | None = None) -> int:
    """Print the output of a job, through all its attempts, until the job has ended; returns its exit status.

    Between two attempts, and at the end, a line to standard error tells how that was. A node or a controller that
    cannot be reached is waited for.
    """
    try:
        return _Following(asked, job, printer or Printer(None)).run()
    except KeyboardInterrupt:
        print_interrupted([job])
        raise


class Attempt:
    """An attempt by the story of its job: where it ran, how it ended, and what became of the job then.

    `again` is when the job is tried again, after this attempt.
    """

    def __init__(self, id: str, device: str) -> None:
        self.id = id
        self.device = device
        self.ended: Mapping[str, Any] | None = None
        self.again: str | None = None

    @property
    def node(self) -> str:
        """The name of its node."""
        return self.device.rpartition("/")[0]

    @property
    def number(self) -> str:
        """Which attempt of its job it is."""
        return self.id.rpartition(".")[2]


class Cursor:
    """How far the output of an attempt is printed, and whether it was reported that its node cannot be reached."""

    def __init__(self) -> None:
        self.out = 0
        self.err = 0
        self.is_away = False
        self.is_build_told = False


class Printer:
    """Prints the two streams: to a terminal line by line, elsewhere the bytes as they come."""

    def __init__(self, only: Stream | None) -> None:
        self.only = only
        target = {"out": sys.stdout, "err": sys.stdout if only == "err" else sys.stderr}
        self._own = sys.stderr
        self._sinks = {stream: _Sink(target[stream], marked=stream == "err" and only is None) for stream in STREAMS}

    def write(self, stream: Stream, data: bytes) -> None:
        """Print some bytes of a stream."""
        if self.only in (None, stream):
            for other in STREAMS:
                if other != stream:
                    self._sinks[other].break_line()
            self._sinks[stream].write(data)

    def flush(self) -> None:
        """Print the lines that have no end yet: nothing more comes for a while."""
        for stream in STREAMS:
            self._sinks[stream].flush()

    def end(self) -> None:
        """All of an attempt is printed."""
        for stream in STREAMS:
            self._sinks[stream].end()

    def say(self, line: str) -> None:
        """Print a line of our own to standard error."""
        for stream in STREAMS:
            self._sinks[stream].break_line()
        print(clean(line), file=self._own, flush=True)


class _Sink:
    """One stream on its way to a file or a terminal.

    `rest` is the beginning of a line whose end has not come. `is_open`: the terminal's last line is of this stream and
    has no end.
    """

    def __init__(self, target: TextIO, *, marked: bool) -> None:
        self.target = target
        self.marked = marked
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest = ""
        self.is_open = False
        self.is_terminal = target.isatty()
        self.marks = (MARK, "") if os.environ.get("NO_COLOR") else (COLOUR, PLAIN)

    def write(self, data: bytes) -> None:
        if not self.is_terminal:
            raw: BinaryIO = self.target.buffer
            raw.write(data)
            raw.flush()
            return
        *lines, self.rest = (self.rest + self.decoder.decode(data)).split("\n")
        for line in lines:
            self._print(line + "\n")

    def flush(self) -> None:
        """Print the beginning of a line, as of a progress bar; but no part of an escape sequence."""
        whole = re.sub(ESCAPE_BEGUN, "", self.rest)
        if whole:
            self._print(whole)
            self.rest = self.rest[len(whole) :]

    def break_line(self) -> None:
        if self.is_open:
            self.target.write("\n")
            self.target.flush()
            self.is_open = False

    def end(self) -> None:
        if self.is_terminal:
            self.rest += self.decoder.decode(b"", True)
            self.decoder.reset()
            if self.rest:
                self._print(self.rest)
                self.rest = ""
            self.break_line()

    def _print(self, text: str) -> None:
        shown = clean_output(text)
        if self.marked:
            before, behind = self.marks
            line = shown.rstrip("\n")
            ended = shown[len(line) :]
            if not behind:  # a bar that is drawn again from the first column would cover the mark
                line = re.sub(r"\r(?=[^\r])", lambda _: "\r" + before, line)
            shown = ("" if self.is_open and not behind else before) + line + behind + ended
        self.target.write(shown)
        self.target.flush()
        self.is_open = not text.endswith("\n")


class _Following:
    """One job, followed to its end."""

    def __init__(self, asked: Client, job: str, printer: Printer) -> None:
        self._asked = asked
        self._job = job
        self._printer = printer
        self._is_away = False
        self._told: dict[str, bool] = {}
        """Attempts that are printed to their end, and whether it is told when the job is tried again."""

    def run(self) -> int:
        """Until the job has ended; returns its exit status."""
        while True:
            job = self._look()
            if job is not None and self._advance():
                continue
            if job is not None and is_over(job) and not self._is_away:
                return self._finish(job)
            time.sleep(POLL_S)

    def _look(self) -> View | None:
        """The job as it stands; `None` while the controller cannot be reached."""
        try:
            job: View = self._asked.job(self._job)["job"]
        except AWAY as error:
            self._note_absence(error)
            return None
        if self._is_away:
            self._printer.say("the controller answers again")
        self._is_away = False
        return job

    def _advance(self) -> bool:
        """Print the first attempt that is not printed; whether there was one."""
        try:
            attempts = _attempts_of(self._asked, self._job)
        except AWAY as error:
            self._note_absence(error)
            return False
        for attempt in attempts:
            if attempt.id not in self._told:
                self.follow(attempt)
                return True
            if attempt.again is not None and not self._told[attempt.id]:
                self._told[attempt.id] = True
                self._printer.say(f"{self._job}: attempt {attempt.number} {_end_of(attempt)}; {attempt.again}")
        return False

    def follow(self, attempt: Attempt) -> None:
        """Print the output of one attempt until it has ended."""
        self._printer.say(_headline(self._job, attempt))
        cursor = Cursor()
        looked_at = time.monotonic()
        is_current = True
        while True:
            progress = self._print_some(attempt, cursor)
            if progress == "whole" or (progress != "more" and not is_current):
                break
            if progress == "more":
                continue
            self._printer.flush()
            if time.monotonic() - looked_at >= LOOK_S:
                job, looked_at = self._look(), time.monotonic()
                is_current = job is None or job["attempt"] == attempt.id
                self._tell_build(attempt, cursor)
            time.sleep(POLL_S)
        self._printer.end()
        self._told[attempt.id] = False
        self._show_setup(attempt)

    def _tell_build(self, attempt: Attempt, cursor: Cursor) -> None:
        """Say once that an attempt without output waits for its Python environment."""
        if cursor.is_build_told or cursor.out or cursor.err:
            return
        try:
            building = _build_under_way(_setup_of(self._asked, attempt))
        except AWAY:
            return  # the job is asked for in turn, and that says it
        if building is not None:
            cursor.is_build_told = True
            self._printer.say(f"{building}; `hostler logs --stream setup {self._job}` shows what that prints")

    def _show_setup(self, attempt: Attempt) -> None:
        """Print the build of the environment of an attempt that came no further."""
        try:
            found = next((each for each in _attempts_of(self._asked, self._job) if each.id == attempt.id), attempt)
            print_failed_setup(self._asked, self._printer, found)
        except AWAY as error:
            self._note_absence(error)

    def _print_some(self, attempt: Attempt, cursor: Cursor) -> str:
        """`whole` where all of it is printed, `more` where there is more at once, otherwise `none`."""
        try:
            return _print_piece(self._asked, self._printer, attempt, cursor)
        except NotFound:
            self._printer.say(_without_output(attempt))
            return "whole"
        except AWAY as error:
            if self._look() is not None and not cursor.is_away:
                cursor.is_away = True
                self._printer.say(f"{attempt.node} cannot be reached, and the command keeps waiting: {error}")
        return "none"

    def _finish(self, job: View) -> int:
        while True:
            try:
                status = exit_status(self._asked, job)
            except AWAY as error:
                self._note_absence(error)
                time.sleep(LOOK_S)
            else:
                self._printer.say(_outcome(job))
                return status

    def _note_absence(self, why: Exception) -> None:
        if not self._is_away:
            self._is_away = True
            self._printer.say(f"the controller cannot be reached, and the command keeps waiting: {why}")


def _named(asked: Client, name: str) -> tuple[View, str | None]:
    """The job that is named, or that an attempt which is named is of, and that attempt."""
    try:
        return asked.job(name)["job"], None
    except NotFound:
        job, dot, number = name.rpartition(".")
        if not dot or not number.isdigit():
            raise
        found = asked.job(job)["job"]
        return found, f"{found['id']}.{number}"


def _show(asked: Client, printer: Printer, job: View) -> int:
    """All there is now."""
    attempts = _attempts_of(asked, job["id"])
    status = 0
    for attempt in attempts:
        if len(attempts) > 1:
            printer.say(_headline(job["id"], attempt))
        status = max(status, _print_all(asked, printer, attempt))
    printer.say(_standing(asked.job(job["id"])["job"]))
    return status


def _show_attempt(asked: Client, printer: Printer, job: View, name: str, *, follow: bool) -> int:
    attempt = _find(asked, job, name)
    if not follow:
        status = _print_all(asked, printer, attempt)
        printer.say(f"{name} {_end_of(attempt)}")
        return status
    _Following(asked, job["id"], printer).follow(attempt)
    attempt = _find(asked, job, name)
    printer.say(f"{name} {_end_of(attempt)}")
    return _status_of(attempt)


def _find(asked: Client, job: View, name: str) -> Attempt:
    """Raises `NotFound`."""
    found = next((each for each in _attempts_of(asked, job["id"]) if each.id == name), None)
    if found is None:
        raise NotFound(f"{job['id']} has no attempt {name!r}; `hostler job show {job['id']}` names its attempts")
    return found


def _print_all(asked: Client, printer: Printer, attempt: Attempt) -> int:
    """Returns the exit status: 1 where the node cannot be reached, and nothing was kept."""
    cursor = Cursor()
    status = 0
    try:
        while _print_piece(asked, printer, attempt, cursor) == "more":
            continue
    except NotFound:
        printer.say(_without_output(attempt))
    except LinkLost as error:
        printer.say(f"{attempt.node} cannot be reached, and nothing of attempt {attempt.number} was seen: {error}")
        status = FAILED
    printer.flush()
    printer.end()
    print_failed_setup(asked, printer, attempt)
    if attempt.ended is None and not status and not cursor.out and not cursor.err and printer.only is None:
        building = _build_under_way(_setup_of(asked, attempt))
        if building is not None:
            printer.say(building)
    return status


def print_setup(asked: Client, job: View, name: str | None) -> int:
    """Print what was printed while attempts of a job were set up, to the standard output; returns the exit status."""
    attempts = [each for each in _attempts_of(asked, job["id"]) if name in (None, each.id)]
    status = 0
    for attempt in attempts:
        try:
            sys.stdout.buffer.write(_setup_of(asked, attempt))
            sys.stdout.buffer.flush()
        except LinkLost as error:
            print(clean(f"{attempt.node} cannot be reached: {error}"), file=sys.stderr)
            status = FAILED
    return status


def print_failed_setup(asked: Client, printer: Printer, attempt: Attempt) -> None:
    """Print the build of the environment that an attempt never had, to the standard error."""
    if attempt.ended is None or attempt.ended.get("reason") != "environment" or printer.only is not None:
        return
    printer.say(f"(attempt {attempt.number} has not begun; the build of its Python environment printed:)")
    printer.write("err", _setup_of(asked, attempt))
    printer.flush()
    printer.end()


def _build_under_way(printed: bytes) -> str | None:
    """What the agent said last of a Python environment, while that is built or another build is waited for."""
    said = [line for line in printed.decode(errors="replace").splitlines() if line.startswith(SAID)]
    steps = [line.removeprefix(SAID) for line in said if not line.startswith(COMMAND_SAID)]
    return None if not steps or " is ready after " in steps[-1] else clean(steps[-1])


def _setup_of(asked: Client, attempt: Attempt) -> bytes:
    """All that is kept of what was printed before its process began; nothing where nothing was."""
    found, offset = b"", 0
    while True:
        try:
            piece = asked.log(attempt.id, "setup", offset)
        except NotFound:
            return found
        found, offset = found + piece.data, piece.offset + len(piece.data)
        if not piece.data or offset >= piece.size:
            return found


def _print_piece(asked: Client, printer: Printer, attempt: Attempt, cursor: Cursor) -> str:
    """`whole` where the attempt has ended and all of it is printed, `more` where there is more at once, else `none`."""
    piece = asked.output(attempt.id, cursor.out, cursor.err)
    _tell_reach(printer, attempt, cursor, piece["seen_at"])
    ends: dict[Stream, int] = {"out": piece["out"], "err": piece["err"]}
    for stream, begin in (("out", cursor.out), ("err", cursor.err)):
        if ends[stream] > begin and printer.only in (None, stream):  # type: ignore[index]
            printer.say(f"({ends[stream] - begin} bytes of the {NAMES[stream]} before this were dropped)")  # type: ignore[index]
    for each in piece["pieces"]:
        data = base64.b64decode(each["data"])
        printer.write(each["stream"], data)
        ends[each["stream"]] += len(data)
    cursor.out, cursor.err = ends["out"], ends["err"]
    if (cursor.out, cursor.err) == (piece["out_size"], piece["err_size"]):
        return "whole" if piece["ended"] else "none"
    return "more" if piece["pieces"] else "none"


def _without_output(attempt: Attempt) -> str:
    """What is printed in the place of output that does not exist."""
    started = attempt.ended is None or attempt.ended.get("started_at", 0.0) is not None
    why = "is not kept" if started else "does not exist: it did not start"
    return f"(the output of attempt {attempt.number} {why})"


def _tell_reach(printer: Printer, attempt: Attempt, cursor: Cursor, seen_at: float | None) -> None:
    if seen_at is not None and not cursor.is_away:
        at = time.strftime("%H:%M:%S", time.localtime(seen_at))
        printer.say(f"{attempt.node} cannot be reached; output up to {at} is shown")
    elif seen_at is None and cursor.is_away:
        printer.say(f"{attempt.node} answers again")
    cursor.is_away = seen_at is not None


def _attempts_of(asked: Client, job: str) -> list[Attempt]:
    """All attempts of a job, the first one first."""
    found: dict[str, Attempt] = {}
    newest: Attempt | None = None
    for entry in asked.story(job):
        event = entry["event"]
        if event["kind"] == "attempt.leased":
            newest = found[event["attempt"]] = Attempt(event["attempt"], event["device"])
        elif event["kind"] == "attempt.ended" and event["attempt"] in found:
            found[event["attempt"]].ended = event
        elif event["kind"] == "job.requeued" and newest is not None:
            left_s = max(0.0, event["not_before"] - entry["at"])
            newest.again = "tried again" if left_s < 1 else f"tried again in {duration(left_s)}"
            newest.ended = newest.ended or {"error": event["why"]}
        elif event["kind"] in ("job.failed", "job.cancelled", "job.done") and newest is not None:
            newest.ended = newest.ended or {"error": event.get("why")}
    return list(found.values())


def _headline(job: str, attempt: Attempt) -> str:
    return f"--- attempt {attempt.number} of {job} on {attempt.device} ---"


def _standing(job: View) -> str:
    """How a job stands, as the last line of its output."""
    if is_over(job):
        return _outcome(job)
    if job["attempt"] is not None:
        return f"{job['id']} is running on {job['device']}"
    return f"{job['id']} waits" + (f": {job['why']}" if job["why"] else "")


def _outcome(job: View) -> str:
    """How a job ended, without the last line of its standard error: that is printed already."""
    line = outcome_line(job)
    found = re.match(EXITED, line)
    return line if found is None else found[0]


def _end_of(attempt: Attempt) -> str:
    """How an attempt ended: `failed: exit 3`."""
    end = attempt.ended
    if end is None:
        return f"is running on {attempt.device}"
    if end.get("exit_code") == 0 and not end.get("reason"):
        return "ended: exit 0"
    why = (end.get("error") or end.get("reason") or "").partition("\n")[0]
    if end.get("signal") is not None and not why:
        return f"failed: signal {end['signal']}"
    if end.get("exit_code") and not why:
        return f"failed: exit {end['exit_code']}"
    return f"ended: {why or 'nothing is known of its end'}"


def _status_of(attempt: Attempt) -> int:
    end = attempt.ended or {}
    if end.get("signal") is not None:
        return 128 + int(end["signal"])
    code = end.get("exit_code")
    return int(code) & 0xFF if isinstance(code, int) else FAILED
