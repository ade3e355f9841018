"""Nodes that are reached over SSH, and partitions of clusters: what a fleet without them never imports.

asyncssh alone takes a third of a second: at its import it looks for a library by running other programs.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from hostler.backends.agented import Options
from hostler.backends.base import Backend, Report
from hostler.backends.packing import Packer
from hostler.backends.slurm import left_there
from hostler.backends.ssh import Finding, Habits, Network, SshNode, Target, examine
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import LinkRefused
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Ended, Input, Returned, Trouble, WorkerRefused
from hostler.model.pools import Batch
from hostler.runtime.cards import selection
from hostler.runtime.clock import Clock
from hostler.runtime.clusters import Clusters
from hostler.runtime.statedir import StateDir
from hostler.settings import Loaded
from hostler.settings.nodes import Node


class Elsewhere:
    """Makes the backends of such nodes; they share connections, which are kept until the end."""

    def __init__(self, loaded: Loaded, directory: StateDir, packer: Packer, clock: Clock) -> None:
        self._loaded = loaded
        self._directory = directory
        self._packer = packer
        self._network = Network(habits(loaded, directory))
        self._clusters = Clusters(directory, self._network, packer, clock)

    def ssh(self, node: Node, options: Options) -> Backend:
        """A node behind SSH."""
        return SshNode(
            node.name,
            target(self._loaded, node),
            self._network,
            packer=self._packer,
            folder=f"{node.dir.rstrip('/')}/{self._directory.identity()}/{node.name}",
            python=node.python or "python3",
            setup=node.setup,
            **options,
        )

    def slurm(self, node: Node, options: Options) -> Backend:
        """A partition."""
        login = None if node.host is None else target(self._loaded, node)
        return self._clusters.pool(node, login, options)

    def retired(self, node: NodeSpec, agent: str | None, options: Callable[[Node], Options]) -> Backend | None:
        """A partition that is in the fleet file no more, through another one of its cluster, if there is any."""
        return self._clusters.retired(node, agent, options)

    async def close(self) -> None:
        """End all connections."""
        await self._network.close()


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
            left = _left_there(self.kind, self._name, batches)
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


def _left_there(kind: str, node: str, batches: Sequence[Batch]) -> str:
    """What may be in a cluster still, and what helps."""
    if kind != "ray":
        return left_there(node, [(each.token, each.job) for each in batches])
    named = ", ".join(f"`ray job stop {each.token}`" for each in batches)
    return (
        f"{node} was taken out of the fleet file, and its Ray cluster may have a pilot of it still, which ends as soon "
        f"as it calls and is refused; put it back, or have it ended there: {named}"
    )


def habits(loaded: Loaded, directory: StateDir) -> Habits:
    """How nodes are connected to."""
    ssh = loaded.fleet.ssh
    return Habits(
        config=tuple(_path(loaded, each) for each in ssh.config),
        known_hosts=(directory.known_hosts, *(_path(loaded, each) for each in ssh.known_hosts)),
        handshakes=ssh.handshakes,
        fleet_file="FLEET" if loaded.path is None else shlex.quote(loaded.path.name),
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


async def examined(loaded: Loaded, nodes: Sequence[Node]) -> list[Finding]:
    """What there is to say of nodes behind SSH, all looked at side by side, in their order."""
    network = Network(habits(loaded, StateDir(loaded.state_dir)))
    try:
        each = (
            examine(
                network,
                node.name,
                target(loaded, node),
                python=node.python or "python3",
                folder=node.dir,
                selection=selection(node),
            )
            for node in nodes
        )
        return [finding for found in await asyncio.gather(*each) for finding in found]
    finally:
        await network.close()


def _path(loaded: Loaded, text: str) -> Path:
    return loaded.base_dir / os.path.expanduser(text)
