"""Ratings, fitted by a process of its own: it takes seconds of arithmetic, and the controller never waits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping

import structlog

from hostler.model.codec import adapter
from hostler.model.commands import Fit
from hostler.model.errors import HostlerError
from hostler.model.inputs import Fitted
from hostler.model.learning import Rating

Ratings = Mapping[str, Rating | None]


class FitFailed(HostlerError):
    """The process that fits ratings failed."""


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
        matches = len(command.matches)
        try:
            ratings = await fit_in_background(command)
        except FitFailed as error:
            self._log.error("ratings not fitted", config=command.config, why=str(error))
            return Fitted(config=command.config, matches=matches, error=str(error))
        return Fitted(config=command.config, matches=matches, ratings=ratings)


async def fit_in_background(command: Fit) -> Ratings:
    """The ratings that a process of its own fits. Raises `FitFailed` with what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hostler.runtime.fitting",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, said = await process.communicate(adapter(Fit).dump_json(command))
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        raise FitFailed(said.decode(errors="replace").strip()[-500:] or f"exit status {process.returncode}")
    ratings: Ratings = adapter(Ratings).validate_json(out)
    return ratings


def main() -> None:
    """`python -m hostler.runtime.fitting`: a `Fit` on standard input, ratings on standard output, as JSON."""
    command: Fit = adapter(Fit).validate_json(sys.stdin.buffer.read())
    try:
        from hostler.learning.ratings import fit
    except ImportError as error:
        sys.exit(f"ratings need openskill ({error}): pip install 'hostler[eval]'")
    players = sorted({name for match in command.matches for name in (match.a, match.b)} | set(command.anchors))
    sys.stdout.buffer.write(adapter(Ratings).dump_json(fit(command.matches, command.anchors, players)))


if __name__ == "__main__":
    main()
