"""Runs the agent in a job of a Ray cluster, and calls the controller: ``python3 agent.pyz pilot --dir DIR --to ...``.

The agent is at home in that job: it ends with this process, and this process with it. Its token is not in the
description of the job, which Ray shows: ``HOSTLER_CALL_TICKET`` has a ticket, for which the controller gives the token
once. It is taken out of the environment before anything else is started; so is what is ours of Ray's description of the
job, which everything that uses Ray here would otherwise hand on to the whole cluster.

Exit status: 0 the agent ended as it should; 1 it failed; 2 wrong usage or an unusable folder; 5 refused by the
controller; 6 who answers is not the controller.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import sys
import threading
import time
import uuid
from contextlib import suppress
from typing import Iterator, List, Optional

from . import dial, procs
from .allocation import IDLE, SIGNAL, TOLD, Allocation
from .connection import connect
from .keeper import Keeper
from .loop import Loop
from .shared import make_folder
from .supervisor import Supervisor
from .uplink import Controller, Impostor, Refused, Uplink, fingerprint_of

EXIT_FAILED = 1
EXIT_USAGE = 2
TICKET = "HOSTLER_CALL_TICKET"
JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
LEFT_S = 3 * 86400.0
"""For how long the folder of a pilot that was killed is kept."""
_ENDS_BY = (signal.SIGTERM, signal.SIGINT)
_UP_WITHIN_S = 30.0
_LOOK_S = 1.0
_STEP_S = 0.1
_ASK_AGAIN_S = 0.5
_ORPHANED_S = 60.0  # a supervisor that its keeper left behind ends what it runs, each with its time of grace


class Home(dial.Home):
    """The folder of a pilot, whose agent runs already, or has ended for good."""

    def _start(self, folder: str) -> None:
        until = time.monotonic() + _UP_WITHIN_S
        while time.monotonic() < until:
            with suppress(OSError):
                connect(folder).close()
                return
            time.sleep(_STEP_S)
        raise OSError("the agent of this job does not answer")


class Pilot:
    """The parent of an agent's keeper, and who calls for it. ``run`` returns the exit status."""

    def __init__(self, keeper: int, allocation: Allocation, dialler: dial.Dialler) -> None:
        self._keeper = keeper
        self._allocation = allocation
        self._dialler = dialler
        self._refused = 0
        self._status: Optional[int] = None

    def run(self) -> int:
        """Until the agent has ended, which a signal and a refusal ask it for."""
        loop = Loop()
        loop.on_signals({signal.SIGCHLD: self._reap, signal.SIGTERM: self._terminate, signal.SIGINT: self._terminate})
        self._allocation.hear(loop)
        self._reap()
        threading.Thread(target=self._call, daemon=True).start()
        while self._status is None:
            loop.turn(_LOOK_S)
        patience = loop.monotonic() + _ORPHANED_S
        while not self._allocation.is_over and loop.monotonic() < patience:
            loop.turn(_STEP_S)
        if self._refused:
            return self._refused
        as_asked = self._status == 0 and self._allocation.last_word in (IDLE, TOLD, SIGNAL)
        return 0 if as_asked else EXIT_FAILED

    def _call(self) -> None:
        """Where the controller wants no calls any more, nobody will ever hear of what runs here."""
        self._refused = self._dialler.run()
        self._terminate()

    def _reap(self) -> None:
        if self._status is None:
            pid, status = os.waitpid(self._keeper, os.WNOHANG)
            self._status = status if pid else None

    def _terminate(self) -> None:
        if self._status is None:
            os.kill(self._keeper, signal.SIGTERM)


def main(arguments: List[str]) -> int:
    """Run the agent of a job; returns the exit status."""
    ticket = os.environ.pop(TICKET, "").strip()
    _clean_environment()
    options = _parser().parse_args(arguments)
    home = Home(os.path.abspath(os.path.expanduser(options.dir)))
    folder = os.path.join(home.folder, options.journal)
    try:
        controller = _controller(options.to, options.fingerprint)
        if not ticket:
            raise dial.Unusable("there is no ticket in %s" % TICKET)
        _clear_left(os.path.dirname(home.folder))
        home.take()
        for needed in (folder, folder + "/attempts", folder + "/workers"):
            make_folder(needed)
        token = _redeemed(controller, options.node, ticket, options.alone_s)
    except Refused as error:
        return _fail("refused: %s" % error, dial.EXIT_REFUSED)
    except Impostor as error:
        return _fail(str(error), dial.EXIT_IMPOSTOR)
    except BlockingIOError:
        return _fail("another process has %s already" % home.folder, EXIT_USAGE)
    except dial.Unusable as error:
        return _fail(str(error), EXIT_USAGE)
    except OSError as error:
        return _fail("cannot use the folder %s: %s" % (home.folder, error), EXIT_USAGE)
    status = _fly(home, folder, options.alone_s, dial.Dialler(home, controller, options.node, token))
    if status == 0:  # everything was heard; after anything else somebody may want to look
        shutil.rmtree(home.folder, ignore_errors=True)
    return status


def _redeemed(controller: Controller, node: str, ticket: str, within_s: float) -> str:
    """The token. Raises OSError where the controller cannot be asked for so long, Refused and Impostor."""
    until, tries, by = time.monotonic() + within_s, 0, uuid.uuid4().hex
    while True:
        uplink = Uplink(controller)
        try:
            token = uplink.redeem({"node": node, "ticket": ticket, "by": by})
            if token is not None:
                return token
            rest_s, tries = _ASK_AGAIN_S, 0
        except (OSError, ValueError) as error:
            if time.monotonic() > until:
                raise OSError("no connection to %s:%d: %s" % (controller.host, controller.port, error)) from None
            if tries == 0:
                sys.stderr.write("hostler pilot: no connection to %s:%d: %s\n" % (*controller[:2], error))
            tries += 1
            rest_s = dial.rest_s(tries)
        finally:
            uplink.close()
        time.sleep(rest_s)


def _fly(home: Home, folder: str, alone_s: float, dialler: dial.Dialler) -> int:
    # From here on no signal is lost: whoever can deal with it lets it through.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS_BY)
    procs.keep_descriptors_private()
    allocation = Allocation(alone_s, while_alone=True)
    keeper = _fork_keeper(folder, allocation)
    allocation.be_berth()
    allocation.say_all_is_said()
    return Pilot(keeper, allocation, dialler).run()


def _fork_keeper(folder: str, allocation: Allocation) -> int:
    """Start the agent, in a session of its own: Ray kills the process group of a job, and then nobody would be left to
    end what runs in others. It ends that, and itself, when this process dies."""
    pilot = os.getpid()
    pid = os.fork()
    if pid != 0:
        return pid
    status = EXIT_FAILED
    try:
        os.setsid()
        allocation.be_agent()
        procs.die_with_parent(pilot, signal.SIGTERM)
        status = _keep(folder, allocation)
    finally:  # this copy must not return to the caller of the first one
        os._exit(status)


def _keep(folder: str, allocation: Allocation) -> int:
    keeper = os.getpid()

    def supervise() -> int:
        procs.die_with_parent(keeper, signal.SIGTERM)
        return Supervisor(folder, allocation).run()

    return Keeper(folder + "/exits.jsonl", supervise, lambda: None).run()


def _clean_environment() -> None:
    """Work here that uses Ray begins a job of its own; that must not have our folder, nor our variables."""
    try:
        config = json.loads(os.environ.get(JOB_CONFIG, ""))
        env = config["runtime_env"]
        env.pop("working_dir", None)
        env.get("env_vars", {}).pop(TICKET, None)
    except (ValueError, KeyError, AttributeError, TypeError):
        os.environ.pop(JOB_CONFIG, None)
        return
    os.environ[JOB_CONFIG] = json.dumps(config)


def _clear_left(parent: str) -> None:
    """Folders of pilots that were killed here long ago. Raises OSError where there is no such folder to be made."""
    os.makedirs(parent, 0o700, exist_ok=True)
    for path in _old(parent):
        shutil.rmtree(path, ignore_errors=True)


def _old(parent: str) -> Iterator[str]:
    for entry in os.scandir(parent):
        with suppress(OSError):
            lock = os.path.join(entry.path, "dial.lock")
            if time.time() - os.stat(lock).st_mtime > LEFT_S and not dial.is_held(lock):
                yield entry.path


def _controller(to: str, fingerprint: str) -> Controller:
    host, _, port = to.rpartition(":")
    if not host or not port.isdigit():
        raise dial.Unusable("%r is no HOST:PORT" % to)
    try:
        return Controller(host.strip("[]"), int(port), fingerprint_of(fingerprint))
    except ValueError as error:
        raise dial.Unusable("--fingerprint: %s" % error) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hostler-agent pilot", description="Run the agent in a job of a Ray cluster.")
    parser.add_argument("--dir", required=True, help="folder of this job alone")
    parser.add_argument("--journal", required=True, help="what tells the controller's work from that of others")
    parser.add_argument("--to", required=True, metavar="HOST:PORT", help="where the controller listens for calls")
    parser.add_argument("--node", required=True, help="the name of the node in the fleet file")
    parser.add_argument("--fingerprint", required=True, metavar="SHA256", help="of the controller's certificate")
    parser.add_argument("--alone-s", required=True, type=_seconds, help="end after so long with no work, nobody there")
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError("%s is no number of seconds" % text)
    return value


def _fail(words: str, status: int) -> int:
    sys.stderr.write("hostler pilot: %s\n" % words)
    return status
