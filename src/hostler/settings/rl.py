"""A distributed training as it is planned: machines, pods, what samples, who advises, what is promised of it.

Nothing here does anything but refuse what has no meaning; what contradicts itself, `policy.feasibility` says.
"""

from __future__ import annotations

from typing import Annotated, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hostler.model.rl import ClusterKind
from hostler.model.work import GIGABYTES_MAX, Seconds
from hostler.settings.ray import Ray, Url, Variable, ray_fault
from hostler.settings.section import Count, Integer, Name, NodeName, Section

Cpus: TypeAlias = Annotated[float, Field(ge=0, le=4096)]
SomeCpus: TypeAlias = Annotated[float, Field(gt=0, le=4096)]
Gigabytes: TypeAlias = Annotated[float, Field(ge=0, le=GIGABYTES_MAX)]
Cards: TypeAlias = Annotated[int, Field(ge=0, le=1024)]
Positive: TypeAlias = Annotated[float, Field(gt=0, le=1e12)]
Part: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]


def _both_ends(value: object) -> object:
    """One number stands for both."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value, value
    return tuple(value) if isinstance(value, list) else value


def _in_order(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] > ends[1]:
        raise ValueError(f"{ends[0]:g} is more than {ends[1]:g}; the lowest comes first")
    return ends


Ends: TypeAlias = Annotated[
    tuple[Positive, Positive],
    BeforeValidator(_both_ends, json_schema_input_type=float | tuple[float, float]),
    AfterValidator(_in_order),
]
"""A number that was measured, or the lowest and the highest of several."""


class RlShare(Section):
    """A part of one machine."""

    cpus: Cpus = 0.0
    """Cores."""
    memory_gb: Gigabytes = 0.0
    """Memory, in GiB."""
    gpus: Cards = 0
    """GPUs."""


class RlHosts(RlShare):
    """Machines that are alike."""

    name: NodeName
    """What people call them."""
    count: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many."""
    reserved: RlShare = RlShare()
    """What of each the system takes, and work that has nothing to do with this."""
    serving: RlShare = RlShare()
    """What of each serves the language model that advises."""


class RlPods(RlShare):
    """Pods that are alike; each is a node of Ray."""

    name: NodeName = "workers"
    """What people call them."""
    count: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many."""
    on: tuple[NodeName, ...] = ()
    """Names of `rl.hosts` that they may be on; by default any."""


class RlHead(RlShare):
    """The pod of the head of Ray."""

    works: bool = True
    """Whether runners and the learner may be there, too."""
    on: tuple[NodeName, ...] = ()
    """Names of `rl.hosts` that it may be on; by default any."""


class RlCluster(Section):
    """Where it runs."""

    kind: ClusterKind = "here"
    """`here`: on this machine, without Ray; `ray`: on a Ray cluster that is there; `kuberay`: on one that KubeRay makes
    for it."""
    address: Url | None = None
    """Of `ray`: where its dashboard answers, as `http://head:8265`; by default where that of the nodes with `backend:
    ray` does, and with these no other one."""
    token_file: Text | None = None
    """Of `ray`: file whose first line is the cluster's token, starting from the folder of this file. A cluster that
    nodes are on, too, has its token, its variable and its certificates there."""
    token_env: Variable | None = None
    """Environment variable that holds the token instead."""
    ca: Text | None = None
    """With `https`: file with the certificates (PEM) that the dashboard's is believed by; by default the system's."""
    python: Text | None = None
    """Of `ray`: what runs Hostler's workloads on its machines; by default the `python` of the nodes, or `python3`."""
    version: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+){1,2}$")] | None = None
    """Version of Ray that is expected there, as `2.60` or `2.60.1`; by default any."""
    manifest: Text | None = None
    """File of Kubernetes that is to be applied, starting from the folder of this file: it is read, and has to be
    YAML."""

    @property
    def entrance(self) -> Ray:
        """How one gets into it."""
        return Ray(address=self.address, token_file=self.token_file, token_env=self.token_env, ca=self.ca)

    @model_validator(mode="after")
    def _can_be_entered(self) -> Self:
        ours = ("address", "token_file", "token_env", "ca", "python")
        said = [name for name in ours if getattr(self, name) is not None]
        if said and self.kind != "ray":
            raise ValueError(f"{said[0]} is of a Ray cluster that is there; say `kind: ray`, or leave it out")
        fault = None if self.address is None else ray_fault(self.entrance)
        if fault is not None:
            raise ValueError(fault.replace("ray.", ""))
        return self


class RlAdvice(Section):
    """A language model that is asked on the way."""

    endpoint: Annotated[str, Field(pattern=r"^https?://[^/\s@]+(/[^\s?#]*)?$")] | None = None
    """Where a server speaks OpenAI's protocol, up to what comes before `/chat/completions`: `http://llm:8000/v1`."""
    model: Name | None = None
    """What the model is called there; by default the only one that is."""
    key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """Environment variable that holds the key for it."""
    key_file: Text | None = None
    """File whose first line is the key for it."""
    timeout_s: Seconds = 15.0
    """How long an answer may take, in seconds."""
    calls_per_step: Annotated[float, Field(ge=0, le=1000)] | None = None
    """Calls for each step of each environment; by default only the budget counts."""
    calls_per_s: Positive | None = None
    """Budget of the whole training, in calls a second; by default none."""
    blocking: bool = False
    """Whether a step waits for the answer."""
    latency_s: Seconds | None = None
    """How long an answer takes, in seconds; by default unknown."""
    concurrent: Positive | None = None
    """Calls that it answers at the same time; with `latency_s` that gives its capacity."""
    capacity: Positive | None = None
    """Answers a second, as they were measured; by default what `concurrent` and `latency_s` give, or else unknown."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.key_env is not None and self.key_file is not None:
            raise ValueError("give its key as one of key_env and key_file")
        if self.concurrent is not None and self.capacity is not None:
            raise ValueError("concurrent and capacity both say how much it can answer; keep one of them")
        if self.concurrent is not None and self.latency_s is None:
            raise ValueError("concurrent gives its capacity with latency_s; give that, too")
        return self


class RlRates(Section):
    """What was measured of your game and your machines, each as a number or as `[lowest, highest]`; by default what was
    measured of the game that comes along."""

    source: Text | None = None
    """Where it was measured; shown with what follows from it."""
    frames_per_cpu_s: Ends | None = None
    """Frames that are emulated in a second of a CPU, none of them drawn."""
    draw_us: Ends | None = None
    """Microseconds of a CPU for a frame that is drawn."""
    encode_us: Ends | None = None
    """Microseconds of a CPU to see and pay a step."""
    env_steps_per_cpu_s: Ends | None = None
    """Whole steps of an environment in a second of a CPU, instead of the three above."""
    policy_us: Ends | None = None
    """Microseconds of a CPU to decide a step."""
    transport_us: Ends | None = None
    """Microseconds of a CPU to bring a step to the learner of the same machine."""
    learn_us: Ends | None = None
    """Microseconds of a CPU to learn from a step, all epochs together."""
    runner_gb: Ends | None = None
    """Memory of a runner, in GiB."""
    env_gb: Ends | None = None
    """Memory of each of its environments, in GiB."""


class RlClaims(Section):
    """What somebody has said of the plan, to be compared with what follows from it; all of it is optional."""

    environments: Count | None = None
    """Environments in all."""
    worker_cpus: Positive | None = None
    """Cores of all worker pods together."""
    worker_memory_gb: Positive | None = None
    """Their memory."""
    inventory_cpus: Positive | None = None
    """Cores of all hosts together."""
    inventory_memory_gb: Positive | None = None
    """Their memory."""
    cpu_share: Part | None = None
    """Share of the hosts' cores that is asked for."""
    memory_share: Part | None = None
    """Share of their memory."""
    utilization: tuple[Part, Part] | None = None
    """How busy the hosts' cores are to be, as `[0.7, 0.8]`."""
    steps_per_s: Positive | None = None
    """Steps a second of all environments together."""
    actions_per_s: Positive | None = None
    """Decisions in a second of the game's own time."""

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if self.utilization is not None and self.utilization[0] > self.utilization[1]:
            raise ValueError("utilization is [lowest, highest]")
        return self


class Rl(Section):
    """A training on many machines: `hostler plan` tells whether it can work, `hostler check` whether all it needs is
    there."""

    order: Text | None = None
    """The order of the training (docs/reference/gameboy.md), starting from the folder of this file: what runs. What it
    says needs not be said below."""
    cluster: RlCluster = RlCluster()
    """Where it runs."""
    hosts: tuple[RlHosts, ...] = ()
    """The machines; by default this one."""
    pods: Annotated[tuple[RlPods, ...], Field(max_length=7)] = ()
    """Pods of workers; by default each host is a node of Ray as it is."""
    head: RlHead | None = None
    """The head of Ray, where it is a pod of its own."""
    apart: bool = False
    """Whether no two pods of workers may share a host (anti-affinity)."""
    runners: Annotated[Integer, Field(ge=0, le=100_000)] | None = None
    """Processes that sample, not pods (`RAY_WORKERS`); by default as in the order."""
    envs_per_runner: Annotated[Count, Field(le=4096)] | None = None
    """Environments of each of them (`ENVS_PER_WORKER`); by default as in the order."""
    episode_steps: Count | None = None
    """Steps after which an episode is cut off (`EPISODE_LENGTH`); by default as in the order, or in the game's file."""
    env_episode_steps: Count | None = None
    """Steps after which the environment ends it whatever is asked for; by default nothing does."""
    batch_steps: Count | None = None
    """Steps of an update (`BATCH_SIZE`); by default as in the order."""
    fragment_steps: Count | None = None
    """Steps of each environment that are sent together; by default as in the order, or 128."""
    stale_updates: Annotated[Integer, Field(ge=0, le=2**63 - 1)] | None = None
    """A fragment that is older than so many updates is not learnt from; by default as in the order."""
    steps: Count | None = None
    """Steps of the whole training; by default as in the order."""
    frame_skip: Annotated[int, Field(ge=1, le=600)] | None = None
    """Frames that are emulated for one step; by default as in the game's file."""
    drawn_frames: Annotated[int, Field(ge=0, le=600)] | None = None
    """Frames of a step that are drawn; by default one where the policy sees the screen."""
    sound: bool | None = None
    """Whether sound is emulated; by default as in the game's file."""
    runner_cpus: SomeCpus | None = None
    """Cores that each runner asks Ray for; by default as in the order, or one."""
    learner_cpus: SomeCpus | None = None
    """Cores that the learner keeps busy; by default the `threads` of the order, or one."""
    learns_beside: bool = True
    """Whether sampling goes on while it is learnt; with `false` one waits for the other."""
    stores: tuple[NodeName, ...] = ()
    """Names of `stores` that every node has to reach; by default all of them."""
    checkpoints: Text | None = None
    """Folder for checkpoints that all nodes share, under the same path everywhere."""
    advice: RlAdvice | None = None
    """A language model that is asked on the way; by default none."""
    rates: RlRates = RlRates()
    """What was measured."""
    claims: RlClaims = RlClaims()
    """What is promised."""

    @model_validator(mode="after")
    def _names_what_is_there(self) -> Self:
        known = [each.name for each in self.hosts]
        if len(set(known)) < len(known):
            raise ValueError("two of `hosts` have one name; give each its own")
        names = [each.name for each in self.pods]
        if len({*names, "head"}) < len(names) + 1:
            raise ValueError("two of `pods` have one name, or one is called `head`; give each its own")
        wanted = {name for pods in self.pods for name in pods.on} | set(self.head.on if self.head else ())
        strange = sorted(wanted - set(known))
        if strange:
            raise ValueError(
                f"there are no hosts {strange[0]!r} for pods to be on; there are: {', '.join(known) or '-'}"
            )
        return self

    @model_validator(mode="after")
    def _says_what_is_run(self) -> Self:
        needed = ("runners", "envs_per_runner", "batch_steps", "frame_skip")
        missing = [name for name in needed if getattr(self, name) is None]
        if self.order is None and missing:
            raise ValueError(f"`{missing[0]}` is missing; give it, or the `order` that says it")
        if self.cluster.kind != "here" and not self.hosts:
            raise ValueError(f"`hosts` are missing: what machines a cluster of kind {self.cluster.kind} has")
        if self.cluster.kind == "here" and (self.pods or self.head):
            raise ValueError("pods and a head are of Ray; say `cluster: {kind: ray}` or `kuberay`")
        return self
