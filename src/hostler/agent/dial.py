"""Calls the controller from a node that nobody can connect to: ``python3 agent.pyz dial --dir DIR --to HOST:PORT ...``.

Two connections are kept waiting; whenever the controller takes one, it is bridged to the agent, and another one takes
its place. The agent of the controller's journal is in ``DIR/<journal>`` and is started when it is asked for.

Exit status: 2 wrong usage, an unusable folder or token; 3 another dialler has this DIR; 5 refused by the controller;
6 who answers is not the controller (later, once it has been: tried again).
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import select
import socket
import stat
import subprocess
import sys
import threading
import time
import traceback
import uuid
from contextlib import suppress
from typing import List, Optional

from . import logs
from .bridge import Bridge
from .connection import connect
from .detach import detached
from .files import CODE, digest_of
from .shared import publish
from .uplink import Controller, Impostor, Refused, Uplink, fingerprint_of

EXIT_USAGE = 2
EXIT_BUSY = 3
EXIT_REFUSED = 5
EXIT_IMPOSTOR = 6
SPARES = 2
"""Connections that wait: the controller may want one for files while it takes that of the agent."""
LONGEST_REST_S = 30.0
_FIRST_REST_S = 0.5
_FIRST_WORD_S = 15.0
_START_S = 30.0
_TOKEN_MAX = 1024
_LOG_BYTES = 1 << 20


class Unusable(Exception):
    """What was asked for cannot be; what to do about it."""


class Home:
    """The folder of a dialler, and the agents in it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._starting = threading.Lock()
        self._program = ""

    @property
    def log(self) -> str:
        """What a dialler in the background says."""
        return self._path("dial.log")

    def take(self) -> None:
        """Make it this process's own, and put the agent there.

        Raises OSError (BlockingIOError: another process has it), and Unusable where this code is no zipapp.
        """
        if not os.path.isfile(CODE):
            raise Unusable("this is not agent.pyz, which the agent is started from; `hostler node agent` makes it")
        os.makedirs(self.folder, 0o700, exist_ok=True)
        os.chmod(self.folder, 0o700)
        lock = os.open(self._path("dial.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._program = self._put_program()

    def agent(self, journal: str) -> socket.socket:
        """A connection to the agent of a journal, which is started if it does not run. Raises OSError."""
        folder = self._path(journal)
        with self._starting:
            try:
                return connect(folder)
            except OSError:
                self._start(folder)
            return connect(folder)

    def _start(self, folder: str) -> None:
        command = [sys.executable, self._program, "run", "--dir", folder, "--detach"]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_START_S,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OSError("the agent in %s did not start within %g s" % (folder, _START_S)) from None
        if done.returncode not in (0, EXIT_BUSY):
            said = done.stdout.decode("utf-8", "replace").strip()[-1000:]
            raise OSError("the agent in %s did not start (exit status %d): %s" % (folder, done.returncode, said))

    def _put_program(self) -> str:
        """This very file under the name of its hash: whoever brings a newer one later must not pull it away."""
        digest = digest_of(CODE)
        path = self._path("agent-%s.pyz" % digest[:16])
        if os.path.exists(path) and digest_of(path) == digest:
            return path
        with open(CODE, "rb") as source:
            publish(path, source.read(), 0o644)
        return path

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)


class Dialler:
    """Keeps connections waiting until the controller wants no more of them. ``run`` returns the exit status."""

    def __init__(self, home: Home, controller: Controller, node: str, token: str, first: Optional[int] = None) -> None:
        self._home = home
        self._controller = controller
        # The controller takes connections for files of the dialler that it has the agent's from, and of no other one.
        self._words = {"node": node, "token": token, "dir": home.folder, "dialler": uuid.uuid4().hex}
        self._first = first
        self._mutex = threading.Lock()
        self._over = threading.Event()
        self._status = 0
        self._welcomed = False
        self._noted = ""

    def run(self) -> int:
        """Call for ever, or until refused."""
        for _ in range(SPARES):
            threading.Thread(target=self._keep_one, daemon=True).start()
        self._over.wait()
        return self._status

    def _keep_one(self) -> None:
        """One that waits, always."""
        tries = 0
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self._one()
                tries = 0
                continue
            except Refused as error:
                self._end(EXIT_REFUSED, "refused: %s" % error)
            except Impostor as error:
                if not self._welcomed:
                    self._end(EXIT_IMPOSTOR, str(error))
                self._note(str(error))
            except (OSError, ValueError) as error:
                self._note("no connection to %s:%d: %s" % (self._controller.host, self._controller.port, error))
            except Exception:  # noqa: BLE001 - one call must not end all others; it is told, and tried again
                self._note("a call failed: %s" % traceback.format_exc())
            tries = 0 if time.monotonic() - began > LONGEST_REST_S else tries + 1
            # Of chance, so that a hundred nodes do not come back in one instant.
            time.sleep(rest_s(tries) * random.uniform(0.5, 1.0))  # noqa: S311

    def _one(self) -> None:
        """Call, wait, and hand it on. Raises what `Uplink` does."""
        uplink = Uplink(self._controller)
        try:
            uplink.call(self._words)
            self._welcome()
            uplink.wait()
        except BaseException:
            uplink.close()
            raise
        threading.Thread(target=self._serve, args=(uplink,), daemon=True).start()

    def _serve(self, uplink: Uplink) -> None:
        try:
            agent = self._agent(uplink)
            if agent is not None:
                Bridge(uplink.stream, agent).run()
        except OSError as error:
            self._note("a connection broke: %s" % error)
        finally:
            uplink.close()

    def _agent(self, uplink: Uplink) -> Optional[socket.socket]:
        """A connection to the agent, and the controller told of it or of why there is none."""
        try:
            agent = self._home.agent(uplink.journal)
        except OSError as error:
            self._note(str(error))
            uplink.say({"type": "failed", "reason": str(error)})
            return None
        try:
            uplink.say({"type": "taken"})
        except BaseException:
            agent.close()
            raise
        return agent

    def _welcome(self) -> None:
        with self._mutex:
            self._welcomed = True
        self._note("connected to %s:%d" % (self._controller.host, self._controller.port))

    def _end(self, status: int, words: str) -> None:
        self._note(words, status)
        self._status = status
        self._over.set()

    def _note(self, words: str, status: int = 0) -> None:
        """Log the words, unless they were logged last, and send the first of all to the process that waits.

        All of it inside the mutex: two calls may be refused at the same time, and the second must not end the process
        before the words of the first are out.
        """
        with self._mutex:
            is_news, self._noted = words != self._noted, words
            first, self._first = self._first, None
            # A full disk, and a starter that waited no longer, must not end the calls.
            with suppress(OSError):
                if is_news:
                    _say(words)
                    logs.rotate(self._home.log, _LOG_BYTES)
            if first is not None:
                with suppress(OSError), os.fdopen(first, "wb") as output:
                    output.write(b"%d %s" % (status, words.encode("utf-8", "replace")))


def is_held(lock: str) -> bool:
    """Whether a process has the folder that this is the lock of. Raises OSError where there is no such file."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def rest_s(tries: int) -> float:
    """The longest rest after so many failures in a row, in seconds."""
    return min(LONGEST_REST_S, _FIRST_REST_S * 2.0 ** max(0, tries - 1))


def main(arguments: List[str]) -> int:
    """Call the controller; returns the exit status."""
    options = _parser().parse_args(arguments)
    home = Home(os.path.abspath(os.path.expanduser(options.dir)))
    try:
        controller = _controller(options.to, options.fingerprint)
        token = _token(options.token_file or os.path.join(home.folder, "token"))
        home.take()
    except BlockingIOError:
        return _fail("another dialler has %s already; end that one, or choose another --dir" % home.folder, EXIT_BUSY)
    except Unusable as error:
        return _fail(str(error), EXIT_USAGE)
    except OSError as error:
        return _fail("cannot use the folder %s: %s" % (home.folder, error), EXIT_USAGE)
    if options.detach:
        return _detach(home, controller, options.node, token)
    return Dialler(home, controller, options.node, token).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hostler-agent dial", description="Call a controller that cannot connect to this machine, and serve it."
    )
    parser.add_argument("--dir", required=True, help="folder for the agent and everything it runs")
    parser.add_argument("--to", required=True, metavar="HOST:PORT", help="where the controller listens for calls")
    parser.add_argument("--node", required=True, help="the name of this machine in the fleet file")
    parser.add_argument("--fingerprint", required=True, metavar="SHA256", help="of the controller's certificate")
    parser.add_argument("--token-file", metavar="FILE", help="`-` is standard input; by default DIR/token")
    parser.add_argument("--detach", action="store_true", help="go on in the background; logs to DIR/dial.log")
    return parser


def _controller(to: str, fingerprint: str) -> Controller:
    host, _, port = to.rpartition(":")
    if not host or not port.isdigit():
        raise Unusable("%r is no HOST:PORT" % to)
    try:
        return Controller(host.strip("[]"), int(port), fingerprint_of(fingerprint))
    except ValueError as error:
        raise Unusable("--fingerprint: %s" % error) from None


def _token(path: str) -> str:
    try:
        if path == "-":
            text = sys.stdin.readline(_TOKEN_MAX)
        else:
            with open(path, encoding="ascii") as source:
                if stat.S_IMODE(os.fstat(source.fileno()).st_mode) & 0o077:
                    raise Unusable("others may read the token in %s; chmod 600 it, or have another one made" % path)
                text = source.read(_TOKEN_MAX)
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable("the token cannot be read: %s; `hostler node invite` shows how it gets there" % error) from None
    if not text.strip():
        raise Unusable("there is no token in %s; `hostler node invite` shows it" % path)
    return text.strip()


def _detach(home: Home, controller: Controller, node: str, token: str) -> int:
    """Go on in the background; here, tell how the first call went."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        detached(home.log, lambda: Dialler(home, controller, node, token, writing).run())
    os.close(writing)
    os.waitpid(child, 0)
    if not select.select([reading], [], [], _FIRST_WORD_S)[0]:
        _say("no answer yet; it goes on trying, see %s" % home.log)
        return 0
    status, _, words = os.read(reading, 4096).decode("utf-8", "replace").partition(" ")
    _say(words or "it ended at once; read %s" % home.log)
    return int(status or 1)


def _say(words: str) -> None:
    sys.stderr.write("hostler dial: %s\n" % words)
    sys.stderr.flush()


def _fail(words: str, status: int) -> int:
    _say(words)
    return status
