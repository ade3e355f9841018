"""The Kubernetes cluster that a fleet file wants its Ray cluster in, as the preflight asks it: that of the current
context of the kubeconfig."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hostler.backends.kuberay.sources import Rendered, render
from hostler.model.errors import LinkRefused, UsageError
from hostler.model.rl import Pods, RlPlan, Share
from hostler.policy.sampling import number, places
from hostler.runtime.preflight.clusters import other_version
from hostler.runtime.preflight.proof import Proof, error, ok, unknown
from hostler.runtime.threads import Threads
from hostler.settings import Loaded
from hostler.settings.kuberay import Kuberay


class Kubernetes:
    """`Allows` through lightkube, which waits: it does so in a thread, and one that hangs is left behind."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    async def proofs(self, plan: RlPlan) -> Sequence[Proof]:
        """What the file itself says, then what the cluster does. Raises `LinkError`, and `UsageError` where what the
        file asks for cannot be rendered."""
        made = render(self._loaded)
        threads = Threads("kubernetes")
        try:
            told = await asyncio.get_running_loop().run_in_executor(threads.of("api"), _asked, made)
        finally:
            threads.close()
        return [*self._compared(plan, made.asked), *told]

    def _compared(self, plan: RlPlan, asked: Kuberay) -> Iterator[Proof]:
        """The two sections of the file with one another."""
        rl = self._loaded.fleet.rl
        wrong = None if rl is None else other_version(asked.ray_version, rl.cluster.version)
        yield ok("version", f"the image is said to have Ray {asked.ray_version}") if wrong is None else wrong
        room = _places(asked, plan)
        if room < plan.runners:
            each = f"{number(plan.runner_cpus)} CPU"
            says = f"the pods of `kuberay` have room for {room} runners of {each}, {plan.runners} are asked for"
            yield error(
                "cluster", "small", says, "ask for more workers in `kuberay`, or for fewer runners in the order"
            )


def _places(asked: Kuberay, plan: RlPlan) -> int:
    """Runners that Ray would find a place for. The learner, which is the job's own program, asks Ray for none."""
    workers = tuple(Pods(name=each.name, count=each.most, takes=Share(cpus=each.cpus)) for each in asked.workers)
    head = Pods(name="head", count=1, takes=Share(cpus=asked.head.cpus))
    return places(replace(plan, pods=workers, head=head, head_works=asked.head.schedules, learner_cpus=0.0))


def _asked(made: Rendered) -> list[Proof]:
    try:
        from hostler.backends.kuberay.cluster import Cluster
        from hostler.backends.kuberay.permits import examined
    except UsageError as fault:
        return [unknown("rbac", str(fault), "install it where `hostler check` runs")]
    try:
        cluster = Cluster.connect()
    except UsageError as fault:
        raise LinkRefused(str(fault)) from fault
    with cluster:
        return [
            Proof(each.check, f"{each.check}-{each.code}", each.health, each.says, each.fix)
            for each in examined(cluster, made)
        ]
