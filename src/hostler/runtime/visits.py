"""Visits to the clusters of a fleet file: what is wrong with them, and whether work goes through; nothing is left."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import structlog

from hostler.backends.packing import Packer
from hostler.backends.slurm import SlurmPool
from hostler.backends.slurm.check import Login as LoginNode, Part, examine
from hostler.backends.slurm.cluster import Cluster
from hostler.backends.slurm.finding import Finding, of_error
from hostler.backends.slurm.smoke import Smoke, Smoked, failure
from hostler.backends.slurm.visiting import Visit, visiting
from hostler.backends.ssh import Network, unreached
from hostler.model.errors import LinkError
from hostler.model.pools import Mode
from hostler.model.record import record
from hostler.model.work import WorkKind
from hostler.runtime.clock import SteadyClock
from hostler.runtime.clusters import Clusters, Login, terms_of
from hostler.runtime.elsewhere import habits, target
from hostler.runtime.nodes import options
from hostler.runtime.statedir import StateDir
from hostler.settings import Loaded, node_env
from hostler.settings.nodes import Node
from hostler.settings.slurm import Slurm

T = TypeVar("T")

POLL_S = 2.0
CALLS_PER_MINUTE = 240
"""Somebody waits for the answer, and it is over soon."""
PILOT_S, PILOT_IDLE_S = 300.0, 1.0


@record
class Stay:
    """One cluster and those of its partitions that are looked at."""

    login: Login
    cluster: Cluster
    parts: tuple[Part, ...]
    pools: dict[str, SlurmPool]


async def checked(loaded: Loaded, nodes: Sequence[Node], wait_s: float, left: list[str]) -> list[Finding]:
    """What there is to say of partitions and their clusters, all looked at side by side, in their order.

    `left` is told what could not be cancelled, also if this is interrupted.
    """
    async with _stays(loaded, nodes, "job") as (network, stays):
        told = await asyncio.gather(*(_checked(network, stay, wait_s, left) for stay in stays))
    return [finding for each in told for finding in each]


async def smoked(
    loaded: Loaded,
    nodes: Sequence[Node],
    wait_s: float,
    at_a_time: int,
    left: list[str],
    tell: Callable[[Smoked], None],
) -> list[Smoked]:
    """One tiny job for each partition and kind of work; `tell` hears of each as soon as it is over."""
    turns = asyncio.Semaphore(at_a_time)
    async with _stays(loaded, nodes, None) as (_, stays):
        told = await asyncio.gather(*(_smoked(stay, wait_s, turns, left, tell) for stay in stays))
    return [each for row in told for each in row]


def interruptible(work: Coroutine[Any, Any, T]) -> T:
    """The outcome of `work`. SIGINT and SIGTERM cancel it, which it may take its time for; then `CancelledError`."""

    async def watched() -> T:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await work

    # What goes on is told when it is over; the log is for controllers.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        return asyncio.run(watched())
    finally:
        structlog.reset_defaults()


@asynccontextmanager
async def _stays(loaded: Loaded, nodes: Sequence[Node], mode: Mode | None) -> AsyncIterator[tuple[Network, list[Stay]]]:
    directory = StateDir(loaded.state_dir)
    network = Network(habits(loaded, directory))
    packer = Packer(skip=directory.path.absolute())
    clusters = Clusters(directory, network, packer, SteadyClock(), f"check-{secrets.token_hex(4)}")
    stays: dict[Login, Stay] = {}
    try:
        for node in nodes:
            way = None if node.host is None else target(loaded, node)
            brief = _brief(node, mode)
            login = clusters.login(brief, way)
            pool = clusters.pool(brief, way, options(loaded, directory, brief))
            known = stays.get(login)
            stays[login] = Stay(
                login=login,
                cluster=clusters.cluster(brief, login),
                parts=(*(() if known is None else known.parts), _part(node)),
                pools={**({} if known is None else known.pools), node.name: pool},
            )
        yield network, list(stays.values())
    finally:
        await network.close()


def _brief(node: Node, mode: Mode | None) -> Node:
    """The node as it is used for a moment: under another name, so that nobody takes its jobs for a controller's."""
    asked = node.slurm or Slurm()
    changed: dict[str, Any] = {
        "poll_s": POLL_S,
        "calls_per_minute": CALLS_PER_MINUTE,
        "pilot_s": PILOT_S,
        "pilot_idle_s": PILOT_IDLE_S,
    }
    slurm = asked.model_copy(update=changed if mode is None else {**changed, "mode": mode})
    named = {"name": f"check-{node.name}", "partition": node.partition or node.name}
    return node.model_copy(update={**named, "slurm": slurm})


def _part(node: Node) -> Part:
    return Part(
        node=node.name,
        terms=terms_of(node, node.slurm or Slurm()),
        kinds=node.work or tuple(WorkKind),
        python=node.python or "python3",
        env=node_env(node),
    )


async def _checked(network: Network, stay: Stay, wait_s: float, left: list[str]) -> list[Finding]:
    began = time.monotonic()
    found: list[Finding] = []
    own_left: list[str] = []

    async def look(visit: Visit) -> None:
        login = LoginNode(
            name=stay.login.name,
            python=stay.login.python,
            connected_s=time.monotonic() - began,
            is_here=stay.login.target is None,
        )
        found.extend(await examine(visit, login, stay.parts, wait_s))

    try:
        await _at(stay, look, own_left)
    except LinkError as error:
        found.append(await _no_desk(network, stay, error))
    finally:
        left.extend(own_left)
    if own_left:
        says = f"could not be seen to end: {', '.join(own_left)}"
        found.append(Finding(stay.login.name, "clean-up", "error", says, f"run `scancel {' '.join(own_left)}` there"))
    return found


async def _smoked(
    stay: Stay, wait_s: float, turns: asyncio.Semaphore, left: list[str], tell: Callable[[Smoked], None]
) -> list[Smoked]:
    rows: list[Smoked] = []

    async def try_all(visit: Visit) -> None:
        rows.extend(await Smoke(visit, wait_s, turns, tell).run(stay.parts))

    try:
        await _at(stay, try_all, left)
    except LinkError as error:
        if not rows:
            rows = [failure(part.node, work, error) for part in stay.parts for work in part.kinds]
            for each in rows:
                tell(each)
    return rows


async def _at(stay: Stay, work: Callable[[Visit], Awaitable[None]], left: list[str]) -> None:
    """Do something at a cluster. Raises `LinkLost`, `LinkRefused` where it cannot be got to."""
    visit: Visit | None = None
    try:
        async with visiting(stay.cluster, stay.pools) as visit:
            await work(visit)
    finally:
        left.extend([] if visit is None else visit.left)


async def _no_desk(network: Network, stay: Stay, error: LinkError) -> Finding:
    name, way = stay.login.name, stay.login.target
    if way is None:
        return of_error(name, "login", error)
    found = await unreached(network, stay.parts[0].node, way, error)
    return Finding(name, "login", "error", found.says, found.fix)
