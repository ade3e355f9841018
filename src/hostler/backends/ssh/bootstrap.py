"""Brings the agent to a node and starts it, in one session: `boot.py` runs there, sent through standard input."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any

import asyncssh

from hostler.agent.build import archive
from hostler.backends.base import Facts
from hostler.model.errors import LinkLost, LinkRefused
from hostler.model.record import record

BOOT_S = 90.0
"""A slow line takes its time for 200 kB of agent; so do shells whose start-up files call half the world."""
NOISE_MAX = 1 << 16
MARK = b"hostler-boot "
READ = "import sys;i=getattr(sys.stdin,'buffer',sys.stdin);exec(i.read(int(i.readline())))"
"""All that a shell sees of the program; plain enough for every one of them, csh and fish included."""
ALREADY_RUNNING = 3


@record
class Booted:
    """A node whose agent runs."""

    facts: Facts
    """`executable` and its `tag`, `zipapp`, `dir`."""
    digest: str
    """SHA-256 of the zipapp."""

    @property
    def bridge(self) -> str:
        """A command whose input and output are the agent's."""
        facts = self.facts
        return shlex.join([facts["executable"], facts["zipapp"], "connect", "--dir", facts["dir"]])

    @property
    def guest(self) -> str:
        """A command whose input and output are a connection for files."""
        facts = self.facts
        served = ["-S", "-m", "hostler.agent.files", "guest", facts["dir"]]
        path = (
            f"{facts['zipapp']}.{facts['tag']}:{facts['zipapp']}"  # what is compiled, if there is any, and what is not
        )
        return shlex.join(["env", f"PYTHONPATH={path}", facts["executable"], *served])


async def boot(
    connection: asyncssh.SSHClientConnection,
    where: str,
    *,
    python: str,
    folder: str,
    setup: Sequence[str] = (),
    start: bool = True,
) -> Booted:
    """Have the agent run in a folder of the node (`~` is the home there), or only lie there.

    `where` names the node in errors.

    Raises `LinkLost` where the connection breaks, and `LinkRefused` with what is wrong with the node.
    """
    try:
        async with asyncio.timeout(BOOT_S), connection.create_process(command(python), encoding=None) as process:
            return await _boot(Talk(process, where, python), folder, setup, start=start)
    except TimeoutError as error:
        raise LinkLost(f"{where} did not start the agent within {BOOT_S:g} s; `hostler doctor` looks why") from error
    except (OSError, asyncssh.Error) as error:
        raise LinkLost(f"the connection to {where} broke while the agent was started: {error}") from error


def command(python: str) -> str:
    """What the shell of the node is told: this interpreter, reading its program from standard input."""
    home, rest = ("~/", python[2:]) if python.startswith("~/") else ("", python)
    return f"{home}{shlex.quote(rest)} -c {shlex.quote(READ)}"


def program(name: str) -> tuple[bytes, bytes]:
    """A program of this folder as `command` reads it."""
    data = files(__package__).joinpath(name).read_bytes()
    return b"%d\n" % len(data), data


async def _boot(talk: Talk, folder: str, setup: Sequence[str], *, start: bool) -> Booted:
    data = archive()
    digest = hashlib.sha256(data).hexdigest()
    asked = {"dir": folder, "sha256": digest, "size": len(data), "setup": list(setup), "start": start}
    await talk.say(*program("boot.py"), json.dumps(asked).encode() + b"\n")
    facts = await talk.hear()
    if facts.get("too_old"):
        raise LinkRefused(
            f"{talk.where} runs Python {facts['python']} ({facts['executable']}), the agent needs 3.8 or newer; "
            "name another one there in `python:`"
        )
    if facts["missing"]:
        await talk.say(data)
    ended = await talk.hear()
    if ended["status"] not in (0, ALREADY_RUNNING):
        said = ended["said"].strip() or "it said nothing"
        raise LinkRefused(f"the agent on {talk.where} did not start (exit status {ended['status']}): {said}")
    return Booted(facts=facts, digest=digest)


class Talk:
    """The conversation with a program that `command` has started."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes], where: str, python: str) -> None:
        self.where = where
        self._process = process
        self._python = python
        self.noise = 0
        """Bytes that came before the program said anything."""

    async def say(self, *parts: bytes) -> None:
        """Send bytes. To a program that has ended already nothing is said: `hear` tells why."""
        with suppress(BrokenPipeError):
            for part in parts:
                self._process.stdin.write(part)
            await self._process.stdin.drain()

    async def hear(self) -> dict[str, Any]:
        """The next line of the program, whatever a start-up file of the shell has printed before it."""
        while self.noise < NOISE_MAX:
            line = await self._process.stdout.readline()
            if line.startswith(MARK):
                return self._understood(line)
            if not line:
                raise LinkRefused(await self._last_words())
            self.noise += len(line)
        raise LinkRefused(f"{self.where} prints without end before a program runs; look at its shell's start-up files")

    def _understood(self, line: bytes) -> dict[str, Any]:
        values = json.loads(line[len(MARK) :])
        if "error" in values:
            raise LinkRefused(f"the agent cannot be put on {self.where}: {values['error']}")
        return dict(values)

    async def _last_words(self) -> str:
        said = (await self._process.stderr.read(2000)).decode(errors="replace").strip()
        ended = await self._process.wait()
        if ended.exit_status is None and ended.exit_signal is None:
            raise LinkLost(f"the connection to {self.where} broke while the agent was started")
        return (
            f"{self._python!r} did not run on {self.where} (exit status {ended.exit_status}): "
            f"{said or 'it said nothing'}; name a Python 3.8 or newer in `python:`"
        )
