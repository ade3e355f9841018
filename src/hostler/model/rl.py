"""Distributed reinforcement learning as it is planned: machines, pods, what samples, what it costs, what is promised.

Memory is in GiB, times are in seconds or, where they end in `_us`, in microseconds of a CPU.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from hostler.model.record import record

ClusterKind: TypeAlias = Literal["here", "ray", "kuberay"]
"""This machine alone, without Ray; a Ray cluster that is there; one that is made for the job by KubeRay."""
BENCH = "key rooms on 2 shared cores, PyBoy 2.8.1"


@record
class Measured:
    """A number that was measured, between `low` and `high`, and where."""

    low: float
    high: float
    source: str


def measured(low: float, high: float | None = None, source: str = BENCH) -> Measured:
    """The same in fewer words; one number stands for both ends."""
    return Measured(low=low, high=low if high is None else high, source=source)


@record
class Share:
    """A part of a machine."""

    cpus: float = 0.0
    memory_gb: float = 0.0
    gpus: int = 0


NONE = Share()


@record
class Hosts:
    """Machines that are alike; what is said of them is said of each."""

    name: str
    count: int
    has: Share
    reserved: Share = NONE
    """Taken by the system, and by work that has nothing to do with this."""
    serving: Share = NONE
    """Taken by the language model that advises."""

    @property
    def free(self) -> Share:
        """What is left of each of them."""
        return Share(
            cpus=max(self.has.cpus - self.reserved.cpus - self.serving.cpus, 0.0),
            memory_gb=max(self.has.memory_gb - self.reserved.memory_gb - self.serving.memory_gb, 0.0),
            gpus=max(self.has.gpus - self.reserved.gpus - self.serving.gpus, 0),
        )


@record
class Pods:
    """Pods that are alike; one is a node of Ray."""

    name: str
    count: int
    takes: Share
    on: tuple[str, ...] = ()
    """Names of hosts that they may be on; none: on any."""


@record
class Advice:
    """A language model that is asked on the way."""

    calls_per_step: float | None = None
    """Of each environment; `None`: only the budget counts."""
    calls_per_s: float | None = None
    """Budget of the whole training; `None`: there is none."""
    blocking: bool = False
    """Whether the step waits for the answer."""
    latency_s: float | None = None
    """Of one answer; `None`: unknown."""
    capacity: float | None = None
    """Answers a second, of all who ask together; `None`: unknown."""
    endpoint: str | None = None
    """Where a server speaks OpenAI's protocol, without `/chat/completions`; `None`: nobody says."""
    model: str | None = None
    key_env: str | None = None
    """Variable that holds the key where the training runs, by its order; `None`: it says nothing of one."""
    timeout_s: float = 15.0


@record
class Rates:
    """What things cost, and where that was measured."""

    frames_per_cpu_s: Measured = measured(19_800, 22_100, f"no picture, no sound; {BENCH}")
    frames_with_sound: Measured = measured(11_200, 11_600, f"with sound; {BENCH}")
    draw_us: Measured = measured(48, 55, f"a frame that is drawn; {BENCH}")
    encode_us: Measured = measured(25, 35, f"values read, shown and paid for; {BENCH}")
    env_step_us: Measured | None = None
    """A whole step of an environment, where that was measured: instead of the four above."""
    policy_us: Measured = measured(10, 45, f"two layers of 128 in NumPy; {BENCH}")
    transport_us: Measured = measured(4, source=f"memory that a machine's processes share; {BENCH}")
    learn_us: Measured = measured(23, 25, f"PPO of 4 epochs over values, one thread; {BENCH}")
    runner_gb: Measured = measured(0.25, source="resident size of a worker with PyTorch 2.13")
    env_gb: Measured = measured(0.001, source="what one more PyBoy 2.8.1 adds, without its ROM")
    ray_gb: Measured = measured(0.5, source="head of a Ray 2.60; a node has less")


SCREEN = Rates(
    encode_us=measured(50, 65, f"values and screen; {BENCH}"),
    policy_us=measured(135, 180, f"three convolutions in PyTorch; {BENCH}"),
    learn_us=measured(600, 615, f"PPO of 4 epochs over screens, one thread; {BENCH}"),
)
"""Where the policy sees the screen."""


@record
class Claims:
    """What somebody says of the plan; each is compared with what follows from its other numbers."""

    environments: int | None = None
    worker_cpus: float | None = None
    """Of all pods of workers together."""
    worker_memory_gb: float | None = None
    inventory_cpus: float | None = None
    inventory_memory_gb: float | None = None
    cpu_share: float | None = None
    """Of the inventory that the plan asks for."""
    memory_share: float | None = None
    utilization: tuple[float, float] | None = None
    """How busy the CPUs of the inventory are to be."""
    steps_per_s: float | None = None
    actions_per_s: float | None = None
    """Decisions in a second of the game's own time."""


@record
class OrderedAdvice:
    """What an order says of the language model that is asked."""

    endpoint: str
    model: str
    key_env: str | None
    timeout_s: float
    calls_per_s: float


@record
class Ordered:
    """What the order of a training says: the file that is run."""

    path: str
    runners: int
    envs_per_runner: int
    episode_steps: int
    batch_steps: int
    fragment_steps: int
    stale_updates: int
    steps: int
    frame_skip: int
    sound: bool
    screen: bool
    """Whether the policy sees it: one frame of each step is drawn then."""
    runner_cpus: float = 1.0
    learner_cpus: float = 1.0
    one_per_node: bool = False
    on_ray: bool = False
    """Whether its workers are actors of Ray; else they are processes of one machine."""
    ray_address: str | None = None
    """The cluster they join, as `ray.init` takes it; `None`: the one that the training itself is on."""
    advice: OrderedAdvice | None = None


@record
class RlPlan:
    """A training on many machines, before it is begun."""

    cluster: ClusterKind
    hosts: tuple[Hosts, ...]
    runners: int
    """Processes that sample (`RAY_WORKERS`); 0: the learner does it itself."""
    envs_per_runner: int
    frame_skip: int
    """Frames that are emulated for one step."""
    batch_steps: int
    episode_steps: int | None = None
    env_episode_steps: int | None = None
    """Where the environment ends an episode by itself, whatever it is asked for; `None`: it does not."""
    steps: int | None = None
    """Of the whole training."""
    fragment_steps: int = 128
    stale_updates: int | None = None
    """A fragment that is older than that is not learnt from; `None`: all are."""
    drawn_frames: int = 0
    """Frames of a step that are drawn."""
    sound: bool = False
    pods: tuple[Pods, ...] = ()
    """None: each host is a node of Ray as it is."""
    head: Pods | None = None
    head_works: bool = True
    """Whether runners and the learner may be on the head."""
    apart: bool = False
    """Whether no two pods of workers may share a host."""
    runner_cpus: float = 1.0
    learner_cpus: float = 1.0
    one_per_node: bool = False
    """Whether no two runners may be on one node of Ray (`STRICT_SPREAD`)."""
    learns_beside: bool = True
    """Whether sampling goes on while it is learnt."""
    address: str | None = None
    """Where the Ray cluster is."""
    joins: str | None = None
    """The cluster that the order joins, as `ray.init` takes it; `None`: it says nothing of one."""
    address_faults: tuple[str, ...] = ()
    """What is said of that and contradicts itself."""
    manifest: str | None = None
    """A file of Kubernetes that is to be applied."""
    manifest_fault: str | None = None
    """What is wrong with it."""
    differs: tuple[str, ...] = ()
    """What the plan and the order that is run say differently."""
    may_differ: tuple[str, ...] = ()
    """What they say differently, and may mean the same by."""
    advice: Advice | None = None
    rates: Rates = field(default_factory=Rates)
    claims: Claims = field(default_factory=Claims)

    @property
    def environments(self) -> int:
        """In all."""
        return max(self.runners, 1) * self.envs_per_runner
