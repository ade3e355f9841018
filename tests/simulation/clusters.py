"""Small worlds with several controllers, each made from its seed, and what must be true of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.work import DeviceKind, JobSpec, JobState
from hostler.sim.cluster import Cluster, Troubles, drawn, lonely
from hostler.sim.cluster.proof import Broken, replayed
from hostler.sim.programs import Script, script_job
from hostler.sim.report import fold
from tests.simulation.worlds import PATIENT, Plan, drawn_plan

MAX_VIRTUAL_S = 3600.0
REST_S = 150.0
LONELY = 12
"""Of so many worlds one has a single trouble, and a long one."""
LONG_S = 150.0
"""Longer than it takes until the work of a node out of reach is given to others."""


def play(seed: int, *, keep_story: bool = False, troubles: Troubles | None = None) -> Cluster:
    """One world to its end; raises where an invariant does not hold."""
    cluster, plan = made(seed, keep_story=keep_story, troubles=troubles)
    finish(cluster, plan)
    return cluster


def made(seed: int, *, keep_story: bool = False, troubles: Troubles | None = None) -> tuple[Cluster, Plan]:
    """A world that has not begun, and what it is asked to do."""
    random = Random(f"cluster {seed}")
    found = drawn(random)
    troubles = troubles or (lonely(found) if seed % LONELY == LONELY - 1 else found)
    nodes = tuple(_node(f"n{number}", random.randint(1, 2), troubles.lease_s) for number in range(random.randint(2, 3)))
    speeds = {device.id: random.choice([300.0, 1000.0, 4000.0]) for node in nodes for device in node.devices}
    cluster = Cluster(seed, nodes, speeds, troubles, keep_story=keep_story)
    plan = with_files(drawn_plan(random), random)
    if troubles.lease_s is not None and troubles.alone_every_s is not None:
        long = script_job("long", Script(seconds=LONG_S), key="long", retry=PATIENT)
        plan = replace(plan, scripts=(long, *plan.scripts))
    cluster.submit(0.5, plan.scripts[:3])
    cluster.submit(random.uniform(0.0, 30.0), plan.sweeps)
    cluster.submit(random.uniform(5.0, 50.0), plan.scripts)
    return cluster, plan


def finish(cluster: Cluster, plan: Plan) -> None:
    """Play a world and look at what came of it."""
    cluster.run(MAX_VIRTUAL_S)
    check(cluster, plan)
    cluster.rest(REST_S)
    check_nothing_is_left(cluster)


def check(cluster: Cluster, plan: Plan) -> None:
    """What was asked for was done, each of it once."""
    folded, state = fold(cluster.proof.events), replayed(cluster.proof.lines).state
    jobs = {job.spec.name: job for job in state.jobs.values()}
    _expect(len(state.jobs) == len(plan.scripts) + len(plan.sweeps), "every job is there once", f"{len(state.jobs)}")
    for spec in (*plan.scripts, *plan.sweeps):
        job, doomed = jobs[spec.name], spec.name in plan.doomed
        should = JobState.FAILED if doomed else JobState.DONE
        _expect(job.state is should, "every job comes to what it should", f"{spec.name} is {job.state}: {job.why}")
        count = folded.accepted[job.id]
        _expect(count == (not doomed), "one result of a job is accepted", f"{count} of {spec.name}")
    coverage = folded.coverage()
    for name, hits in plan.planted.items():
        sweep = jobs[name].id
        _expect(coverage[sweep] is None, "the ledger is complete and disjoint", f"{name}: {coverage[sweep]}")
        found = tuple(sorted(folded.hits[sweep]))
        _expect(found == hits, "every hit is found once", f"{name}: {found}, not {hits}")


def check_nothing_is_left(cluster: Cluster) -> None:
    """All is quiet: no node holds anything, and all controllers say the same."""
    states = [each.core.state for each in cluster.contenders.values() if each.core is not None]
    _expect(len(states) == len(cluster.contenders), "everything ends once faults stop", "a controller is not there")
    cluster.proof.ended(states)
    for agent in cluster.agents.values():
        inventory = agent.hello()
        # What was sent a minute before a link broke has arrived; a clock that is set in that minute says it was one.
        workers = () if cluster.troubles.leaps else agent.workers()
        left = (*inventory.attempts, *inventory.chunks, *agent.facts, *workers)
        _expect(not left, "nothing is left on nodes", f"{agent.identity}: {left}")


def with_files(plan: Plan, random: Random) -> Plan:
    """Some scripts leave files, which have to come."""
    scripts = tuple(_with_files(spec) if random.random() < 0.6 else spec for spec in plan.scripts)
    return replace(plan, scripts=scripts)


def _with_files(spec: JobSpec) -> JobSpec:
    return replace(spec, payload=replace(spec.payload, outputs=("model.bin", "log.txt")))  # type: ignore[type-var]


def _node(name: str, devices: int, lease_s: float | None) -> NodeSpec:
    specs = (DeviceSpec(id=f"{name}/cpu{n}", node=name, kind=DeviceKind.CPU, index=n) for n in range(devices))
    return NodeSpec(name=name, backend="virtual", devices=tuple(specs), lease_s=lease_s, apart=True)


def _expect(holds: bool, what: str, how: str) -> None:
    if not holds:
        raise Broken(what, how)
