"""From the Ray clusters of a fleet file to backends; shares of one cluster go through one door."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from hostler.backends.agented import Options
from hostler.backends.base import Backend
from hostler.backends.courier import Parcel
from hostler.backends.dialin import Switchboard, fingerprint
from hostler.backends.packing import Packer
from hostler.backends.ray import Calling, Door, RayCluster, RayNode, RayRest, Terms, Wants
from hostler.backends.ray.check import Looked, examine
from hostler.model.errors import SettingsError
from hostler.model.work import DeviceKind
from hostler.runtime.clock import Clock
from hostler.runtime.dialin import address, identity
from hostler.runtime.statedir import StateDir
from hostler.settings import Loaded, ray_token
from hostler.settings.nodes import Node
from hostler.settings.ray import Ray


class Rays:
    """Makes the backends of such nodes; connections are kept until the end."""

    def __init__(
        self, loaded: Loaded, directory: StateDir, calls: Switchboard, program: Parcel, packer: Packer, clock: Clock
    ) -> None:
        self._loaded = loaded
        self._directory = directory
        self._calls = calls
        self._program = program
        self._packer = packer
        self._clock = clock
        self._clusters: dict[Door, RayCluster] = {}

    def node(self, node: Node, options: Options) -> Backend:
        """A share of a cluster. Raises `SettingsError` where its token or its certificates cannot be read."""
        return RayNode(
            node.name,
            self._cluster(door(self._loaded, node)),
            terms_of(node),
            self._calling,
            self._directory.session_key(),
            self._calls,
            self._program,
            packer=self._packer,
            **options,
        )

    async def close(self) -> None:
        """End all connections."""
        for cluster in self._clusters.values():
            await cluster.rest.close()

    def _cluster(self, found: Door) -> RayCluster:
        if found not in self._clusters:
            self._clusters[found] = RayCluster(rest(found), self._clock, self._program.source.read_bytes)
        return self._clusters[found]

    def _calling(self) -> Calling:
        certificate, _ = identity(self._loaded, self._directory)
        return Calling(to=address(self._loaded, self._directory), fingerprint=fingerprint(certificate))


def door(loaded: Loaded, node: Node) -> Door:
    """Where the cluster of a node answers. Raises `SettingsError` where its token cannot be read."""
    return door_of(loaded, node.ray or Ray(), f"node {node.name!r}", os.environ)


def door_of(loaded: Loaded, asked: Ray, whose: str, environ: Mapping[str, str]) -> Door:
    """Where a cluster answers, as somebody says who is called so. Raises `SettingsError` as `door` does."""
    assert asked.address is not None
    ca = None if asked.ca is None else loaded.base_dir / os.path.expanduser(asked.ca)
    return Door(address=asked.address, token=ray_token(loaded, asked, whose, environ), ca=ca)


def rest(found: Door) -> RayRest:
    """The requests to a cluster. Raises `SettingsError` where there are no certificates to believe."""
    try:
        return RayRest(found)
    except OSError as error:
        raise SettingsError(f"ray.ca: {found.ca} cannot be used: {error.strerror or error}") from error


async def examined(loaded: Loaded) -> list[Looked]:
    """What there is to say of the clusters of a fleet file, all looked at side by side.

    Raises `SettingsError` where a token or certificates cannot be read.
    """
    asked: dict[Door, dict[str, Wants]] = {}
    for node in loaded.fleet.nodes:
        if node.backend == "ray":
            asked.setdefault(door(loaded, node), {})[node.name] = terms_of(node).wants
    calls = loaded.fleet.dialin.address or loaded.fleet.dialin.listen
    told = await asyncio.gather(*(_examined(found, wants, calls) for found, wants in asked.items()))
    return [each for some in told for each in some]


async def _examined(found: Door, wants: Mapping[str, Wants], calls: str | None) -> list[Looked]:
    requests = rest(found)
    try:
        return await examine(found, requests, wants, calls)
    finally:
        await requests.close()


def terms_of(node: Node) -> Terms:
    """On which terms a cluster is used."""
    asked = node.ray or Ray()
    slots = int(asked.cpus) if node.cpu_slots == "auto" else node.cpu_slots
    return Terms(
        wants=Wants(
            cpus=asked.cpus,
            gpus=asked.gpus,
            memory_gb=asked.memory_gb,
            resources=asked.resources,
            labels=asked.labels,
            grows=asked.grows,
        ),
        cpu_slots=slots or int(not asked.gpus and node.cpu_slots == "auto"),
        folder=f"{node.dir.rstrip('/')}/ray",
        python=node.python or "python3",
        idle_s=asked.idle_s,
        poll_s=asked.poll_s,
        gpu_kind=DeviceKind(asked.gpu_kind),
        gpu_model=asked.gpu_model,
        vram_gb=asked.vram_gb,
    )
