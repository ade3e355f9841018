"""Commands run on this machine, and a clock that tests wind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostler.backends.slurm.budget import Budget
from hostler.backends.slurm.commands import Ran, Slurm
from hostler.backends.slurm.parsing import AccountingRow, QueueRow

from .fake import SLOW


class Here:
    """Runs commands with a folder first on PATH. Keeps to what `Runs` promises."""

    def __init__(self, folder: Path | None = None, **env: str) -> None:
        path = os.environ["PATH"] if folder is None else f"{folder}:/usr/bin:/bin"
        self.env = {**os.environ, **env, "PATH": path}

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float,
    ) -> Ran:
        changed = {**self.env, **(env or {})}
        known = {name: value for name, value in changed.items() if value is not None}
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=known,
            )
        except OSError as error:
            return Ran(status=None, out="", err=f"cannot start {argv[0]!r}: {error.strerror}")
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await process.communicate(None if stdin is None else stdin.encode())
        except BaseException as error:
            process.kill()
            await process.communicate()
            if not isinstance(error, TimeoutError):
                raise
            return Ran(status=None, out="", err="", timed_out=True)
        status = process.returncode
        assert status is not None
        return Ran(status=status if status >= 0 else None, out=out.decode(errors="replace"), err=err.decode())


class Impatient(Here):
    """Times out a slow command of the fake as soon as its work is done."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._sign = folder / SLOW

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float,
    ) -> Ran:
        running = asyncio.create_task(super().run(argv, stdin=stdin, env=env, timeout_s=timeout_s))
        while not running.done():
            if self._sign.exists():
                self._sign.unlink()
                running.cancel()
                await asyncio.wait({running})
                return Ran(status=None, out="", err="", timed_out=True)
            await asyncio.sleep(0.02)
        return running.result()


class Wound:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self, now: float = 1000.0) -> None:
        self.time = now
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class Stepped:
    """A clock that stands still until a test lets time go by."""

    def __init__(self, now: float = 1000.0) -> None:
        self.time = now
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.time + seconds, woken))
        await woken

    async def go(self, seconds: float = 0.0) -> None:
        """Let so much time go by, and everybody do what there is to do until then."""
        until = self.time + seconds
        await self._settle()
        while due := sorted((each for each in self._sleepers if each[0] <= until), key=lambda each: each[0]):
            self.time, woken = max(self.time, due[0][0]), due[0][1]
            woken.set_result(None)
            await self._settle()
        self.time = until

    async def _settle(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)
        self._sleepers = [each for each in self._sleepers if not each[1].done()]


def names_of(row: QueueRow | AccountingRow) -> tuple[str, ...]:
    """What the jobs of a row are called: `823`, or `820_3` for each task."""
    return (row.job,) if row.array is None else tuple(f"{row.array}_{task}" for task in row.tasks)


def slurm(runs: Here, clock: Wound | None = None, per_minute: int = 1000) -> tuple[Slurm, Budget]:
    """A cluster, with a budget that is hardly one; chance is always in the middle."""
    clock = clock or Wound()
    budget = Budget(clock, per_minute, lambda: 0.5)
    return Slurm(runs, clock, budget), budget
