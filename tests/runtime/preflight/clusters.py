"""A cluster whose machines are processes of this one, each with its own idea of where a folder is."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hostler import __version__
from hostler.model.errors import LinkLost
from hostler.runtime.preflight import Machine, Ran


def skip(seconds: float) -> None:
    """Let so much time pass at once for all that the running event loop waits for."""
    loop = asyncio.get_running_loop()
    passes = loop.time
    loop.time = lambda: passes() + seconds  # type: ignore[method-assign]


@dataclass
class Local:
    """Programs run, for real, in a process each; a machine may see another folder under the same path."""

    folders: Mapping[str, Path]
    """By machine, what it has at the path that is meant."""
    meant: str
    found: str = "2.60.0"
    cpus: float = 4.0
    away: bool = False
    hangs: frozenset[str] = frozenset()
    has: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """By machine, the versions that it has of what it has not in the usual one; of `python`, too."""
    ran: list[tuple[str, str]] = field(default_factory=list)

    async def version(self) -> str:
        self._be_there()
        return self.found

    async def machines(self) -> Sequence[Machine]:
        self._be_there()
        return [Machine(name=name, cpus=self.cpus) for name in self.folders]

    async def run(self, machine: str, argv: Sequence[str], timeout_s: float) -> Ran:
        self.ran.append((machine, "look" if argv[1] == "-c" else argv[3]))
        if machine in self.hangs:
            await asyncio.Event().wait()
        if argv[1] == "-c":
            return self._look(machine, argv[3:])
        there = [str(self.folders[machine]) if word == self.meant else word for word in argv]
        words = [sys.executable if word == "{python}" else word for word in there]
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        return Ran(status=process.returncode, out=out.decode(), err=err.decode())

    def _look(self, machine: str, names: Sequence[str]) -> Ran:
        """What is installed is made up."""
        has = {**dict.fromkeys(names, "1.0"), "hostler": __version__, "ray": self.found, **self.has.get(machine, {})}
        told = {"python": has.pop("python", "3.11.2"), "at": "/usr/bin/python3", "has": has}
        return Ran(status=0, out=f"some warning\n{json.dumps(told)}\n", err="")

    def _be_there(self) -> None:
        if self.away:
            raise LinkLost("nothing answers at http://head:8265")
