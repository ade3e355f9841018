"""The command line: ``python3 agent.pyz [run] --dir DIR [--detach]``, ``connect``, ``--version``.

Other things have lines of their own: ``dial``, ``canary``, ``berth``, ``pilot`` and ``post``.

Exit status: 0 ended as asked, 2 wrong usage or an unusable folder, 3 another agent serves the folder, 4 nothing to
connect to.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from typing import List, Optional

from . import berth, canary, dial, pilot, post, procs, waiter
from .connection import connect
from .detach import detached
from .keeper import Keeper
from .protocol import VERSION
from .supervisor import UPGRADE, Supervisor

EXIT_USAGE = 2
EXIT_BUSY = 3
EXIT_NO_AGENT = 4
_UP_WITHIN_S = 15.0
_COPY_BYTES = 1 << 18


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the agent, connect to one, call a controller (``dial --help``), or prove a device (``canary --help``).

    Returns the exit status.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["dial"]:
        return dial.main(arguments[1:])
    if arguments[:1] == ["canary"]:
        return canary.main(arguments[1:])
    if arguments[:1] == ["berth"]:
        return berth.main(arguments[1:])
    if arguments[:1] == ["pilot"]:
        return pilot.main(arguments[1:])
    if arguments[:1] == ["post"]:
        return post.main(arguments[1:])
    options = _parser().parse_args(arguments)
    directory = os.path.abspath(options.dir)
    if options.command == "connect":
        return _bridge(directory)
    return _run(directory, options.detach) if options.lock is None else _keep(directory, options.lock)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hostler-agent", description="The resident supervisor of a node.")
    parser.add_argument("--version", action="version", version=VERSION)
    parser.add_argument("command", nargs="?", choices=["run", "connect"], default="run")
    parser.add_argument("--dir", required=True, help="the agent's folder: its socket, journal, and attempts")
    parser.add_argument("--detach", action="store_true", help="run on in the background; logs to DIR/agent.log")
    parser.add_argument("--lock", type=int, help=argparse.SUPPRESS)  # held by this very process before it was upgraded
    return parser


def _run(directory: str, detach: bool) -> int:
    try:
        os.makedirs(directory, 0o700, exist_ok=True)
        os.chmod(directory, 0o700)
        for name in ("attempts", "workers"):
            os.makedirs(os.path.join(directory, name), 0o700, exist_ok=True)
        lock = os.open(os.path.join(directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return _fail("cannot use the folder %s: %s" % (directory, error), EXIT_USAGE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if detach:
            _wait_until_up(directory)  # it may be on its way, as while it is upgraded
        return _fail("another agent serves %s already; connect to it, or choose another --dir" % directory, EXIT_BUSY)
    procs.keep_descriptors_private()

    def let_go() -> None:
        os.close(lock)

    if not detach:
        return waiter.in_front(directory, let_go, lambda: _keep(directory, lock))
    child = os.fork()
    if child == 0:
        log = directory + "/agent.log"
        detached(log, lambda: waiter.in_background(directory, let_go, lambda: _keep(directory, lock)))
    os.close(lock)
    os.waitpid(child, 0)
    return _wait_until_up(directory)


def _keep(directory: str, lock: int) -> int:
    procs.keep_descriptors_private()
    return Keeper(
        "%s/%s" % (directory, waiter.EXITS), lambda: Supervisor(directory).run(), lambda: _upgrade(directory, lock)
    ).run()


def _upgrade(directory: str, lock: int) -> None:
    """Go on as the program that the supervisor was told of: the same process, so that its children stay its own."""
    try:
        with open(os.path.join(directory, UPGRADE), encoding="utf-8") as source:
            zipapp = source.read()
        # This process must not become one that cannot run: nobody would know how its children end.
        subprocess.run([sys.executable, zipapp, "--version"], stdin=0, stdout=1, timeout=_UP_WITHIN_S, check=True)
        os.set_inheritable(lock, True)
        os.execv(sys.executable, [sys.executable, zipapp, "run", "--dir", directory, "--lock", str(lock)])  # noqa: S606
    except (OSError, subprocess.SubprocessError) as error:
        os.set_inheritable(lock, False)
        _fail("cannot be upgraded: %s" % error, 0)


def _wait_until_up(directory: str) -> int:
    deadline = time.monotonic() + _UP_WITHIN_S
    while time.monotonic() < deadline:
        try:
            connect(directory, 1.0).close()
            return 0
        except OSError:
            time.sleep(0.02)
    return _fail("the agent did not come up in %g s; read %s/agent.log" % (_UP_WITHIN_S, directory), 1)


def _bridge(directory: str) -> int:
    """Standard input to the agent, the agent to standard output, until the agent hangs up."""
    try:
        peer = connect(directory)
    except OSError as error:
        return _fail("no agent listens in %s: %s; start one with run --detach" % (directory, error), EXIT_NO_AGENT)
    threading.Thread(target=_send_input, args=(peer,), daemon=True).start()
    output = sys.stdout.buffer
    while True:
        data = peer.recv(_COPY_BYTES)
        if not data:
            return 0
        output.write(data)
        output.flush()


def _send_input(peer: socket.socket) -> None:
    try:
        while True:
            data = os.read(0, _COPY_BYTES)
            if not data:
                peer.shutdown(socket.SHUT_WR)
                return
            peer.sendall(data)
    except OSError:  # the agent hung up: the other direction sees it too, and ends the program
        return


def _fail(message: str, status: int) -> int:
    sys.stderr.write("hostler agent: %s\n" % message)
    return status


if __name__ == "__main__":
    sys.exit(main())
