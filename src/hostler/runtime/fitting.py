"""Ratings, fitted by a process of its own: it takes seconds of arithmetic, and the controller never waits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog
from pydantic import ValidationError

from hostler.model.codec import adapter, explain
from hostler.model.commands import Fit
from hostler.model.errors import HostlerError
from hostler.model.inputs import Fitted
from hostler.model.learning import Rating

Ratings = Mapping[str, Rating | None]

LIMIT_S = 600.0
"""Longest time a fit may take; 300 players take 10 s, 600 a minute: it grows with their cube."""
SAID_MAX = 500
"""Characters of its last words that are told."""


class FitFailed(HostlerError):
    """The process that fits ratings failed: it could not be started, ended badly, hung, or answered nonsense."""


class Fitter:
    """Carries out `Fit` commands, one at a time; of several for one config only the newest counts."""

    def __init__(self, answer: Callable[[Fitted], None]) -> None:
        self._answer = answer
        self._wanted: dict[str, Fit] = {}
        self._wake = asyncio.Event()
        self._log = structlog.get_logger()

    def give(self, command: Fit) -> None:
        """Fit this as soon as may be."""
        self._wanted[command.config] = command
        self._wake.set()

    async def run(self) -> None:
        """Fit until cancelled."""
        while True:
            await self._wake.wait()
            command = self._wanted.pop(next(iter(self._wanted)))
            if not self._wanted:
                self._wake.clear()
            self._answer(await self._fit(command))

    async def _fit(self, command: Fit) -> Fitted:
        matches = command.through
        try:
            ratings = await fit_in_background(command)
        except FitFailed as error:
            self._log.error("ratings not fitted", config=command.config, why=str(error))
            return Fitted(config=command.config, matches=matches, error=str(error))
        return Fitted(config=command.config, matches=matches, ratings=ratings)


async def fit_in_background(
    command: Fit, program: tuple[str, ...] = (sys.executable, "-m", "hostler.runtime.fitting"), limit_s: float = LIMIT_S
) -> Ratings:
    """The ratings that a process of its own fits, within `limit_s`. Raises `FitFailed` with what it said."""
    process = await _started(program)
    try:
        async with asyncio.timeout(limit_s):
            out, said = await process.communicate(adapter(Fit).dump_json(command))
    except TimeoutError as error:
        raise FitFailed(f"the fit of {len(command.matches)} matches took longer than {limit_s:g} s") from error
    finally:
        await _ended(process)
    if process.returncode != 0:
        raise FitFailed(said.decode(errors="replace").strip()[-SAID_MAX:] or f"exit status {process.returncode}")
    return _read(out)


async def _started(program: tuple[str, ...]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(*program, stdin=pipe, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise FitFailed(f"the process that fits ratings could not be started: {error}") from error


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Leave nothing behind, however the fit went."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _read(out: bytes) -> Ratings:
    try:
        ratings: Ratings = adapter(Ratings).validate_json(out)
    except ValidationError as error:
        raise FitFailed(f"the process that fits ratings answered {out[:80]!r}: {explain(error)}") from error
    return ratings


def main() -> None:
    """`python -m hostler.runtime.fitting`: a `Fit` on standard input, ratings on standard output, as JSON."""
    try:
        command: Fit = adapter(Fit).validate_json(sys.stdin.buffer.read())
    except ValidationError as error:
        sys.exit(f"what is to be fitted cannot be read: {explain(error)}")
    try:
        from hostler.learning.ratings import fit_live
    except ImportError as error:
        sys.exit(f"ratings need openskill ({error}): pip install 'hostler[eval]'")
    ratings = fit_live(command.matches, command.anchors, command.frozen)
    sys.stdout.buffer.write(adapter(Ratings).dump_json(ratings))


if __name__ == "__main__":
    main()
