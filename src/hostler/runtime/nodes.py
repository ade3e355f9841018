"""From the machines of a fleet file to backends, and to connections."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from hostler.agent.build import build_zipapp
from hostler.agent.files import BLOBS
from hostler.backends.agented import Options
from hostler.backends.base import Backend, Store
from hostler.backends.bounds import Bounds
from hostler.backends.courier import Parcel
from hostler.backends.dialin import DialinNode, Switchboard
from hostler.backends.local import LocalNode
from hostler.backends.packing import Packer
from hostler.model.fleet import NodeSpec
from hostler.runtime.cards import selection
from hostler.runtime.clock import Clock
from hostler.runtime.statedir import StateDir
from hostler.settings import Loaded, node_env, node_spec, ray_secrets, store_secrets
from hostler.settings.nodes import Node

if TYPE_CHECKING:
    from hostler.runtime.elsewhere import Elsewhere
    from hostler.runtime.rays import Rays

OF_DATABASES = frozenset({"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE"})
"""Variables by which the journal's database may be reached: no job needs ours."""
Retire: TypeAlias = Callable[[NodeSpec, str | None], Backend]


@dataclass
class Reached:
    """The nodes of a fleet file by name, and what makes the backend of one that is not in it any more.

    That is given what was known of the node, and the id of the agent that has its work, if it ever had one.
    """

    nodes: Mapping[str, Backend]
    retired: Retire


@asynccontextmanager
async def reaching(loaded: Loaded, directory: StateDir, calls: Switchboard, clock: Clock) -> AsyncIterator[Reached]:
    """The nodes of a fleet file; connections to them are kept until the end of this."""
    maker = Maker(loaded, directory, calls, clock)
    try:
        yield Reached({node.name: maker.backend(node) for node in loaded.fleet.nodes}, maker.retired)
    finally:
        await maker.close()


def bounds(loaded: Loaded) -> Bounds:
    """What the controller takes of one node."""
    limits = loaded.fleet.limits
    return Bounds(
        line_bytes=limits.line_bytes,
        facts_per_s=limits.facts_per_s,
        facts_burst=limits.facts_burst,
        result_bytes=limits.result_bytes,
        hits_bytes=limits.hits_bytes,
        error_bytes=limits.error_bytes,
        log_bytes=limits.log_bytes,
        outputs=limits.outputs,
        depth=limits.depth,
    )


def options(loaded: Loaded, directory: StateDir, node: Node) -> Options:
    """What the backend of a node is told, whatever it is."""
    limits = loaded.fleet.limits
    return Options(
        controller=loaded.fleet.name,
        store=_store(directory),
        cpu_slots=None if node.cpu_slots == "auto" else node.cpu_slots,
        gpus=node.gpus != "none",
        selection=selection(node),
        env=node_env(node),
        log_bytes=limits.log_bytes,
        result_bytes=limits.result_bytes,
        build_s=limits.environment_build_s,
        job_user=node.job_user,
        bounds=bounds(loaded),
        terms=node_spec(node),
    )


class Maker:
    """Makes the backend of each node from what a fleet file says of it."""

    def __init__(self, loaded: Loaded, directory: StateDir, calls: Switchboard, clock: Clock) -> None:
        self._loaded = loaded
        self._directory = directory
        self._calls = calls
        self._clock = clock
        self._packer = Packer(skip=directory.path.absolute())
        self._distant: Elsewhere | None = None
        self._ray: Rays | None = None

    def backend(self, node: Node) -> Backend:
        """The backend of a node."""
        if node.backend == "ssh":
            return self._elsewhere().ssh(node, self._options(node))
        if node.backend == "slurm":
            return self._elsewhere().slurm(node, self._options(node))
        if node.backend == "ray":
            return self._rays().node(node, self._options(node))
        return self._dialin(node) if node.backend == "dialin" else self._local(node)

    def retired(self, node: NodeSpec, agent: str | None) -> Backend:
        """A node that was taken out of the fleet file: nothing new is put on it, and what it holds is awaited.

        A partition is reached through another one of its cluster, if there is any.
        """
        if node.backend != LocalNode.kind:
            return self._gone(node, agent)
        return LocalNode(
            node.name,
            self._directory.agent(node.name),
            controller=self._loaded.fleet.name,
            store=_store(self._directory),
            cpu_slots=0,
            gpus=False,
            bounds=bounds(self._loaded),
        )

    async def close(self) -> None:
        """End all connections."""
        if self._distant is not None:
            await self._distant.close()
        if self._ray is not None:
            await self._ray.close()

    def _gone(self, node: NodeSpec, agent: str | None) -> Backend:
        from hostler.runtime.elsewhere import Forgotten

        pool = self._elsewhere().retired(node, agent, self._options) if node.backend == "slurm" else None
        return Forgotten(node.name, node.backend, self._clock) if pool is None else pool

    def _elsewhere(self) -> Elsewhere:
        from hostler.runtime.elsewhere import Elsewhere

        if self._distant is None:
            self._distant = Elsewhere(self._loaded, self._directory, self._packer, self._clock)
        return self._distant

    def _rays(self) -> Rays:
        from hostler.runtime.rays import Rays

        if self._ray is None:
            self._ray = Rays(self._loaded, self._directory, self._calls, self._program, self._packer, self._clock)
        return self._ray

    def _dialin(self, node: Node) -> Backend:
        python = node.python or "python3"
        return DialinNode(
            node.name, self._calls, self._program, packer=self._packer, python=python, **self._options(node)
        )

    def _local(self, node: Node) -> Backend:
        options = self._options(node)
        options["env"] = {**node_env(node), "HOSTLER_ARTIFACTS": str(self._directory.artifacts.absolute())}
        secrets = store_secrets(self._loaded, os.environ) | ray_secrets(self._loaded, os.environ) | OF_DATABASES
        python, folder = node.python or sys.executable, self._directory.agent(node.name)
        return LocalNode(node.name, folder, python=python, withheld=secrets, **options)

    def _options(self, node: Node) -> Options:
        return options(self._loaded, self._directory, node)

    @cached_property
    def _program(self) -> Parcel:
        """Our agent, as nodes are to have it that nobody can start one on."""
        path = self._directory.agent_file
        digest = build_zipapp(path)
        place = f"{BLOBS}/{digest[:2]}/{digest}.pyz"
        return Parcel(source=path, path=place, size=path.stat().st_size, sha256=digest)


def _store(directory: StateDir) -> Store:
    return Store(results=directory.results.absolute(), artifacts=directory.artifacts.absolute())
