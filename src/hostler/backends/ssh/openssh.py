"""OpenSSH's own client, for large files: what asyncssh decrypts in the controller, this does beside it, in less time.

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

from hostler.backends.courier import Piece
from hostler.backends.ssh.target import Habits, Target

Result = TypeVar("Result")
PROGRAM = "ssh"
CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""Put first: they take half as long as what others would choose, and files may be large."""
PLAIN = (
    *("BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "GlobalKnownHostsFile=none"),
    *("ControlMaster=no", "ControlPath=none", "ClearAllForwardings=yes", "RemoteCommand=none", "ProxyJump=none"),
    *("PermitLocalCommand=no", "PreferredAuthentications=publickey", f"Ciphers={CIPHERS}", "LogLevel=ERROR"),
    *("RequestTTY=no", "ForwardX11=no", "ForwardAgent=no"),
    *("NoHostAuthenticationForLocalhost=no", "VerifyHostKeyDNS=no"),
    *("IgnoreUnknown=KnownHostsCommand", "KnownHostsCommand=none"),  # OpenSSH has it from 8.5 on
)
"""Nothing but the command, whatever else people have configured for their own sessions."""
READ_BYTES = 1 << 20
"""What comes at least so slowly that these come within `SILENCE_S` gets on."""
LINE_BYTES = 1 << 16
LONGEST_WORDS = 300


def command(target: Target, habits: Habits, remote: str) -> list[str] | None:
    """The words that run something on a target that needs no jump host; `None` where that cannot be said."""
    program = shutil.which(PROGRAM)
    configs = [path for path in habits.config if path.exists()]
    paths = [*habits.known_hosts, *configs, *([] if target.identity is None else [target.identity])]
    if program is None or len(configs) > 1 or not all(_can_be_said(path) for path in paths):
        return None
    options = [
        *PLAIN,
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

    What comes is read by a thread, which writes files as well: the event loop has nothing to do with their bytes.
    """

    def __init__(self) -> None:
        super().__init__(asyncio.StreamReader())
        self.process: subprocess.Popen[bytes] | None = None
        self._thread = ThreadPoolExecutor(1, "openssh")
        self._output, self._its_output = socket.socketpair()
        self._its_output.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, READ_BYTES)
        self._kept = b""
        """What came behind a line."""
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
        if self._kept:
            data, self._kept = self._kept[:n], self._kept[n:]
            return data
        return await self._in_thread(self._output.recv, min(n, READ_BYTES))

    async def take(self, count: int, write: Callable[[Piece], None]) -> None:
        """Give so many bytes to `write`, in the thread. Raises `ConnectionError`, and what `write` raises."""
        kept, self._kept = self._kept[:count], self._kept[count:]
        await self._in_thread(self._take, kept, count - len(kept), write)

    async def readline(self) -> bytes:
        """A line with its end, or what there was before the end."""
        parts = [self._kept]
        while b"\n" not in parts[-1]:
            parts.append(await self._in_thread(self._output.recv, LINE_BYTES))
            if not parts[-1]:
                break
        line, end, self._kept = b"".join(parts).partition(b"\n")
        return line + end

    async def last_words(self) -> str:
        """What it has said of what went wrong, once it is over."""
        await self._over.wait()
        assert self._said is not None
        said = await asyncio.wrap_future(self._said)
        return said.decode(errors="replace").strip()[-LONGEST_WORDS:]

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, or shall."""
        super().connection_lost(exc)
        with suppress(OSError):
            self._output.shutdown(socket.SHUT_RDWR)  # the thread may be waiting for more
        self._said = self._thread.submit(self._end)
        self._thread.shutdown(wait=False)
        self._over.set()

    def _run(self, words: Sequence[str], its_input: socket.socket) -> None:
        self.process = subprocess.Popen(
            words,
            stdin=its_input.fileno(),
            stdout=self._its_output.fileno(),
            stderr=subprocess.PIPE,
            start_new_session=True,  # where nobody sits, nobody is asked for a password
        )

    def _end(self) -> bytes:
        self._output.close()
        if self.process is None:
            return b""
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        with self.process.stderr as errors:
            os.set_blocking(errors.fileno(), False)  # whatever it has started may have it still
            return errors.read(LONGEST_WORDS) or b""

    def _take(self, kept: bytes, left: int, write: Callable[[Piece], None]) -> None:
        write(kept)
        buffer = memoryview(bytearray(min(left, READ_BYTES)))
        while left > 0:
            size = self._output.recv_into(buffer, min(left, READ_BYTES), socket.MSG_WAITALL)
            if not size:
                raise ConnectionError("it hung up")
            write(buffer[:size])
            left -= size

    async def _in_thread(self, work: Callable[..., Result], *given: Any) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)
        except RuntimeError as error:  # the thread takes nothing more
            raise ConnectionError("it is closed") from error


def _can_be_said(path: Path) -> bool:
    """OpenSSH reads quotes and the names of variables in paths, and there is no way around that."""
    return not {'"', "$", "\\", "\n"} & set(str(path))


def _said(path: Path) -> str:
    return '"' + str(path).replace("%", "%%") + '"'
