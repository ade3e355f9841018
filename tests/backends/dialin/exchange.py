"""A switchboard that listens on loopback, callers that a test plays, and real diallers in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.agent.build import build_zipapp
from hostler.backends.dialin import Switchboard, context, fingerprint, self_signed
from hostler.backends.dialin.switchboard import PROTOCOL
from tests.backends.precompiled import precompile
from tests.patience import PATIENCE_S

JOURNAL = "0123456789ab"
TOKENS = {"far": "a-token-of-its-own", "other": "another-token"}


@dataclass
class Exchange:
    """A switchboard that listens, and what it has told."""

    folder: Path
    port: int
    calls: Switchboard
    tokens: dict[str, str]
    told: list[str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    callers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def fingerprint(self) -> str:
        """Of its certificate."""
        return fingerprint(self.folder / "certificate.pem")

    def dial(self, folder: Path, **others: Any) -> subprocess.Popen[str]:
        """A real dialler. `port`, `fingerprint`, `node`, `token` and `program` may be other ones."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        program = others.get("program") or self.folder / "agent.pyz"
        if not program.exists():
            build_zipapp(program)
            precompile(program.parent, program.name)
        precompile(folder)
        (folder / "token").touch(0o600)
        (folder / "token").write_text(others.get("token", TOKENS["far"]) + "\n")
        command = [sys.executable, program, "dial", "--dir", folder, "--node", others.get("node", "far")]
        command += ["--to", f"127.0.0.1:{others.get('port', self.port)}"]
        command += ["--fingerprint", others.get("fingerprint", self.fingerprint)]
        started = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.started.append(started)
        return started

    async def end(self) -> None:
        """End the diallers that still run, and hang up on the switchboard."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()
        for writer in self.callers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        for _ in range(50):
            await asyncio.sleep(0)  # the switchboard meets whoever has called until now, and nobody is half accepted


@asynccontextmanager
async def exchange(folder: Path) -> AsyncIterator[Exchange]:
    """One that knows the nodes of `TOKENS`."""
    certificate, tokens, told = _certificate(folder), dict(TOKENS), list[str]()
    calls = Switchboard(JOURNAL, tokens.get)
    port = calls.open("127.0.0.1", 0, context(certificate, certificate), lambda where, what: told.append(what))
    made = Exchange(folder, port, calls, tokens, told)
    try:
        yield made
    finally:
        try:
            await made.end()
        finally:
            await calls.close()


def _certificate(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "certificate.pem"
    if not path.exists():
        path.write_text(self_signed("test"))
    return path


class Caller:
    """One connection to an exchange, whose words a test chooses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, **words: Any) -> None:
        """One line."""
        self.writer.write(json.dumps(words).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        """The next line; nothing if it is hung up on."""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                return dict(json.loads(await self.reader.readline() or b"{}"))
            return {}


async def caller(made: Exchange, address: str = "127.0.0.1") -> Caller:
    """A stranger whose TLS is there."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    streams = await asyncio.open_connection("127.0.0.1", made.port, ssl=trusting, local_addr=(address, 0))
    shown = streams[1].get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert hashlib.sha256(shown).hexdigest() == made.fingerprint
    made.callers.append(streams[1])
    return Caller(*streams)


async def dialled(made: Exchange, node: str = "far", **others: Any) -> Caller:
    """A caller that has said who it is."""
    found = await caller(made)
    words = {"node": node, "token": TOKENS.get(node, "?"), "dir": "/far", "dialler": "d1", "protocol": PROTOCOL}
    found.say(type="dial", **{**words, **others})
    return found


async def welcomed(made: Exchange, node: str = "far", **others: Any) -> Caller:
    """A caller that waits."""
    found = await dialled(made, node, **others)
    assert await found.hear() == {"type": "welcome", "journal": JOURNAL}
    return found
