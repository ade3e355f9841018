"""From the partitions of a fleet file to backends; those of one cluster share what they have in common."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hostler.backends.agented import Options
from hostler.backends.packing import Packer
from hostler.backends.slurm import (
    ApartPool,
    Cluster,
    Freight,
    RetiredApartPool,
    RetiredPool,
    SlurmPool,
    Terms,
    desk,
    opening,
)
from hostler.backends.slurm.budget import Budget
from hostler.backends.slurm.commands import Slurm
from hostler.backends.slurm.resources import Place
from hostler.backends.slurm.script import Site
from hostler.backends.ssh import Network, Target
from hostler.model.fleet import NodeSpec
from hostler.model.record import record
from hostler.model.work import DeviceKind, WorkKind
from hostler.runtime.clock import Clock
from hostler.runtime.statedir import StateDir
from hostler.settings import slurm_job_dir, slurm_modes, slurm_shares, slurm_shares_state
from hostler.settings.nodes import Node
from hostler.settings.slurm import Slurm as SlurmSettings


@record
class Login:
    """Where Slurm's commands are: on a login node, or, without a target, on this machine."""

    target: Target | None
    root: str
    """Folder of this controller on the shared file system."""
    python: str
    """What runs the desk there: that of the first partition."""

    @property
    def name(self) -> str:
        """For people."""
        return "this machine" if self.target is None else self.target.host


class Clusters:
    """Makes pools; partitions whose login node and folder are the same are of one cluster."""

    def __init__(
        self, directory: StateDir, network: Network, packer: Packer, clock: Clock, folder: str | None = None
    ) -> None:
        """`folder` is that of this controller below `job_dir`; by default one that goes with its journal."""
        self._directory = directory
        self._network = network
        self._packer = packer
        self._clock = clock
        self._folder = folder
        self._logins: dict[tuple[Target | None, str], Login] = {}
        self._budgets: dict[tuple[str, int | None] | None, Budget] = {}
        self._clusters: dict[Login, Cluster] = {}
        self._freights: dict[Login, Freight] = {}
        self._nodes: dict[Login, Node] = {}
        """One partition of each cluster."""

    def pool(self, node: Node, target: Target | None, options: Options) -> SlurmPool:
        """The backend of a partition."""
        settings = node.slurm or SlurmSettings()
        login = self.login(node, target)
        self._nodes.setdefault(login, node)
        cluster = self.cluster(node, login)
        use, python = terms_of(node, settings), node.python or "python3"
        if slurm_shares_state(settings, node.host, self._directory.path):
            artifacts = {"HOSTLER_ARTIFACTS": str(self._directory.artifacts.absolute())}
            options["env"] = {**artifacts, **(options.get("env") or {})}
            return SlurmPool(node.name, cluster, use, python=python, **options)
        return ApartPool(node.name, cluster, use, self._freight(login, options), python=python, **options)

    def retired(self, known: NodeSpec, agent: str | None, options: Callable[[Node], Options]) -> RetiredPool | None:
        """The backend of a partition that is in the fleet file no more, through another one of its cluster.

        `agent` is the folder that its work is in, if that is known; `None`: there is no other one.
        """
        logins = [login for login in self._nodes if login.root == agent] or list(self._nodes)
        if not logins:
            return None
        login, node = logins[0], self._nodes[logins[0]]
        settings, given = node.slurm or SlurmSettings(), options(node)
        given["terms"] = known
        use, cluster = terms_of(node, settings), self.cluster(node, login)
        if known.pool is not None:
            use = replace(use, place=replace(use.place, partition=known.pool.partition))
        if slurm_shares_state(settings, node.host, self._directory.path):
            made = RetiredPool(known.name, cluster, use, **given)
        else:
            made = RetiredApartPool(known.name, cluster, use, self._freight(login, given), **given)
        made.agent = agent
        return made

    def login(self, node: Node, target: Target | None) -> Login:
        """From where the cluster of a partition is used."""
        folder = self._directory.identity() if self._folder is None else self._folder
        root = f"{slurm_job_dir(node.slurm or SlurmSettings())}/{folder}"
        python = (node.python or "python3") if target is not None else sys.executable
        # Partitions may differ in what runs their work, and are of one cluster all the same.
        return self._logins.setdefault((target, root), Login(target=target, root=root, python=python))

    def cluster(self, node: Node, login: Login) -> Cluster:
        """What the partitions behind a login have in common."""
        if login not in self._clusters:
            self._clusters[login] = self._cluster(login, node.slurm or SlurmSettings())
        return self._clusters[login]

    def _cluster(self, login: Login, settings: SlurmSettings) -> Cluster:
        clock, here = self._clock, opening.Here(Path(login.root), login.python)

        async def open_streams() -> desk.Streams:
            if login.target is None:
                return await here.open()
            return await opening.there(self._network, login.target, login.name, login.root, login.python)

        async def open_desk(on_news: desk.OnNews, on_lost: desk.OnLost) -> desk.Desk:
            gone = here.ended if login.target is None else None
            return await desk.opened(open_streams, login.name, on_news, on_lost, gone)

        budget = self._budget(login, settings)

        def slurm_at(opened: desk.Desk) -> Slurm:
            return Slurm(opened, clock, budget)

        return Cluster(login.name, clock, open_desk=open_desk, slurm_at=slurm_at, poll_s=settings.poll_s)

    def _budget(self, login: Login, settings: SlurmSettings) -> Budget:
        """Slurm is asked so often, from however many folders, and by whomever."""
        place = None if login.target is None else (login.target.host, login.target.port)
        if place not in self._budgets:
            self._budgets[place] = Budget(self._clock, settings.calls_per_minute, random.random)
        return self._budgets[place]

    def _freight(self, login: Login, options: Options) -> Freight:
        if login not in self._freights:
            self._freights[login] = Freight(login.name, lambda: self._open_files(login), self._packer, options["store"])
        return self._freights[login]

    async def _open_files(self, login: Login) -> desk.Streams:
        if login.target is None:
            return await opening.files_here(Path(login.root), login.python)
        return await opening.files_there(self._network, login.target, login.name, login.root, login.python)


def terms_of(node: Node, settings: SlurmSettings) -> Terms:
    """On which terms a partition is used."""
    shares = slurm_shares(settings)
    kinds = node.work or tuple(WorkKind)
    return Terms(
        place=Place(
            partition=node.partition or node.name,
            account=settings.account,
            qos=settings.qos,
            constraint=settings.constraint,
            reservation=settings.reservation,
            gpu_type=settings.gpu_type,
            extra=settings.extra,
            requeue=settings.requeue,
            array_limit=settings.array_limit,
            shares=shares,
        ),
        site=Site(
            folder=settings.shared_root or "/",
            python=node.python or "python3",
            setup=node.setup,
            venv=settings.venv_activate,
            venv_arm64=settings.venv_activate_arm64,
            runtime=settings.container_runtime,
            image=settings.container_image_x86_64,
            image_arm64=settings.container_image_arm64,
            container_args=settings.container_args,
            rocm=settings.gpu_kind == "rocm",
        ),
        modes=slurm_modes(settings),
        max_jobs=settings.max_jobs,
        max_pending=settings.max_pending,
        pilot_s=settings.pilot_s,
        pilot_idle_s=settings.pilot_idle_s,
        slot_cpus=max(shares[kind].cpus_least for kind in kinds),
        gpu_kind=DeviceKind(settings.gpu_kind),
        gpus=node.gpus != "none",
        vram_gb=settings.vram_gb,
    )
