"""The Ray cluster that a fleet file plans its training on, as the preflight asks it: by the requests of its dashboard,
and by jobs of its own on machines that are named."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

from hostler.backends.ray import RayRest
from hostler.backends.ray.errands import forget, run
from hostler.backends.ray.errors import RayDown, RayRefused
from hostler.backends.ray.machines import Machine as RayMachine
from hostler.model.errors import LinkLost, LinkRefused
from hostler.runtime.preflight.seam import Machine, Ran
from hostler.runtime.rays import door_of, rest
from hostler.settings import Entrance, Loaded

LOOK_S = 10.0
"""For one answer of the dashboard."""
PYTHON = "{python}"
NOT_FOUND = 127
"""What a shell ends with that has no such program; the log has its words only after those of Ray, if at all."""


class Dashboard:
    """`RayCluster` by the dashboard of one. Nothing is opened before the first question; `close` ends it."""

    def __init__(self, loaded: Loaded, entrance: Entrance, environ: Mapping[str, str]) -> None:
        self._loaded = loaded
        self._entrance = entrance
        self._environ = environ
        self._rest: RayRest | None = None
        self._named: dict[str, RayMachine] = {}
        self._begun: list[str] = []
        """Names of our jobs."""

    async def close(self) -> None:
        """Have the cluster forget our jobs, and end the connections to it."""
        if self._rest is not None:
            if self._begun:
                await forget(self._rest, self._begun)
            await self._rest.close()

    async def version(self) -> str:
        """Of Ray. Raises `SettingsError`, as all others do, where token or certificates cannot be read."""
        async with self._asked() as there:
            return await there.version()

    async def machines(self) -> Sequence[Machine]:
        """Those that live, the head too."""
        async with self._asked() as there:
            found = [each for each in await there.machines() if each.alive]
        named = dict(_named(found))
        self._named |= named
        return [Machine(name=name, cpus=each.total.get("CPU", 0.0)) for name, each in named.items()]

    async def run(self, machine: str, argv: Sequence[str], timeout_s: float) -> Ran:
        """Run a program there, as a job of the cluster that is forgotten afterwards."""
        words = [self._entrance.python if word == PYTHON else word for word in argv]
        with _as_ours():
            came = await run(self._opened(), self._named[machine], words, timeout_s)
        self._begun.append(came.name)
        said = f"there is no {words[0]}" if came.status == NOT_FOUND else came.said
        return Ran(status=came.status, out=said, err=said)

    @asynccontextmanager
    async def _asked(self) -> AsyncIterator[RayRest]:
        try:
            async with asyncio.timeout(LOOK_S):
                with _as_ours():
                    yield self._opened()
        except TimeoutError as error:
            address = self._entrance.asked.address
            raise LinkLost(f"{address} takes questions, and does not answer within {LOOK_S:g} s") from error

    def _opened(self) -> RayRest:
        if self._rest is None:
            who = self._entrance
            self._rest = rest(door_of(self._loaded, who.asked, who.whose, self._environ))
        return self._rest


@contextmanager
def _as_ours() -> Iterator[None]:
    try:
        yield
    except RayDown as error:
        raise LinkLost(str(error)) from error
    except RayRefused as error:
        raise LinkRefused(str(error)) from error


def _named(machines: Sequence[RayMachine]) -> Iterator[tuple[str, RayMachine]]:
    """By address, and by id where several have one."""
    counts = Counter(each.ip for each in machines)
    for each in machines:
        yield each.ip if counts[each.ip] == 1 else f"{each.id[:8]}@{each.ip}", each
