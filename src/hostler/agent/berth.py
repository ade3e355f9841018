"""Runs the agent in an allocation of a cluster: ``python3 agent.pyz berth --root ROOT --token TOKEN --idle-s N``.

A batch script ends by becoming this. It claims its task, so that a job that was submitted twice does nothing; runs the
agent in the foreground, in a folder on the shared file system; carries what is said to it and what it says, in files;
and tells of its beginning and, last of all, of its end. What is to be run, and on which devices, it does not decide.

Exit status: 0 ended as it should, or there was nothing to do; 1 the agent failed; 2 wrong usage or an unusable folder.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import List, NamedTuple, Optional

from . import compiled, procs
from .allocation import GONE, IDLE, SIGNAL, Allocation
from .batches import Batch, Run, is_token
from .connection import connect
from .files import CODE
from .keeper import Keeper
from .loop import Loop
from .node import log
from .protocol import Json, RequestError, decode, line
from .shared import make_folder, publish
from .streams import Streams
from .supervisor import Supervisor

EXIT_FAILED = 1
EXIT_USAGE = 2
_ENDS_BY = (signal.SIGTERM, signal.SIGINT)
_UP_WITHIN_S = 60.0
_LOOK_S = 1.0
_ORPHANED_S = 60.0  # a supervisor that its keeper left behind ends what it runs, each with its time of grace
_WRITTEN_WITHIN_S = 60.0
_CLAIM_WRITTEN_WITHIN_S = 5.0
_STEP_S = 0.1


class Taken(Exception):
    """The task is another job's."""


class Ending(NamedTuple):
    """How it ended: ``why`` is done, idle, told, signal or failed."""

    why: str
    signal: Optional[str] = None
    error: Optional[str] = None

    @property
    def status(self) -> int:
        """The exit status."""
        return EXIT_FAILED if self.why == "failed" else 0


class Berth:
    """The parent of an agent's keeper. ``run`` returns how it ended, when nothing of the agent is left."""

    def __init__(self, place: Run, allocation: Allocation, keeper: int) -> None:
        self._place = place
        self._allocation = allocation
        self._keeper = keeper
        self._status: Optional[int] = None
        self._signal: Optional[str] = None
        self._error: Optional[str] = None
        self._loop = Loop()
        self._give_up_at = self._loop.monotonic() + _UP_WITHIN_S
        self._first = place.first if place.run == 0 and os.path.exists(place.first) else None
        first = place.first if place.run == 0 else None
        self._streams = Streams(self._loop, place.folder, first, allocation.say_all_is_said)

    def run(self) -> Ending:
        """Carry until the end."""
        loop = self._loop
        loop.on_signals(
            {
                signal.SIGCHLD: self._reap,
                signal.SIGTERM: lambda: self._end_by("SIGTERM"),
                signal.SIGINT: lambda: self._end_by("SIGINT"),
            }
        )
        self._allocation.hear(loop)
        self._reap()
        self._look_after()
        while self._status is None:
            loop.turn()
        patience = loop.monotonic() + _ORPHANED_S
        while not self._allocation.is_over and loop.monotonic() < patience:
            loop.turn(_STEP_S)
        if not self._streams.finish(loop.monotonic() + _WRITTEN_WITHIN_S):
            self._error = self._error or "what the agent said last could not be written"
        return self._ending()

    def _reap(self) -> None:
        if self._status is None:
            pid, status = os.waitpid(self._keeper, os.WNOHANG)
            self._status = status if pid else None

    def _end_by(self, name: str) -> None:
        """Whoever sent it, and to whomever else: the agent ends what it runs, and then itself."""
        self._signal = self._signal or name
        self._terminate()

    def _terminate(self) -> None:
        if self._status is None:
            os.kill(self._keeper, signal.SIGTERM)

    def _look_after(self) -> None:
        """An agent that does not come up is not waited for: the allocation costs, and nobody can use it."""
        try:
            connect(self._place.folder, 0.0).close()
        except OSError as error:
            if self._loop.monotonic() < self._give_up_at:
                self._loop.call_later(_LOOK_S, self._look_after)
                return
            self._error = "the agent did not come up in %g s: %s" % (_UP_WITHIN_S, error.strerror)
            self._terminate()

    def _ending(self) -> Ending:
        word, status = self._allocation.last_word, self._status or 0
        if status != 0 or self._error is not None or word in (None, GONE):
            return Ending("failed", self._signal, self._error or _how(status, word))
        if word == SIGNAL:
            return Ending("signal", self._signal or "SIGTERM")
        if word == IDLE:
            return Ending("idle" if self._first is None else "done")
        return Ending("told")


def main(arguments: List[str]) -> int:
    """Run the agent of an allocation; returns the exit status."""
    options = _parser().parse_args(arguments)
    # From here on none is lost: whoever can deal with it lets it through.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS_BY)
    procs.keep_descriptors_private()
    place = Run(
        Batch(os.path.abspath(options.root), options.token), _task(options.task), _number("SLURM_RESTART_COUNT") or 0
    )
    slip = _slip(place)
    try:
        _move_in(place, slip)
    except Taken as error:
        return _fail("%s; nothing is done here" % error, 0)
    except OSError as error:
        return _fail("cannot use the folder %s: %s" % (place.batch.root, error), EXIT_USAGE)
    allocation = Allocation(options.idle_s)
    keeper = _fork_keeper(place.folder, allocation)
    allocation.be_berth()
    ending = Berth(place, allocation, keeper).run()
    status = _tell(place, ending)
    compiled.leave(CODE)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hostler-agent berth", description="Run the agent in an allocation.")
    parser.add_argument("--root", required=True, help="the folder that the cluster's nodes share")
    parser.add_argument("--token", required=True, type=_token, help="the batch: its folder is ROOT/jobs/TOKEN")
    parser.add_argument("--idle-s", required=True, type=_seconds, help="end after so long with nothing to run")
    parser.add_argument("--task", type=int, help="by default SLURM_ARRAY_TASK_ID, or 0")
    return parser


def _token(text: str) -> str:
    if not is_token(text):
        raise argparse.ArgumentTypeError("%.80r is no token ([A-Za-z0-9._-]+)" % text)
    return text


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError("%s is no number of seconds" % text)
    return value


def _task(asked: Optional[int]) -> int:
    return (_number("SLURM_ARRAY_TASK_ID") or 0) if asked is None else asked


def _number(name: str) -> Optional[int]:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def _slip(place: Run) -> Json:
    """Who runs here: what the claim and the first news say."""
    environ = os.environ
    return {
        "job": environ.get("SLURM_JOB_ID") or "%s.%d" % (socket.gethostname(), os.getpid()),
        "array_job": environ.get("SLURM_ARRAY_JOB_ID"),
        "task": _number("SLURM_ARRAY_TASK_ID"),
        "run": place.run,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "boot": procs.boot_id(),
        "at": time.time(),
        "ends_at": _number("SLURM_JOB_END_TIME"),
        "cpus": _number("SLURM_CPUS_ON_NODE") or len(os.sched_getaffinity(0)),
        "gpus": environ.get("SLURM_JOB_GPUS") or environ.get("CUDA_VISIBLE_DEVICES"),
    }


def _move_in(place: Run, slip: Json) -> None:
    """Claim the task, make the agent's folder, and say so. Raises Taken and OSError."""
    if not os.path.isdir(place.batch.root):
        raise NotADirectoryError("it is not there on %s; is the shared file system mounted?" % slip["host"])
    make_folder(place.task_folder)
    if not _claim(place.task_folder, slip):
        holder = _holder(place.task_folder)
        if holder != slip["job"]:
            raise Taken("task %d of %s is job %s's" % (place.task, place.batch.token, holder))
    make_folder(place.folder)
    if not _claim(place.folder, slip):
        raise Taken("run %d of task %d of %s has begun already" % (place.run, place.task, place.batch.token))
    root, folder, news = place.batch.root, place.folder, place.batch.news
    for needed in (folder + "/workers", folder + "/streams", root + "/attempts", news):
        make_folder(needed)
    os.symlink("../../../../attempts", place.folder + "/attempts")
    publish(place.news("began"), line(slip))


def _claim(folder: str, slip: Json) -> bool:
    """Take the folder for this job; False if somebody has it. One that could not be written to its end is nobody's."""
    path = folder + "/claim"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    try:
        with open(fd, "wb") as output:
            output.write(line(slip))
            output.flush()
            os.fsync(output.fileno())
    except OSError:
        os.unlink(path)
        raise
    return True


def _holder(folder: str) -> Optional[str]:
    """The job that has claimed it; None if it does not come to say so."""
    until = time.monotonic() + _CLAIM_WRITTEN_WITHIN_S
    while True:
        with suppress(RequestError), open(folder + "/claim", "rb") as source:
            return str(decode(source.read()).get("job"))
        if time.monotonic() > until:
            return None
        time.sleep(_STEP_S)


def _fork_keeper(directory: str, allocation: Allocation) -> int:
    """Start the agent. It ends what it runs, and itself, when this process dies."""
    berth = os.getpid()
    pid = os.fork()
    if pid != 0:
        return pid
    status = EXIT_FAILED
    try:
        allocation.be_agent()
        procs.die_with_parent(berth, signal.SIGTERM)
        status = _keep(directory, allocation)
    finally:  # this copy must not return to the caller of the first one
        os._exit(status)


def _keep(directory: str, allocation: Allocation) -> int:
    keeper = os.getpid()

    def supervise() -> int:
        procs.die_with_parent(keeper, signal.SIGTERM)
        return Supervisor(directory, allocation).run()

    return Keeper(directory + "/exits.jsonl", supervise, lambda: None).run()


def _tell(place: Run, ending: Ending) -> int:
    """The last news. A disk that is full is given some time, like all that was said."""
    told = {"at": time.time(), "status": ending.status, **ending._asdict()}
    until = time.monotonic() + _WRITTEN_WITHIN_S
    while True:
        try:
            publish(place.news("ended"), line(told))
            return ending.status
        except OSError as error:
            log("cannot tell of the end: %s" % error)
            if isinstance(error, FileNotFoundError) or time.monotonic() > until:
                return EXIT_FAILED
        time.sleep(_LOOK_S)


def _how(status: int, word: Optional[str]) -> str:
    if word == GONE:
        return "the agent's folder was deleted"
    if os.WIFSIGNALED(status):
        return "the agent's keeper was ended by signal %d" % os.WTERMSIG(status)
    return "the agent ended with status %d and without a word" % os.WEXITSTATUS(status)


def _fail(words: str, status: int) -> int:
    sys.stderr.write("hostler berth: %s\n" % words)
    return status
