"""Everything that can be set, with its type, its default and its meaning. Nothing here does anything.

The descriptions below the fields are what `hostler check`, the JSON Schema and the reference show.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hostler.model.rules import CompactRules
from hostler.model.work import (
    DEFAULT_BUDGETS,
    GIGABYTES_MAX,
    SECONDS_MAX,
    USUAL_DISK_GB,
    Priority,
    Resources,
    Rest,
    Retry,
    Seconds,
)
from hostler.settings.alerts import RULE_FIELDS, RULES, Alerts
from hostler.settings.api import Api
from hostler.settings.database import DatabaseAddress
from hostler.settings.jobs import Job, refuse_id
from hostler.settings.keeping import STORING, Replication, Retention, Store
from hostler.settings.kuberay import Kuberay
from hostler.settings.loops import Config
from hostler.settings.nodes import Address, Node, NodeClasses
from hostler.settings.rl import Rl
from hostler.settings.scheduling import SCHEDULING_FIELDS, Providers, Quotas, Scheduling
from hostler.settings.section import Command, Count, Integer, Name, Needs, Pattern, Section
from hostler.settings.slurm import Slurm, SlurmJob, cluster_fault


class Ssh(Section):
    """How nodes behind SSH are reached; each of them is asked for a key, never for a password."""

    config: tuple[Annotated[str, Field(min_length=1)], ...] = ("~/.ssh/config", "/etc/ssh/ssh_config")
    """Configurations of SSH that are heeded, as far as they are there."""
    known_hosts: tuple[Annotated[str, Field(min_length=1)], ...] = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")
    """Where host keys are known from, besides those accepted by `hostler node trust`."""
    handshakes: Annotated[int, Field(ge=1, le=100)] = 8
    """Connections made at once over one jump host; a server drops more than ten."""
    connect_s: Seconds = 20.0
    """How long a connection may take to be made, in seconds."""
    keepalive_s: Seconds = 10.0
    """After so long a silence, in seconds, a node is asked for a sign of life; three that fail end the connection."""


class Dialin(Section):
    """Where nodes call that nobody can connect to (`backend: dialin`): over TLS, with a token each."""

    listen: Address | None = None
    """Address and port, as `0.0.0.0:8767`; by default nothing listens."""
    address: Address | None = None
    """What nodes call, if that is another one: of a router that passes calls on, for example."""
    certificate: Annotated[str, Field(min_length=1)] | None = None
    """File with the controller's certificate (PEM); by default one of its own, made once. Nodes know it by its
    fingerprint, so that another one means to invite them anew."""
    key: Annotated[str, Field(min_length=1)] | None = None
    """File with its private key (PEM); by default it is in the file of the certificate."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.key is not None and self.certificate is None:
            raise ValueError("key is that of a certificate; name its file, too")
        if self.address is not None and self.listen is None:
            raise ValueError("address is where calls come to; say where to `listen` for them, too")
        return self


class Sweep(Section):
    """One program over every integer of a range. Exactly one of `program` and `worker` says which program."""

    name: Name
    """What people call it."""
    key: Name | None = None
    """Idempotency key; by default the name."""
    program: Annotated[str, Field(min_length=1)] | None = None
    """An installed program, such as `sieve`; it checks `params` and takes data files into them."""
    worker: Command | None = None
    """A command that speaks the worker protocol; a first word `{python}` is the node's Python."""
    cwd: Annotated[str, Field(min_length=1)] | None = None
    """With `worker`: where it runs, starting from the folder of this file; by default in a fresh directory."""
    files: tuple[Pattern, ...] | None = None
    """With `cwd`: what of it goes along to nodes behind SSH, as those of a job."""
    range: tuple[Integer, Integer]
    """The half-open range `[start, stop]`, exact however big; numbers may be written as `2**32 - 1`."""
    params: dict[str, Any] = {}
    """Parameters of the program; data files are taken in, and their paths start from the folder of this file."""
    priority: Priority = 0
    """Higher goes first."""
    after: tuple[Name, ...] = ()
    """Keys (or ids) of jobs that must be done first."""
    resources: Needs = Resources()
    """What a worker needs of its device."""
    retry: Retry = Retry()
    """How often workers may fail before the sweep is given up."""
    target_s: Seconds | None = None
    """How long a chunk should take, in seconds; by default 10, and longer where chunks are slow to start."""
    min_chunk: Annotated[Integer, Field(ge=1)] = 1
    """Fewest items in a chunk."""
    max_chunk: Annotated[Integer, Field(ge=1)] | None = None
    """Most items in a chunk."""
    max_hits: Annotated[Integer, Field(ge=0, le=2**63 - 1)] = 100_000
    """More hits than this fail the sweep: a search that finds everything has found nothing."""
    silence_s: Seconds = 30.0
    """A worker that says nothing for so long, in seconds, is replaced."""
    start_s: Seconds = 120.0
    """How long a worker may take to start, in seconds."""
    slurm: SlurmJob | None = None
    """What its workers want of a cluster, where they run on one."""
    chance: Annotated[float, Field(ge=0, le=1)] | None = None
    """With `worker`: the probability that an item is a hit by chance."""
    kernel: Name | None = None
    """With `worker`: sweeps of one kernel share the speeds measured for it."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        refuse_id(self.key or self.name)
        if (self.program is None) == (self.worker is None):
            raise ValueError("give exactly one of program and worker")
        if self.program is not None and self.cwd is not None:
            raise ValueError("cwd goes with worker; a program brings what it needs")
        if self.files is not None and self.cwd is None:
            raise ValueError("files are those of cwd; say where that is, too")
        if self.program is not None and (self.chance is not None or self.kernel is not None):
            raise ValueError("chance and kernel go with worker; a program knows its own")
        if self.range[0] >= self.range[1]:
            raise ValueError(f"range [{self.range[0]}, {self.range[1]}] is empty; its end lies beyond its start")
        if self.max_chunk is not None and self.max_chunk < self.min_chunk:
            raise ValueError(f"max_chunk {self.max_chunk} is below min_chunk {self.min_chunk}")
        return self


class Journal(Section):
    """The controller's memory."""

    snapshot_every: Annotated[int, Field(ge=1, le=2**63 - 1)] = 50_000
    """Events between two snapshots; fewer make starting faster and running slower."""
    keep_finished: Count = 10_000
    """The newest finished jobs that stay in the controller's memory, about 6 kB each; older ones are answered for by
    the store."""
    keep_finished_s: Annotated[float, Field(ge=60, le=SECONDS_MAX)] = 86_400.0
    """For how many seconds all finished jobs stay in memory, however many they are."""
    compact_after_s: Rest = 7 * 86_400.0
    """For how many seconds entries stay rows of their own; older ones are packed, about a tenth as large, and are
    read as before, only slower."""
    keep_entries: Annotated[int, Field(ge=1000, le=2**63 - 1)] = 100_000
    """The newest entries that stay rows of their own, however old they are."""
    keep_usage_s: Annotated[float, Field(ge=86_400, le=SECONDS_MAX)] = 366 * 86_400.0
    """For how many seconds the store keeps how each device was used, by the hour (`hostler account usage`). A year of
    1,000 devices is about a gigabyte."""

    def compacting(self) -> CompactRules:
        """What goes into segments, as the store has it."""
        return CompactRules(after_s=self.compact_after_s, keep_entries=self.keep_entries)


class Limits(Section):
    """What one attempt may take and leave behind, and what the controller takes of one node."""

    log_bytes: Annotated[Count, Field(lt=2**62)] = 10 << 20
    """Bytes kept of each output stream; older output makes room for newer."""
    result_bytes: Annotated[Count, Field(lt=2**62)] = 1 << 20
    """Longest result, in bytes; a longer one is a failure."""
    memory_gb: Annotated[float, Field(gt=0, le=GIGABYTES_MAX)] | None = None
    """Most resident memory of an attempt whose `resources.memory_gb` states none, in GiB, of submitted jobs too; by
    default no limit."""
    environment_build_s: Annotated[float, Field(gt=0, le=SECONDS_MAX)] = 1800.0
    """Longest time, in seconds, that a node may take to build a Python environment. A build that takes longer is ended
    and fails: the job fails, and that environment is not built again on that node for half an hour."""
    error_bytes: Annotated[int, Field(ge=256, le=8192)] = 4096
    """Bytes kept of each error text of a node."""
    outputs: Annotated[int, Field(ge=1, le=20_000)] = 20_000
    """Files that one attempt may leave as its `outputs`."""
    depth: Annotated[int, Field(ge=8, le=64)] = 64
    """Levels that a result may be nested."""
    line_bytes: Annotated[int, Field(ge=1 << 16, le=64 << 20)] = 1 << 20
    """Longest line of a node, in bytes, that carries neither a result nor hits. A node that sends a longer one loses
    its link."""
    hits_bytes: Annotated[int, Field(ge=1 << 16, le=64 << 20)] = 6 << 20
    """Bytes of the hits of one chunk, results of calls among them. An agent sends 6 MiB at most."""
    facts_per_s: Annotated[float, Field(ge=10, le=1_000_000)] = 2000.0
    """Facts per second that the controller reads of one node. A node that keeps sending more for a minute loses its
    link."""
    facts_burst: Annotated[int, Field(ge=1000, le=1_000_000)] = 10_000
    """Facts of one node that may come at once. A node that sends more in one line loses its link."""
    reserve_gb: Annotated[float, Field(ge=0, le=GIGABYTES_MAX)] = 1.0
    """GiB of the disk of `state_dir` that stay free for the journal: files and logs of nodes, uploads, results and
    artifacts stop there, and are fetched once there is room again."""
    unauthenticated: Annotated[int, Field(ge=2, le=100_000)] = 64
    """Connections of one address that have not sent a valid token yet, at most: to the API, and to the address that
    nodes call. Where one more connects, the oldest of them is closed."""
    head_s: Annotated[float, Field(ge=0.1, le=600)] = 10.0
    """Seconds that the head of a request may take, and the first line of a node that calls. A connection that takes
    longer is closed."""
    head_bytes: Annotated[int, Field(ge=1024, le=1 << 20)] = 16 << 10
    """Bytes of the head of a request, its path and headers. A longer one is refused with status 431."""


RECORD_FIELDS = {
    "Resources": {
        "device": "`cpu`, `gpu`, or `any`; by default a script waits for a GPU if the fleet has one that it "
        "may take, and other work takes any device.",
        "vram_gb": "Video memory the device must have, in GB.",
        "memory_gb": "Most resident memory of its processes together, in GiB; beyond it they are ended.",
        "gpus": "Devices of one node that it takes at once.",
        "shards": "Whether `vram_gb` may be spread over GPUs of one node; it takes as many of them as that needs.",
        "shared": "Whether others may run on its GPU at the same time, as far as the `vram_gb` of all of them fits.",
        "cpus": "Host cores it keeps busy.",
        "tiers": "Tiers of nodes it may run on, best first; by default any.",
        "cpu_too": "With `device: any`: whether a CPU slot does as well, whatever `vram_gb` and `tiers` ask of a GPU.",
        "disk_gb": "Free disk space, in GiB, that there must be where it runs, beside what is kept; by default "
        + ", ".join(f"{size:g} for {kind}" for kind, size in USUAL_DISK_GB.items())
        + ".",
        "nodes": "Nodes it may run on; by default any.",
        "exclude_nodes": "Nodes it does not run on.",
        "gpu_models": "GPU models it may run on, by words of their names: `4090` is an NVIDIA GeForce RTX 4090.",
        "exclude_gpu_models": "GPU models it does not run on.",
        "providers": "Providers whose nodes it may run on; by default any.",
        "labels": "Labels that its node must have, as `name=value`.",
    },
    "Retry": {
        "max_attempts": "Attempts that may end in a class of failure before the job fails; by default "
        + ", ".join(f"{failure} {budget}" for failure, budget in DEFAULT_BUDGETS.items())
        + ".",
        "backoff_s": "Rest after the first failure, in seconds; doubled after each further one.",
        "backoff_max_s": "Longest rest, in seconds.",
    },
    **SCHEDULING_FIELDS,
    **{made.__name__: RULE_FIELDS for made in RULES.values()},
}
"""Descriptions of the fields of records, which have no room for them."""


class Fleet(Section):
    """A fleet file: the machines, and what is to be done on them. Paths in it start from its own folder."""

    name: Name = "fleet"
    """What people call the fleet."""
    state_dir: Annotated[str, Field(min_length=1)] | None = None
    """Folder of the journal, the token and the attempts; by default `$XDG_STATE_HOME/hostler` or
    `~/.local/state/hostler`."""
    store: DatabaseAddress | None = None
    """Database of the journal, `postgresql+psycopg://USER@HOST/NAME?sslmode=verify-full`; by default a SQLite file in
    `state_dir`. Passwords stand in `~/.pgpass`, in the file that `PGPASSFILE` names, or in `PGPASSWORD`."""
    api: Api = Api()
    """Where the controller listens, and who may come in."""
    ssh: Ssh = Ssh()
    """How nodes behind SSH are reached."""
    dialin: Dialin = Dialin()
    """Where nodes call that nobody can connect to, and pilots of Ray clusters."""
    nodes: Annotated[tuple[Node, ...], Field(min_length=1)] = (Node(name="here"),)
    """The machines; by default this one."""
    classes: NodeClasses = {}
    """Classes of nodes by name. Each takes what a node takes but `name`, `partition` and `class` (and `host`, unless it
    is a cluster), and it goes for every node that says `class:`. What a node says itself wins; `env`, `rocm`, `slurm`
    and `ray` are merged key by key."""
    sweeps: tuple[Sweep, ...] = ()
    """Sweeps to be done."""
    jobs: tuple[Job, ...] = ()
    """Script jobs to be done."""
    jobs_files: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Files with more script jobs, YAML or JSON."""
    configs: tuple[Config, ...] = ()
    """Training configs: the learning problems, each with a self-improvement loop of its own."""
    rl: Rl | None = None
    """A training on many machines that is planned; by default none."""
    scheduling: Scheduling = Scheduling()
    """How devices are given away."""
    config_quotas: Quotas = {}
    """Another word for `scheduling.quotas`."""
    provider_preferences: Providers = {}
    """Another word for `scheduling.cost.providers`."""
    alerts: Alerts = Alerts()
    """What people are told of, and where."""
    stores: tuple[Store, ...] = ()
    """Places for copies of games, datasets and models, besides the state directory."""
    replication: Replication = Replication()
    """How many copies of what there should be."""
    retention: Retention = Retention()
    """What of the state directory's disk may go, and when."""
    kuberay: Kuberay | None = None
    """A job on Ray in a Kubernetes cluster, for `hostler kuberay render`; the controller itself leaves it alone."""
    journal: Journal = Journal()
    """The controller's memory."""
    limits: Limits = Limits()
    """What one attempt may take and leave behind, and what the controller takes of one node."""

    @field_validator("config_quotas", "provider_preferences")
    @classmethod
    def _said_once(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        asked: Scheduling | None = info.data.get("scheduling")
        if asked is None or not value:
            return value
        first, kept = {
            "config_quotas": (asked.quotas, "scheduling.quotas"),
            "provider_preferences": (asked.cost.providers, "scheduling.cost.providers"),
        }[str(info.field_name)]
        if first:
            raise ValueError(f"means the same as {kept}, which is there, too; keep one of them")
        return value

    @model_validator(mode="after")
    def _has_stores_of_different_names(self) -> Self:
        counts = Counter(store.name for store in self.stores)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise ValueError(f"two stores are called {twice[0]!r}; give each a name of its own")
        return self

    @model_validator(mode="after")
    def _has_the_nodes_of_its_stores(self) -> Self:
        able = {node.name for node in self.nodes if node.backend in STORING}
        for store in self.stores:
            if store.node is not None and store.node not in able:
                raise ValueError(
                    f"the store {store.name!r} is on the node {store.node!r}, which is none of this fleet that files "
                    "can be kept on; name one with `backend: local`, `ssh` or `dialin`"
                )
        return self

    @model_validator(mode="after")
    def _hears_who_calls(self) -> Self:
        callers = [node.name for node in self.nodes if node.backend in ("dialin", "ray")]
        if callers and self.dialin.listen is None:
            raise ValueError(
                f"node {callers[0]!r} calls, and nobody would hear it; say where: `dialin: {{listen: ...}}`"
            )
        pilots = [node.name for node in self.nodes if node.backend == "ray"]
        if pilots and self.dialin.address is None and (self.dialin.listen or "").endswith(":0"):
            raise ValueError(
                f"the pilots of {pilots[0]!r} go on calling the same port after the controller was started anew; name "
                "one in dialin.listen instead of 0"
            )
        return self

    @model_validator(mode="after")
    def _says_one_thing_of_a_cluster(self) -> Self:
        clusters: dict[tuple[str | None, int | None], list[tuple[str, Slurm]]] = {}
        for node in self.nodes:
            if node.backend == "slurm" and node.slurm is not None:
                clusters.setdefault((node.host, node.port), []).append((node.name, node.slurm))
        fault = next((fault for each in clusters.values() if (fault := cluster_fault(each)) is not None), None)
        if fault is not None:
            raise ValueError(fault)
        return self
