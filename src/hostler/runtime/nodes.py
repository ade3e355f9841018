"""From the machines of a fleet file to backends, and to connections."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from hostler.agent.build import build_zipapp
from hostler.agent.files import BLOBS
from hostler.backends.agented import Options
from hostler.backends.base import Backend, Report, Store
from hostler.backends.courier import Parcel
from hostler.backends.dialin import DialinNode, Switchboard
from hostler.backends.local import LocalNode
from hostler.backends.packing import Packer
from hostler.backends.slurm import SlurmPool, left_there
from hostler.backends.ssh import Finding, Habits, Network, SshNode, Target, examine
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import LinkRefused
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Ended, Input, Returned, Trouble, WorkerRefused
from hostler.model.pools import Batch
from hostler.runtime.clock import Clock
from hostler.runtime.clusters import Clusters
from hostler.runtime.statedir import StateDir
from hostler.settings import Loaded, node_env, node_spec
from hostler.settings.nodes import Node

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
    network = Network(habits(loaded, directory))
    maker = Maker(loaded, directory, network, calls, clock)
    try:
        yield Reached({node.name: maker.backend(node) for node in loaded.fleet.nodes}, maker.retired)
    finally:
        await network.close()


class Forgotten:
    """A node elsewhere that nobody says any more how to reach. What it holds may run on: it is not said to be dead.

    What is not wanted any more is given up here, for nobody will ever hear how it ended.
    """

    def __init__(self, name: str, kind: str, clock: Clock) -> None:
        self.kind = kind
        self._clock = clock
        self._name = name
        self._given_up: list[Input] = []
        self._why = (
            f"{name} was taken out of the fleet file while it held work; put it back, so that what it holds can be "
            "awaited, or cancel that"
        )

    def remember(self, batches: Sequence[Batch]) -> None:
        """A cluster that nobody knows any more has jobs for it: people are told, once, which they are."""
        if batches:
            left = left_there(self._name, [(each.token, each.job) for each in batches])
            self._given_up.append(Trouble(where=f"node {self._name}", what=left))

    async def probe(self) -> NodeSpec:
        """Raises `LinkRefused`, as everything here does that needs the node."""
        raise LinkRefused(self._why)

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        """Raises `LinkRefused`."""
        raise LinkRefused(self._why)

    async def observe(self, epoch: int) -> AsyncIterator[Report]:
        """Tell what was given up, and what is left behind; then raises `LinkRefused`."""
        given_up, self._given_up = self._given_up, []
        if given_up:
            yield Report(inputs=tuple(given_up))
        raise LinkRefused(self._why)

    async def stop(self, attempts: Sequence[str], reason: str) -> None:
        """Give them up."""
        now = self._clock.now()
        self._given_up += [Ended(attempt=each, ended_at=now, reason="unknown", error=self._why) for each in attempts]

    async def lend(self, worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> Sequence[WorkerRefused]:
        """Raises `LinkRefused`."""
        raise LinkRefused(self._why)

    async def recall(self, chunks: Sequence[str], reason: str) -> None:
        """Give them up."""
        self._given_up += [Returned(chunk=each, reason="recalled", error=reason) for each in chunks]

    async def trim(self, ends: Mapping[str, int]) -> None:
        """Nobody is there to end them earlier."""

    async def close_worker(self, worker: str) -> None:
        """Nobody is there to end it."""


def habits(loaded: Loaded, directory: StateDir) -> Habits:
    """How nodes are connected to."""
    ssh = loaded.fleet.ssh
    return Habits(
        config=tuple(_path(loaded, each) for each in ssh.config),
        known_hosts=(directory.known_hosts, *(_path(loaded, each) for each in ssh.known_hosts)),
        handshakes=ssh.handshakes,
        connect_s=ssh.connect_s,
        keepalive_s=ssh.keepalive_s,
    )


def target(loaded: Loaded, node: Node) -> Target:
    """How to get to a node behind SSH."""
    return Target(
        host=node.host or node.name,
        port=node.port,
        user=node.user,
        identity=None if node.identity is None else _path(loaded, node.identity),
        via=node.via,
    )


def options(loaded: Loaded, directory: StateDir, node: Node) -> Options:
    """What the backend of a node is told, whatever it is."""
    limits = loaded.fleet.limits
    return Options(
        controller=loaded.fleet.name,
        store=_store(directory),
        cpu_slots=None if node.cpu_slots == "auto" else node.cpu_slots,
        gpus=node.gpus == "auto",
        env=node_env(node),
        log_bytes=limits.log_bytes,
        result_bytes=limits.result_bytes,
        terms=node_spec(node),
    )


async def examined(loaded: Loaded, nodes: Sequence[Node]) -> list[Finding]:
    """What there is to say of nodes behind SSH, all looked at side by side, in their order."""
    network = Network(habits(loaded, StateDir(loaded.state_dir)))
    try:
        each = (
            examine(network, node.name, target(loaded, node), python=node.python or "python3", folder=node.dir)
            for node in nodes
        )
        return [finding for found in await asyncio.gather(*each) for finding in found]
    finally:
        await network.close()


class Maker:
    """Makes the backend of each node from what a fleet file says of it."""

    def __init__(self, loaded: Loaded, directory: StateDir, network: Network, calls: Switchboard, clock: Clock) -> None:
        self._loaded = loaded
        self._directory = directory
        self._network = network
        self._calls = calls
        self._clock = clock
        self._packer = Packer(skip=directory.path.absolute())
        self._clusters = Clusters(directory, network, self._packer, clock)

    def backend(self, node: Node) -> Backend:
        """The backend of a node."""
        if node.backend == "ssh":
            return self._ssh(node)
        if node.backend == "slurm":
            return self._slurm(node)
        return self._dialin(node) if node.backend == "dialin" else self._local(node)

    def retired(self, node: NodeSpec, agent: str | None) -> Backend:
        """A node that was taken out of the fleet file: nothing new is put on it, and what it holds is awaited.

        A partition is reached through another one of its cluster, if there is any.
        """
        if node.backend == SlurmPool.kind and (pool := self._clusters.retired(node, agent, self._options)) is not None:
            return pool
        if node.backend != LocalNode.kind:
            return Forgotten(node.name, node.backend, self._clock)
        return LocalNode(
            node.name,
            self._directory.agent(node.name),
            controller=self._loaded.fleet.name,
            store=_store(self._directory),
            cpu_slots=0,
            gpus=False,
        )

    def _ssh(self, node: Node) -> Backend:
        return SshNode(
            node.name,
            target(self._loaded, node),
            self._network,
            packer=self._packer,
            folder=f"{node.dir.rstrip('/')}/{self._directory.identity()}/{node.name}",
            python=node.python or "python3",
            setup=node.setup,
            **self._options(node),
        )

    def _slurm(self, node: Node) -> Backend:
        login = None if node.host is None else target(self._loaded, node)
        return self._clusters.pool(node, login, self._options(node))

    def _dialin(self, node: Node) -> Backend:
        python = node.python or "python3"
        return DialinNode(
            node.name, self._calls, self._program, packer=self._packer, python=python, **self._options(node)
        )

    def _local(self, node: Node) -> Backend:
        options = self._options(node)
        options["env"] = {"HOSTLER_ARTIFACTS": str(self._directory.artifacts.absolute()), **node_env(node)}
        return LocalNode(node.name, self._directory.agent(node.name), python=node.python or sys.executable, **options)

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


def _path(loaded: Loaded, text: str) -> Path:
    return loaded.base_dir / os.path.expanduser(text)
