"""Workers on the nodes of a Ray cluster: actors that sample whole fragments, spread over nodes, without GPUs.

A call costs Ray a millisecond of CPU, so there is one for a fragment and none for a step. Each actor has two under way:
while one travels, the next is made. Who is dead is begun anew where there is room; who is slow keeps nobody waiting.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
import torch
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from hostler.workloads.gameboy import reaching
from hostler.workloads.gameboy.advice.settings import Asking
from hostler.workloads.gameboy.batch import WrongValue
from hostler.workloads.gameboy.fragments import Fragment, Sampler
from hostler.workloads.gameboy.policy import Network, player, weights_of
from hostler.workloads.gameboy.run import Spread
from hostler.workloads.gameboy.spent import clock
from hostler.workloads.gameboy.stillness import Watch
from hostler.workloads.gameboy.strict import SpecError
from hostler.workloads.gameboy.workers import LIVES, NoWorker, Plan, numbered, stuck

UNDER_WAY = 2
"""Fragments that an actor has been asked for."""
HERE = "here"
TRIES, BETWEEN_S = 5, 1.0
PROBE_S = 60.0
"""For a node to write or read a small file."""


class NoRoom(SpecError):
    """The cluster cannot have that many workers, or not now; the message has the sum."""


class Apart(SpecError):
    """The folder for checkpoints is not the same one on all nodes; the message has them."""


def actors(plan: Plan, network: Network, spread: Spread) -> Actors:
    """Workers on a cluster, connected to if this process is not yet. Raises `SpecError` where none answers."""
    if not plan.workers:
        raise SpecError("training.workers has to be 1 at least where they are on a Ray cluster")
    if not ray.is_initialized():
        try:
            ray.init(address=spread.address, log_to_driver=False)
        except ConnectionError as error:
            raise SpecError(f"training.ray.address: no Ray cluster answers at {spread.address}: {error}") from error
    return Actors(plan, network, spread)


def misfit(workers: int, spread: Spread, nodes: Sequence[Mapping[str, float]]) -> str | None:
    """Why so many workers can never be had on nodes with these resources (`CPU`); `None`: they can."""
    places = [int(node.get("CPU", 0.0) / spread.cpus) for node in nodes]
    own = [min(each, 1) for each in places] if spread.strategy == "STRICT_SPREAD" else places
    if sum(own) >= workers:
        return None
    each = f"{spread.cpus:g} CPU each" + (", no two on one node" if spread.strategy == "STRICT_SPREAD" else "")
    has = ", ".join(f"{node.get('CPU', 0.0):g}" for node in nodes) or "none"
    return (
        f"{workers} workers with {each} do not fit: the {len(nodes)} nodes that are there have {has} CPU, which is "
        f"room for {sum(own)}; ask for {sum(own)} (`workers`, RAY_WORKERS), or add nodes"
    )


def prove(folder: Path, nodes: Sequence[str]) -> None:
    """A folder is one and the same here and on all these nodes, by their ids: each writes, and reads what all have
    written. Nothing is left in it. Raises `Apart`."""
    token, names = secrets.token_hex(8), [HERE, *nodes]
    probes = {node: _probe_on(node) for node in nodes}

    def everywhere(what: str) -> dict[str, str]:
        """What is wrong where, in words."""
        asked = {node: probe.remote(what, str(folder), token, node, names) for node, probe in probes.items()}
        own = _probed(what, str(folder), token, HERE, names)
        return {HERE: own} | {node: _answered(each) for node, each in asked.items()}

    try:
        _refuse_apart(folder, everywhere("write"), "mount it there, under the same path, for the user that Ray runs as")
        blind: dict[str, str] = {}
        for attempt in range(TRIES):
            time.sleep(BETWEEN_S if attempt else 0.0)  # network file systems take a moment to see what others wrote
            blind = everywhere("read")
            if not any(blind.values()):
                break
        _refuse_apart(folder, blind, "it is another folder there: share one (NFS, a volume that many may write)")
    finally:
        everywhere("clean")


def _refuse_apart(folder: Path, wrong: Mapping[str, str], fix: str) -> None:
    hosts = {HERE: HERE} | {
        node["NodeID"]: f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})" for node in ray.nodes()
    }
    faults = [f"{hosts.get(node, node)}: {each}" for node, each in wrong.items() if each]
    if faults:
        raise Apart(
            f"{folder} is to keep checkpoints, and not all nodes with workers reach it: {'; '.join(faults)}; {fix}"
        )


def _probe_on(node: str) -> Any:
    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(_probed).options(num_cpus=0, max_retries=0, scheduling_strategy=where)


def _probed(what: str, folder: str, token: str, node: str, names: Sequence[str]) -> str:
    """What is wrong, in words; empty where nothing is."""
    path = Path(folder)
    try:
        if what == "write":
            reaching.write(path, token, node)
        elif what == "read":
            missing = [each for each in names if not reaching.reads(path, token, each)]
            return f"does not see what {' '.join(each[:8] for each in missing)} wrote" if missing else ""
        else:
            reaching.clean(path, token, names)
    except OSError as error:
        return str(error.strerror)
    return ""


def _answered(asked: Any) -> str:
    try:
        told: str = ray.get(asked, timeout=PROBE_S)
    except GetTimeoutError:
        return f"does not answer within {PROBE_S:.0f} s; what is mounted there may hang"
    except RayError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return told


class Actors:
    """Sampling by Ray actors; a `Source`. `ray.init` was called."""

    def __init__(self, plan: Plan, network: Network, spread: Spread | None = None) -> None:
        self._plan = plan
        self._spread = spread or Spread()
        self._refuse()
        self._group = self._room()
        try:
            self._prove()
        except BaseException:
            remove_placement_group(self._group)
            raise
        self._troubles: list[str] = []
        self._deaths = [0] * plan.workers
        self._pending: dict[Any, int] = {}
        """By what is under way: whose it is."""
        self._policy: Any = None
        self.offer(network, plan.version)
        self._asked = ray.put(plan)
        self._token = ray.put(_token(plan.advice))
        self._has_made = False
        """Whether any worker has made anything: what none of them can do is a fault of the order, not of a node."""
        self._actors = [self._begun(number) for number in range(plan.workers)]

    def offer(self, network: Network, version: int) -> None:
        """As `Source.offer`: fragments that are asked for from now on are made with it."""
        self._policy = ray.put((weights_of(network), version))

    def take(self, timeout_s: float) -> Sequence[Fragment]:
        """As `Source.take`. Raises `NoWorker` where every worker has died again and again."""
        if not self._pending:
            raise NoWorker(f"no worker is left: {'; '.join(self._troubles[-3:])}")
        ready, _ = ray.wait(list(self._pending), num_returns=1, timeout=timeout_s)
        if ready:  # and all the others that are there as well
            ready, _ = ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)
        found = [self._received(each) for each in ready]
        return [each for each in found if each is not None]

    def troubles(self) -> Sequence[str]:
        """As `Source.troubles`: workers that died, with their nodes."""
        told, self._troubles = self._troubles, []
        return told

    def close(self) -> None:
        """End the actors, and give their room back."""
        for each in self._actors:
            if each is not None:
                ray.kill(each)
        self._pending.clear()
        remove_placement_group(self._group)

    def places(self) -> Sequence[tuple[str, int]]:
        """The id of the node that each worker is on, and its process there; waits for those that are being begun."""
        found: list[tuple[str, int]] = ray.get([each.place.remote() for each in self._actors if each is not None])
        return found

    def _refuse(self) -> None:
        """Raises `NoRoom` at once for what would wait for ever: Ray says nothing of it."""
        living = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        fault = misfit(self._plan.workers, self._spread, living)
        if fault is not None:
            raise NoRoom(fault)

    def _room(self) -> PlacementGroup:
        bundles = [{"CPU": self._spread.cpus} for _ in range(self._plan.workers)]
        group = placement_group(bundles, strategy=self._spread.strategy)
        if not group.wait(self._spread.room_s):
            remove_placement_group(group)
            free = ray.available_resources().get("CPU", 0.0)
            raise NoRoom(
                f"{self._plan.workers} workers with {self._spread.cpus:g} CPU each found no room within "
                f"{self._spread.room_s:g} s: {free:g} CPU are free, others have the rest; wait for them or ask for less"
            )
        return group

    def _prove(self) -> None:
        """Raises `Apart` where what is kept would not be there for whoever goes on elsewhere."""
        if self._plan.kept is not None:
            prove(self._plan.kept, sorted(set(placement_group_table(self._group)["bundles_to_node_id"].values())))

    def _begun(self, number: int) -> Any:
        where = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=number)
        seed = self._plan.seed * 1_000_003 + number * 1_009 + self._deaths[number]
        options = {"num_cpus": self._spread.cpus, "num_gpus": 0, "scheduling_strategy": where, "max_restarts": 0}
        actor = ray.remote(Worker).options(**options).remote(self._asked, seed, self._token)
        for _ in range(UNDER_WAY):
            self._ask(actor, number)
        return actor

    def _ask(self, actor: Any, number: int) -> None:
        self._pending[actor.fragment.remote(self._policy)] = number

    def _received(self, ready: Any) -> Fragment | None:
        number = self._pending.pop(ready, None)
        if number is None:
            return None  # of an actor that has died meanwhile
        begun = clock()
        try:
            fragment: Fragment = ray.get(ready)
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, WrongValue) or (isinstance(cause, SpecError) and not self._has_made):
                raise cause from error
            self._bury(number, str(error.cause or error))
            return None
        except (RayActorError, RayError) as error:
            self._bury(number, f"{type(error).__name__}: {str(error).splitlines()[0]}")
            return None
        fragment.spent.transport += clock() - begun
        fragment.pictures = numbered(fragment.pictures, number, self._plan.machines)
        self._deaths[number], self._has_made = 0, True
        self._ask(self._actors[number], number)
        return fragment

    def _bury(self, number: int, why: str) -> None:
        """Begin it anew, unless it never lives for long."""
        self._troubles.append(f"worker {number} ended: {why}")
        self._pending = {each: other for each, other in self._pending.items() if other != number}
        ray.kill(self._actors[number])
        self._deaths[number] += 1
        if self._deaths[number] < LIVES:
            self._actors[number] = self._begun(number)
            return
        self._actors[number] = None
        self._troubles.append(f"worker {number} is given up: it died {LIVES} times before it made anything")


def _token(asked: Asking | None) -> str | None:
    """What the learner's own environment has: nodes need not know it. It goes as a value, which Ray shows nobody."""
    return None if asked is None or asked.key is None else os.environ.get(asked.key) or None


class Worker:
    """One actor: some machines, and a policy for them."""

    def __init__(self, plan: Plan, seed: int, token: str | None) -> None:
        torch.set_num_threads(1)
        if token is not None and plan.advice is not None and plan.advice.key is not None:
            os.environ[plan.advice.key] = token  # this process is the worker's own
        self._plan = plan
        self._seed = seed
        self._sampler: Sampler | None = None
        self._network = plan.network()

    def fragment(self, policy: tuple[Mapping[str, Any], int]) -> Fragment:
        """The next one, by that policy."""
        begun, (weights, version) = clock(), policy
        self._network.load_state_dict({name: torch.tensor(each) for name, each in weights.items()})
        played = player(self._network)
        if self._sampler is None:  # of what fails here Ray tells the cause; of what fails where actors are made, words
            self._sampler = self._begun()
        taken = clock() - begun
        made = self._sampler.fragment(played, version, self._plan.steps)
        made.spent.transport = taken
        return made

    def place(self) -> tuple[str, int]:
        """The id of the node that it is on, and its process there."""
        return str(ray.get_runtime_context().get_node_id()), os.getpid()

    def _begun(self) -> Sampler:
        batch = self._plan.batch(self._seed)
        Watch(batch.machines, lambda stand: stuck(stand.told(self._plan.cartridge)))
        return Sampler(batch, self._seed)
