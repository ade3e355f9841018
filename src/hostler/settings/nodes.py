"""The machines as they are written in a fleet file. Nothing here does anything but refuse contradictions."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hostler.model.fleet import Money
from hostler.model.work import CONSTRAINTS_MAX, GIGABYTES_MAX, LabelName, LabelValue, Rest, Seconds, WorkKind
from hostler.settings.moments import LATEST, parse_moment
from hostler.settings.ray import Ray, ray_fault
from hostler.settings.section import Command, Environment, Name, NodeName, Section, Word
from hostler.settings.slurm import Slurm, slurm_fault

Moment: TypeAlias = Annotated[
    float, Field(ge=0, le=LATEST), BeforeValidator(parse_moment, json_schema_input_type=float | str)
]
Host: TypeAlias = Annotated[str, Field(pattern=r"^[^\s,\x00-]\S*$")]
"""Something that SSH takes for no option of its own."""
Partition: TypeAlias = Annotated[str, Field(pattern=r"^[^\s,\x00*-][^\s,\x00*]*$")]
Address: TypeAlias = Annotated[
    str, Field(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]\x00/-][^\s:\[\]\x00/]*):[0-9]{1,5}$")
]
"""`HOST:PORT`; IPv6 in brackets."""
CARDS_MAX = 4096
"""GPUs of a node."""
UUID_FORM = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z][0-9A-Za-z/-]{0,99}\Z")
Gigabytes: TypeAlias = Annotated[float, Field(gt=0, le=GIGABYTES_MAX)]


class Gpus(Section):
    """Some equal GPUs of a virtual node."""

    model: Name
    """What its driver calls it, such as `RTX 4090`; AMD's and Apple's are told by their names."""
    count: Annotated[int, Field(ge=1, le=1024)] = 1
    """How many."""
    vram_gb: Gigabytes | None = None
    """Video memory of each, in GB; by default unknown, which keeps away whatever asks for some."""


def _names_card(entry: int | str) -> int | str:
    if isinstance(entry, int) and 0 <= entry < CARDS_MAX:
        return entry
    if isinstance(entry, str) and UUID_FORM.match(entry):
        return entry
    raise ValueError("should be the index of a GPU as nvidia-smi counts, such as 1, or its UUID, such as GPU-8932f937")


Card: TypeAlias = Annotated[int | str, AfterValidator(_names_card)]
"""An index as `nvidia-smi` counts, or a UUID or its begin."""


class GpuChoice(Section):
    """The GPUs of a node that Hostler uses, of those that its probe finds."""

    only: Annotated[tuple[Card, ...], Field(min_length=1, max_length=CARDS_MAX)] | None = None
    """Only these, each by its index in `nvidia-smi` or by its UUID (`GPU-8932f937`, as much of it as is needed); by
    default all."""
    exclude: Annotated[tuple[Card, ...], Field(max_length=CARDS_MAX)] = ()
    """Not these, named in the same way."""


class Rocm(Section):
    """The environment of ROCm's libraries; what is not said here they find out by themselves."""

    gfx: Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]{1,2}\.[0-9]{1,2}$")] | None = None
    """The chip to take its GPUs for, as `10.3.0`: `HSA_OVERRIDE_GFX_VERSION`, for chips ROCm has no code for."""
    home: Annotated[Word, Field(min_length=1)] | None = None
    """Folder of ROCm, as `/opt/rocm`: `ROCM_PATH` and `HIP_PATH`."""
    sdma: bool = True
    """Whether copies go by the GPU's own engines; `false` is `HSA_ENABLE_SDMA=0`, for boards on which those hang."""
    alloc_conf: Annotated[Word, Field(min_length=1)] | None = None
    """How PyTorch keeps GPU memory, as `garbage_collection_threshold:0.8`: `PYTORCH_HIP_ALLOC_CONF`."""


class Identity(Section):
    """What one machine has for itself."""

    name: NodeName
    """Name of the node; letters, digits, dots, dashes and underscores."""
    class_: NodeName | None = Field(default=None, alias="class")
    """The one of `classes` that it belongs to: what that says holds here, too, unless it is said here."""
    partition: Partition | None = None
    """With `backend: slurm`: what the cluster calls the partition; by default the name of the node."""


def _choice_fault(choice: GpuChoice, backend: str) -> str | None:
    """What contradicts itself in a choice among GPUs."""
    if backend not in CHOOSING:
        return f"gpus.only and gpus.exclude choose among the GPUs of one machine; {CHOSEN_ELSEWHERE[backend]}"
    for name, entries in (("only", choice.only or ()), ("exclude", choice.exclude)):
        twice = [str(each) for each in dict.fromkeys(entries) if entries.count(each) > 1]
        if twice:
            return f"gpus.{name} names {', '.join(twice)} twice; once is enough"
    both = [str(each) for each in choice.only or () if each in choice.exclude]
    if both:
        return f"gpus.only and gpus.exclude both name {', '.join(both)}; take it out of one of them"
    if choice.only is None and not choice.exclude:
        return "gpus chooses nothing: name GPUs under `only` or `exclude`, or write `gpus: auto`"
    return None


CHOOSING = ("local", "ssh", "dialin")
CHOSEN_ELSEWHERE = {
    "slurm": "Slurm chooses those of an allocation, so write `gpus: auto` or `none`",
    "ray": "Ray chooses those of a pilot, so write `gpus: auto` or `none`",
    "virtual": "a virtual node lists its own, so leave out those that are not to be used",
}


class NodeClass(Section):
    """What goes for all nodes of a class."""

    backend: Literal["local", "ssh", "dialin", "slurm", "ray", "virtual"] = "local"
    """How attempts are run there: `local` is this machine, `ssh` one that SSH reaches by a key, `dialin` one that
    nobody can connect to and that calls the controller (`hostler node invite`), `slurm` a partition of a cluster that
    takes batch jobs, `ray` a share of a Ray cluster, from which its agent calls the controller. A `virtual` one is only
    described: `hostler plan`, `hostler sim` and `hostler check` take it into account, `hostler up` refuses it."""
    host: Host | None = None
    """What SSH knows the node as: a name of `~/.ssh/config`, or an address; by default the name of the node. Of a
    partition, the login node of its cluster, which a class may say; by default Slurm's commands are run on this
    machine."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of its SSH server; by default what `~/.ssh/config` says, or 22."""
    user: Host | None = None
    """Who logs in there; by default what `~/.ssh/config` says, or who runs Hostler."""
    identity: Annotated[str, Field(min_length=1)] | None = None
    """Private key, starting from the folder of this file; by default those of the SSH agent and of `~/.ssh`."""
    via: tuple[Host, ...] | None = None
    """Jump hosts as `[user@]host[:port]`, the nearest first; by default the `ProxyJump` of `~/.ssh/config`."""
    dir: Annotated[str, Field(min_length=1)] = "~/.hostler"
    """Folder for the agent and for everything it runs, on the node; `~` is the home there."""
    setup: tuple[Word, ...] = ()
    """Lines of shell before the agent starts; what they export, everything on the node sees. Of a partition: at the
    begin of each batch script, as `module load cuda`."""
    slurm: Slurm | None = None
    """With `backend: slurm`: the cluster, and what it is asked for."""
    ray: Ray | None = None
    """With `backend: ray`: the cluster, and what it is asked for."""
    cpu_slots: Literal["auto"] | Annotated[int, Field(ge=0, le=4096)] = "auto"
    """How many processes run on CPUs at the same time; `auto`: one for each core Hostler may use, and on a virtual node
    with GPUs none. Of a partition, how many allocations without a GPU; `auto`: with GPUs none, and else what its cores
    give, at most `slurm.max_jobs`. Of a Ray cluster `auto` is as many as a pilot has whole CPUs, and at least one where
    it has no GPU."""
    gpus: Literal["auto", "none"] | GpuChoice | Annotated[tuple[Gpus, ...], Field(min_length=1)] = "auto"
    """`auto` uses the GPUs that the node's probe finds, `none` leaves them alone, `{only: [1]}` or `{exclude: [0]}`
    chooses among them. A virtual node lists its own."""
    foreign_use: Literal["wait", "share", "ignore"] = "wait"
    """What is placed on a GPU that others use, by its memory and processes: with `wait` nothing, with `share` what fits
    beside them by its `vram_gb`, with `ignore` whatever comes. What an ended attempt left there holds it except with
    `ignore`. Of a cluster, whose own scheduler gives its GPUs out, it is not looked at."""
    yield_to_others: bool = False
    """Whether self-play, and jobs that save checkpoints, leave a GPU when others begin to use it."""
    job_user: Annotated[str, Field(pattern=r"^([a-z_][a-z0-9_.-]{0,31}|[1-9][0-9]{0,8})$")] | None = None
    """Name or number of the user that jobs run as, where the agent runs as root; they cannot read the agent's token and
    socket then. With `backend: ssh` or `dialin`; the user must be able to enter `dir`. Python environments are not
    built for such jobs. By default jobs run as the agent's user."""
    python: Annotated[str, Field(min_length=1)] | None = None
    """The interpreter that `{python}` stands for, and that runs the agent; by default the one that runs Hostler, and
    elsewhere `python3`."""
    env: Environment = {}
    """Laid under the environment of every process on the node. `HOSTLER_ARTIFACTS` is Hostler's own, but for a
    partition that sees the state directory under another path."""
    rocm: Rocm | None = None
    """What ROCm needs to be told there, laid under `env`; by default nothing."""
    provider: Name | None = None
    """Who rents it out; preferences in `scheduling.cost` go by it."""
    labels: Annotated[dict[LabelName, LabelValue], Field(max_length=CONSTRAINTS_MAX)] = {}
    """Names and values by which work may ask for the node: `hostler submit --label zone=a`."""
    ephemeral: bool = False
    """Whether it may vanish without notice."""
    lifetime_s: Seconds | None = None
    """Mean time an ephemeral node lives, in seconds; by default unknown."""
    price_per_h: Money | None = None
    """What the whole node costs per hour, in any one currency; of a partition, one GPU of it, or one slot where it has
    none. By default unknown."""
    ends_at: Moment | None = None
    """When it goes away: date and time with their offset (`2026-12-31T18:00:00Z`), or Unix seconds."""
    cpus: Annotated[float, Field(gt=0, le=4096)] | None = None
    """Host cores that jobs may reserve by `resources.cpus`; by default those that the probe counts, and of a virtual
    node unknown: nothing is refused for them then."""
    memory_gb: Gigabytes | None = None
    """Budget that the `resources.memory_gb` of everything that runs there is reserved from, in GiB; by default none."""
    work: Annotated[tuple[WorkKind, ...], Field(min_length=1)] | None = None
    """Kinds of work allowed there; by default all."""
    scripts: Annotated[int, Field(ge=0, le=4096)] | None = None
    """Script jobs at a time, whatever devices they are on: hosts with weak CPUs choke on more; by default no limit."""
    stagger_s: Rest = 0.0
    """Least time between two starts of processes on its GPUs, in seconds."""
    canary: Literal["auto", "none"] | Command | None = None
    """What proves each device before it gets work, after a new start of the machine, and after a quarantine: `auto` a
    search with a known answer, `none` nothing; or a command (`{python}` is the node's Python) that ends well within
    60 s, its last line of output being the word it finds in `$HOSTLER_CANARY`. By default `auto` elsewhere, on this
    machine `none`."""
    lease_s: Literal["auto", "never"] | Seconds = "auto"
    """For so many seconds, what it runs stays its own while it is out of reach. Then it ends that itself, and a little
    later others get it. `auto`: 43200, of an ephemeral node 1800; on this machine, and with `never`, it keeps it for
    ever. What waits in the queue of a cluster is kept twice as long."""


def _yields(node: NodeClass) -> None:
    if node.yield_to_others and node.foreign_use != "wait":
        raise ValueError(
            f"yield_to_others leaves a GPU to others, and foreign_use: {node.foreign_use} places work beside them; "
            "leave one of the two out"
        )


def _runs_jobs_as(node: NodeClass) -> None:
    if node.job_user is None:
        return
    if node.backend not in ("ssh", "dialin"):
        raise ValueError(
            f"job_user is for nodes that have an agent of their own (ssh, dialin), not for `backend: {node.backend}`; "
            "leave it out"
        )
    if node.job_user == "root":
        raise ValueError("job_user: root keeps nothing from jobs; name another user, or leave it out")


def _shares_its_host(shared: NodeClass) -> NodeClass:
    if shared.host is not None and shared.backend != "slurm":
        raise ValueError(
            "a host is that of one node, which says it itself; only the partitions of a cluster share their login node"
        )
    return shared


NodeClasses: TypeAlias = dict[NodeName, Annotated[NodeClass, AfterValidator(_shares_its_host)]]


class Node(NodeClass, Identity):
    """One machine of the fleet."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _yields(self)
        _runs_jobs_as(self)
        listed = isinstance(self.gpus, tuple)
        if self.backend != "virtual" and listed:
            raise ValueError("the GPUs of a real node are those that its probe finds; write `gpus: auto` or `none`")
        choice_fault = _choice_fault(self.gpus, self.backend) if isinstance(self.gpus, GpuChoice) else None
        if choice_fault is not None:
            raise ValueError(choice_fault)
        over_ssh = self.model_fields_set & {"host", "port", "user", "identity", "via", "setup"}
        if self.backend not in ("ssh", "slurm") and over_ssh:
            raise ValueError(f"{', '.join(sorted(over_ssh))}: that is for nodes behind SSH; write `backend: ssh`, too")
        self._refuse_half_a_cluster()
        self._refuse_half_a_ray_cluster()
        if self.backend not in ("ssh", "dialin", "ray") and "dir" in self.model_fields_set:
            raise ValueError("dir: that is for nodes elsewhere; write `backend: ssh`, `dialin` or `ray`, too")
        if isinstance(self.canary, tuple) and not self.canary[0]:
            raise ValueError("the command of a canary begins with a program; its first word is empty")
        if self.backend == "virtual" and self.canary is not None:
            raise ValueError("nothing runs on a virtual node that could prove its devices; leave `canary` out")
        if self.backend == "virtual" and self.gpus == "auto":
            raise ValueError("nobody can probe a virtual node; list its `gpus`, or write `none`")
        if self.backend == "virtual" and not listed and self.cpu_slots == "auto" and self.cpus is None:
            raise ValueError("nobody can count the cores of a virtual node; give its `cpus` or its `cpu_slots`")
        if self.lifetime_s is not None and not self.ephemeral:
            raise ValueError("lifetime_s is for nodes that may vanish; write `ephemeral: true`, too")
        if self.work is not None and len(set(self.work)) < len(self.work):
            raise ValueError("work names a kind twice; once is enough")
        return self

    def _refuse_half_a_ray_cluster(self) -> None:
        if self.backend != "ray":
            if self.ray is not None:
                raise ValueError("ray: that is for shares of Ray clusters; write `backend: ray`, too")
            return
        fault = ray_fault(self.ray or Ray())
        if fault is not None:
            raise ValueError(fault)
        if self.gpus == "none" and self.ray is not None and self.ray.gpus:
            raise ValueError("ray.gpus asks for GPUs, and `gpus: none` leaves them alone; keep one of them")

    def _refuse_half_a_cluster(self) -> None:
        of_slurm = [name for name in ("partition", "slurm") if getattr(self, name) is not None]
        if self.backend != "slurm":
            if of_slurm:
                raise ValueError(f"{', '.join(of_slurm)}: that is for partitions; write `backend: slurm`, too")
            return
        login = sorted(self.model_fields_set & {"port", "user", "identity", "via"})
        if self.host is None and login:
            raise ValueError(f"{', '.join(login)}: that is for a login node; name it in `host`, too")
        fault = slurm_fault(self.slurm or Slurm())
        if fault is not None:
            raise ValueError(fault)
        if self.gpus == "none" and self.slurm is not None and self.slurm.gpu_type is not None:
            raise ValueError("slurm.gpu_type is for GPUs, and `gpus: none` leaves them alone; keep one of them")
        if any(line.lstrip().startswith("#SBATCH") for line in self.setup):
            raise ValueError("setup is shell, in which #SBATCH says nothing; write the option into `slurm.extra`")
