"""The clusters that a fleet file names, given to the preflight."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from hostler.model.rl import RlPlan
from hostler.runtime.preflight.kubing import Kubernetes
from hostler.runtime.preflight.proof import Proof
from hostler.runtime.preflight.proving import prove
from hostler.runtime.preflight.raying import Dashboard
from hostler.settings import Loaded, rl_entrance


async def proved_by_all(loaded: Loaded, plan: RlPlan, environ: Mapping[str, str]) -> list[Proof]:
    """`prove`, with all that can ask: the Ray cluster, where one is named, and Kubernetes, where something is to be
    made there."""
    async with AsyncExitStack() as stack:
        entrance = rl_entrance(loaded)
        cluster = None if entrance is None else Dashboard(loaded, entrance, environ)
        if cluster is not None:
            stack.push_async_callback(cluster.close)
        allows = Kubernetes(loaded) if plan.cluster == "kuberay" and loaded.fleet.kuberay is not None else None
        return await prove(loaded, plan, environ, cluster=cluster, allows=allows)
