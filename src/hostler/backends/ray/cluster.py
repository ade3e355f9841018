"""One Ray cluster, for all nodes of the fleet that are pilots in it: what it is made of, and our agent in its store."""

from __future__ import annotations

import asyncio
import hashlib
import io
import zipfile
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

from hostler.backends.ray.machines import Machine, Wants, refusal, too_many
from hostler.backends.ray.rest import RayRest

EPOCH = (1980, 1, 1, 0, 0, 0)
FRESH_S = 2.0
"""So long what was seen of the machines does for everybody who asks."""


class Clock(Protocol):
    """Time that never goes back, in Unix seconds."""

    def now(self) -> float:
        """The time."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class RayCluster:
    """`program` gives the bytes of our agent. What is asked may raise `RayDown` and `RayRefused`."""

    def __init__(self, rest: RayRest, clock: Clock, program: Callable[[], bytes]) -> None:
        self.rest = rest
        self.clock = clock
        self._program = program
        self._members: dict[str, Wants] = {}
        self._looking = asyncio.Lock()
        self._seen: tuple[float, Sequence[Machine]] | None = None

    def join(self, node: str, wants: Wants) -> None:
        """A node of the fleet is a pilot here, and asks for this."""
        self._members[node] = wants

    async def machines(self) -> Sequence[Machine]:
        """The machines of the cluster, as they are now or were a moment ago."""
        return await self._looked(FRESH_S)

    async def _looked(self, old_s: float) -> Sequence[Machine]:
        async with self._looking:
            if self._seen is None or self.clock.now() - self._seen[0] > old_s:
                self._seen = self.clock.now(), await self.rest.machines()
            return self._seen[1]

    async def refusal(self, wants: Wants) -> str | None:
        """Why a pilot can never run there, or not together with all others of this fleet; `None`: it can."""
        machines = await self.machines()
        return refusal(wants, machines) or too_many(list(self._members.values()), machines)

    async def machine(self, name: str | None) -> Machine | None:
        """One of them as it is now, if it is known."""
        return next((each for each in await self._looked(0.0) if each.id == name), None)

    async def agent(self) -> str:
        """Where jobs find a folder with our agent in it. It is brought there unless it is: the cluster forgets what no
        job has used for a while."""
        name, content = self._package
        if not await self.rest.has_package(name):
            await self.rest.put_package(name, content)
        return f"gcs://{name}"

    @cached_property
    def _package(self) -> tuple[str, bytes]:
        output = io.BytesIO()
        with zipfile.ZipFile(output, "w") as package:
            package.writestr(zipfile.ZipInfo("agent.pyz", EPOCH), self._program())
        content = output.getvalue()
        return f"_ray_pkg_{hashlib.sha256(content).hexdigest()[:32]}.zip", content
