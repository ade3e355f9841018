"""OpenSSH's own client, for many bytes: what asyncssh decrypts in the controller, this does beside it, in less time.

It is told to get there as the same user and to trust the same keys; where it cannot be told so, it is not used.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from hostler.backends.arriving import Disk, Wanted
from hostler.backends.landing import Receiver
from hostler.backends.receiver import Line
from hostler.backends.ssh import sessions
from hostler.backends.ssh.target import Habits, Target

Result = TypeVar("Result")
PROGRAM = "ssh"
CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""Put first: they take half as long as what others would choose, and there may be much."""
TRUST = (
    *("BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "GlobalKnownHostsFile=none"),
    *("NoHostAuthenticationForLocalhost=no", "VerifyHostKeyDNS=no", "KnownHostsCommand=none"),
    *("ProxyJump=none", "PreferredAuthentications=publickey", f"Ciphers={CIPHERS}", "LogLevel=ERROR"),
)
"""The same host keys and the same ways to log in as over the controller's own connection."""
WAITING_BYTES = 1 << 20
"""What may lie in the socket that it writes to."""
LONGEST_WORDS = 300


def command(target: Target, habits: Habits, remote: str) -> list[str] | None:
    """The words that run something on a target that needs no jump host; `None` where that cannot be said."""
    program = shutil.which(PROGRAM)
    configs = [path for path in habits.config if path.exists()]
    paths = [*habits.known_hosts, *configs, *([] if target.identity is None else [target.identity])]
    if program is None or len(configs) > 1 or not all(_can_be_said(path) for path in paths):
        return None
    options = [
        *sessions.openssh_options(),
        *TRUST,
        "UserKnownHostsFile=" + " ".join(_said(path) for path in habits.known_hosts),
        f"ConnectTimeout={max(1, round(habits.connect_s))}",
        f"ServerAliveInterval={max(1, round(habits.keepalive_s))}",
        *([] if target.identity is None else [f"IdentityFile={_said(target.identity)}", "IdentitiesOnly=yes"]),
        *([] if target.port is None else [f"Port={target.port}"]),
        *([] if target.user is None else [f"User={target.user}"]),
    ]
    config = str(configs[0]) if configs else "none"
    return [program, "-F", config, *(word for each in options for word in ("-o", each)), "--", target.host, remote]


class Client(asyncio.StreamReaderProtocol):
    """One that runs: a `Reader` of what comes through it, and a writer. It ends when its writer is closed.

    What comes is read by a thread, and what are files by a process: the event loop has nothing to do with their bytes.
    """

    def __init__(self) -> None:
        self._input = asyncio.StreamReader()
        """Nothing ever comes of it but its end: that of the process."""
        super().__init__(self._input)
        self.process: subprocess.Popen[bytes] | None = None
        self._thread = ThreadPoolExecutor(1, "openssh")
        self._output, self._its_output = socket.socketpair()
        self._its_output.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WAITING_BYTES)
        self._line = Line(self._output)
        self._receiver: Receiver | None = None
        self._over = asyncio.Event()
        self._said: Future[bytes] | None = None

    async def start(self, words: Sequence[str]) -> asyncio.StreamWriter:
        """Start it with these words. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        ours, its_input = socket.socketpair()
        with its_input, self._its_output:
            transport, _ = await loop.create_connection(lambda: self, sock=ours)
            writer = asyncio.StreamWriter(transport, self, None, loop)
            try:
                self._run(words, its_input)
            except BaseException:
                writer.close()
                raise
        return writer

    async def read(self, n: int) -> bytes:
        """Some bytes, at most so many; nothing at the end. Raises `ConnectionError`."""
        return await self._in_thread(self._line.some, n)

    async def readline(self) -> bytes:
        """A line with its end, or what there was before the end. Raises `ConnectionError`."""
        return await self._in_thread(self._line.line)

    async def land(self, files: Sequence[Wanted], disk: Disk, moved: Callable[[], None], where: str) -> list[str]:
        """Take files that were asked for, in a process; their hashes. Raises as `Courier.get`, `ConnectionError`."""
        if self._receiver is None:
            raise ConnectionError("it was not started")
        return await self._in_thread(self._receiver.land, files, disk, moved, where)

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, or has been told to."""
        return self._input.at_eof() or self._over.is_set()

    async def last_words(self) -> str:
        """What it has said of what went wrong, once it is over."""
        await self._over.wait()
        assert self._said is not None
        said = await asyncio.wrap_future(self._said)
        return said.decode(errors="replace").strip()[-LONGEST_WORDS:]

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, or shall."""
        super().connection_lost(exc)
        self._hang_up()
        self._said = self._thread.submit(self._end)
        self._thread.shutdown(wait=False)
        self._over.set()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self._output.shutdown(socket.SHUT_RDWR)  # the thread may be waiting for more

    def _run(self, words: Sequence[str], its_input: socket.socket) -> None:
        self.process = subprocess.Popen(
            words,
            stdin=its_input.fileno(),
            stdout=self._its_output.fileno(),
            stderr=subprocess.PIPE,
            env=sessions.environment(),
            start_new_session=True,  # where nobody sits, nobody is asked for a password
        )
        self._receiver = Receiver(self._output)

    def _end(self) -> bytes:
        self._output.close()
        if self._receiver is not None:
            self._receiver.close()
        if self.process is None:
            return b""
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        with self.process.stderr as errors:
            os.set_blocking(errors.fileno(), False)  # whatever it has started may have it still
            return errors.read(LONGEST_WORDS) or b""

    async def _in_thread(self, work: Callable[..., Result], *given: Any) -> Result:
        """Done by the thread. Who does not wait for it any more hangs up, and it is over when this is."""
        try:
            doing = asyncio.wrap_future(self._thread.submit(work, *given))
        except RuntimeError as error:  # the thread takes nothing more
            raise ConnectionError("it is closed") from error
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            self._hang_up()
            await asyncio.gather(doing, return_exceptions=True)  # whatever becomes of it, nobody wants to know
            raise


def _can_be_said(path: Path) -> bool:
    """OpenSSH reads quotes and the names of variables in paths, and there is no way around that."""
    return not {'"', "$", "\\", "\n"} & set(str(path))


def _said(path: Path) -> str:
    return '"' + str(path).replace("%", "%%") + '"'
