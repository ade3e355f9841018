"""Everything at the same time, each within its time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial

from hostler.model.errors import HostlerError, UsageError
from hostler.model.record import record
from hostler.model.rl import Advice, RlPlan
from hostler.runtime.holding import stores_from_here
from hostler.runtime.places import Places
from hostler.runtime.preflight import advice
from hostler.runtime.preflight.clusters import prove_allowed, prove_cluster
from hostler.runtime.preflight.folders import prove_folder, prove_folder_here, prove_store
from hostler.runtime.preflight.game import prove_game
from hostler.runtime.preflight.proof import STATUSES, Check, Proof, error, unknown
from hostler.runtime.preflight.seam import Allows, RayCluster
from hostler.runtime.threads import Threads
from hostler.settings import Loaded, advice_key, checkpoints_path, order_path

LONGEST_S = 240.0
"""For one check, whatever it waits for: a folder of a Ray cluster takes several programs on each node."""


@record
class _Way:
    """A check, and how it is made."""

    check: Check
    what: str
    make: Callable[[], Awaitable[Sequence[Proof]]]


async def prove(
    loaded: Loaded,
    plan: RlPlan,
    environ: Mapping[str, str],
    *,
    cluster: RayCluster | None = None,
    allows: Allows | None = None,
    longest_s: float = LONGEST_S,
) -> list[Proof]:
    """Whether all is there that the training of a file with an `rl` section needs, in the order of `STATUSES`.

    `cluster` and `allows` speak to its Ray cluster and to Kubernetes; `None`: nothing here can.
    """
    threads = Threads("preflight")
    try:
        ways = list(_ways(loaded, plan, environ, cluster, allows, threads))
        found = await asyncio.gather(*(_within(each, longest_s) for each in ways))
    finally:
        threads.close()
    order = list(STATUSES)
    return sorted((proof for told in found for proof in told), key=lambda each: order.index(each.check))


def _ways(
    loaded: Loaded,
    plan: RlPlan,
    environ: Mapping[str, str],
    cluster: RayCluster | None,
    allows: Allows | None,
    threads: Threads,
) -> Iterator[_Way]:
    asked = loaded.fleet.rl
    assert asked is not None
    game = partial(prove_game, order_path(loaded), environ)
    yield _Way(check="cluster", what="the cluster", make=lambda: prove_cluster(plan, cluster, asked.cluster.version))
    yield _Way(check="game", what="the game", make=lambda: _aside(threads, "game", game))
    yield _Way(
        check="store", what="the folder of the checkpoints", make=lambda: _folder(loaded, plan, cluster, threads)
    )
    yield from _store_ways(loaded, asked.stores, threads)
    planned = plan.advice
    if planned is not None and planned.endpoint is not None:
        yield _Way(check="advice", what="the language model", make=lambda: _advice(loaded, planned, environ))
    elif planned is not None:
        yield _Way(check="advice", what="the language model", make=_nobody)
    yield _Way(check="rbac", what="Kubernetes", make=lambda: prove_allowed(plan, allows))


def _store_ways(loaded: Loaded, names: Sequence[str], threads: Threads) -> Iterator[_Way]:
    places, faults = stores_from_here(loaded)
    for name in names or [each.name for each in loaded.fleet.stores]:
        yield _Way(check="store", what=f"the store {name}", make=partial(_store, name, places, faults, threads))


async def _store(name: str, places: Places, faults: Mapping[str, str], threads: Threads) -> Sequence[Proof]:
    if name in faults:
        return [unknown("store", f"{name}: {faults[name]}", "see `hostler status` of a controller that runs")]
    if name not in places:
        there = ", ".join(places) or "none"
        return [error("store", "unnamed", f"there is no store {name!r}; there are: {there}", "name one of them")]
    return await _aside(threads, name, partial(prove_store, name, places[name].store))


async def _folder(loaded: Loaded, plan: RlPlan, cluster: RayCluster | None, threads: Threads) -> Sequence[Proof]:
    folder = checkpoints_path(loaded)
    if folder is None:
        fix = "name a folder in `rl.checkpoints` that all nodes share"
        return [unknown("store", "no folder for checkpoints is named: what is learnt is lost with its node", fix)]
    if plan.cluster == "here":
        return await _aside(threads, "checkpoints", partial(prove_folder_here, folder))
    return [await prove_folder(folder, cluster)]


async def _aside(threads: Threads, what: str, look: Callable[[], Proof]) -> Sequence[Proof]:
    """In a thread of its own: one that hangs is left behind."""
    return [await asyncio.get_running_loop().run_in_executor(threads.of(what), look)]


async def _advice(loaded: Loaded, asked: Advice, environ: Mapping[str, str]) -> Sequence[Proof]:
    assert asked.endpoint is not None
    if asked.key_env is not None and not environ.get(asked.key_env, "").strip():
        says = f"its key is in the variable {asked.key_env} where the training runs, and not here"
        return [unknown("advice", says, "set it here to have the model asked, or name the key in `rl.advice`")]
    try:
        key = advice_key(loaded, environ) if asked.key_env is None else environ[asked.key_env].strip()
    except UsageError as fault:
        return [error("advice", "key", str(fault), "put it there")]
    return [
        await advice.probe(
            advice.Asked(
                endpoint=asked.endpoint,
                model=asked.model,
                key=key,
                timeout_s=asked.timeout_s,
                planned_s=asked.latency_s,
            )
        )
    ]


async def _nobody() -> Sequence[Proof]:
    return [unknown("advice", "advice is planned, and nobody is named who gives it", "name it in `rl.advice.endpoint`")]


async def _within(way: _Way, longest_s: float) -> Sequence[Proof]:
    """A check that ends; what hangs in a thread is left to itself."""
    try:
        async with asyncio.timeout(longest_s):
            return await way.make()
    except TimeoutError:
        says = f"{way.what} did not answer within {longest_s:g} s"
        return [error(way.check, "hangs", says, "see what it hangs at: a mount whose server is gone, a full network")]
    except HostlerError as fault:
        return [error(way.check, "failed", f"{way.what}: {fault}", "mend that first")]
