"""What `hostler kuberay render` is asked for, as it is written in a fleet file. Nothing here does anything but refuse
contradictions; what Kubernetes, KubeRay and Kueue want beyond them is in `backends.kuberay`."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from hostler.model.work import GIGABYTES_MAX
from hostler.settings.section import Command, Environment, Section


def _is_a_folder(path: str) -> str:
    if posixpath.normpath(path) != path or path == "/":
        raise ValueError(f"{path!r} should be a folder below /, without `..`, and without a slash at its end")
    return path


def _has_addresses(cidr: str) -> str:
    ip_network(cidr, strict=False)  # what it raises says what is wrong
    return cidr


DnsLabel: TypeAlias = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""A name as Services have it (RFC 1035)."""
PlaceName: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""A name as namespaces have it (RFC 1123)."""
ObjectName: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
"""The name of an object that is there already (RFC 1123)."""
DataKey: TypeAlias = Annotated[str, Field(pattern=r"^[-._A-Za-z0-9]+$", max_length=253)]
LabelKey: TypeAlias = Annotated[
    str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$")
]
Extended: TypeAlias = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$")
]
"""A resource that is not Kubernetes' own, as `cpu` is."""
LabelValue: TypeAlias = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$")]
Variable: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Path: TypeAlias = Annotated[str, Field(pattern=r"^/[^\x00-\x1f:]*$"), AfterValidator(_is_a_folder)]
Image: TypeAlias = Annotated[str, Field(pattern=r"^[^\s\x00-\x1f-][^\s\x00-\x1f]*$")]
Cores: TypeAlias = Annotated[float, Field(ge=0.001, le=4096)]
Memory: TypeAlias = Annotated[float, Field(ge=0.001, le=GIGABYTES_MAX)]
Replicas: TypeAlias = Annotated[int, Field(ge=0, le=100_000)]
Span: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]

FILES_DIR = "/etc/hostler/files"
"""Where the pods find `files`."""
ROLES = frozenset({"head", "headgroup", "submitter"})
"""What pods of Ray are that are no workers."""
_VARIABLE = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*\Z")
"""What Kubernetes takes for the name of a variable."""
GPUS_SEEN = "NVIDIA_VISIBLE_DEVICES"
"""What Nvidia's runtime goes by."""
_SECRET_WORDS = frozenset({"TOKEN", "PASSWORD", "PASSWD", "PWD", "PASSPHRASE", "SECRET", "CREDENTIAL", "CREDENTIALS"})
_SECRET_ENDS = ("APIKEY", "_KEY", "ACCESS_KEY_ID", "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN")
_NO_SECRET_ENDS = ("PUBLIC_KEY", "_FILE", "_PATH", "_DIR", "_FOLDER", "_ENV", "_NAME", "_URL", "_URI", "_ENDPOINT")
"""What says where a secret is, and not which one."""
_NAMED = re.compile(r"-{0,2}(?P<name>[A-Za-z][A-Za-z0-9_.-]*)(=(?P<value>.*))?\Z", re.DOTALL)
_IN_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?P<user>[^\s/?#:@]*)(?P<password>:[^\s/?#@]+)?@")
_USER_MOST = 32
"""Longer ones are tokens."""


class KubeToleration(Section):
    """A taint of machines that pods may stand on all the same."""

    key: LabelKey | None = None
    """Of which taint; by default of every one."""
    value: LabelValue | None = None
    """With which value; by default with any."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """With which effect; by default with any."""
    seconds: Span | None = None
    """With `NoExecute`: how long they stay once the machine is tainted; by default for ever."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.value is not None and self.key is None:
            raise ValueError("value is that of a taint; name its key, too")
        if self.seconds is not None and self.effect != "NoExecute":
            raise ValueError("seconds goes with `effect: NoExecute`; others throw nobody out")
        return self


class KubeMachines(Section):
    """What is known of the machines that a group lands on, so that what cannot be is found before it is tried."""

    count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """How many there are."""
    cpus: Cores | None = None
    """Cores that pods can have on each."""
    memory_gb: Memory | None = None
    """Memory that pods can have on each, in GiB."""
    gpus: Annotated[int, Field(ge=0, le=1024)] | None = None
    """GPUs of each."""
    gpus_kept: Annotated[int, Field(ge=0, le=1024)] = 0
    """How many of these stay free for others, on each of them."""


class KubePods(Section):
    """What all pods of a group have."""

    image: Image | None = None
    """Their image; by default that of the whole."""
    cpus: Cores = 1.0
    """Cores of each pod: requested, and its limit."""
    memory_gb: Memory = 4.0
    """Memory of each pod, in GiB: requested, and its limit."""
    gpus: Annotated[int, Field(ge=0, le=1024)] = 0
    """GPUs of each pod. Pods with none do not even see any, whatever their image says."""
    gpu_resource: Extended = "nvidia.com/gpu"
    """What the machines call their GPUs."""
    node_selector: dict[LabelKey, LabelValue] = {}
    """Labels of the machines that they run on."""
    tolerations: tuple[KubeToleration, ...] = ()
    """Taints of these machines that they stand."""
    env: Environment = {}
    """Environment variables, on top of those of all pods."""


class KubeHead(KubePods):
    """The pod that runs Ray's own services, and the driver."""

    cpus: Cores = 2.0
    """Cores of the pod: requested, and its limit."""
    memory_gb: Memory = 8.0
    """Memory of the pod, in GiB: requested, and its limit."""
    schedules: bool = False
    """Whether Ray may run tasks and actors there, too; by default they are kept off (`num-cpus: 0`)."""


class KubeWorkers(KubePods):
    """Pods that are alike, on one kind of machine."""

    name: DnsLabel
    """Name of the group."""
    replicas: Replicas = 1
    """How many pods."""
    min_replicas: Replicas | None = None
    """With `autoscaling`: fewest of them; by default `replicas`."""
    max_replicas: Replicas | None = None
    """With `autoscaling`: most of them; by default `replicas`."""
    spread: Literal["node", "even", "prefer", "none"] = "node"
    """How they are kept apart: `node` puts no two of a group on one machine (anti-affinity), `even` as many on one as
    on any other, `prefer` the same where it can be (topology spread), `none` leaves it to the scheduler."""
    spread_over: LabelKey = "kubernetes.io/hostname"
    """Label of machines that says what they are spread over: machines, or `topology.kubernetes.io/zone`."""
    machines: KubeMachines | None = None
    """What is known of the machines."""

    @property
    def most(self) -> int:
        """As many of them as there will ever be."""
        return self.replicas if self.max_replicas is None else self.max_replicas

    @property
    def least(self) -> int:
        """As few of them as there will ever be."""
        return self.replicas if self.min_replicas is None else self.min_replicas

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        fault = workers_fault(self)
        if fault is not None:
            raise ValueError(f"group {self.name!r}: {fault}")
        return self


class KubeSecret(Section):
    """A Secret of the namespace, by its name; what is in it is never read here and written nowhere."""

    secret: ObjectName
    """Name of the Secret."""
    env: Variable | None = None
    """Environment variable that one of its keys is given as."""
    key: DataKey | None = None
    """With `env`: which key."""
    mount: Path | None = None
    """Folder that it is put in, one file for each key."""

    @model_validator(mode="after")
    def _says_how(self) -> Self:
        if (self.env is None) == (self.mount is None):
            raise ValueError(f"secret {self.secret!r}: give exactly one of env (with its key) and mount")
        if (self.env is None) != (self.key is None):
            raise ValueError(f"secret {self.secret!r}: env and key go together; give both")
        return self


class KubeVolume(Section):
    """A claim of the namespace that all Ray pods have as a folder: for checkpoints, for a ROM."""

    claim: ObjectName
    """Name of the PersistentVolumeClaim."""
    mount: Path
    """The folder."""
    read_only: bool = False
    """Whether they may only read it."""


class KubePeer(Section):
    """What the pods may connect to."""

    cidr: Annotated[str, Field(pattern=r"^[0-9A-Fa-f:.]+/[0-9]{1,3}$"), AfterValidator(_has_addresses)] | None = None
    """Addresses, as `10.0.0.0/8`."""
    namespace: PlaceName | None = None
    """Pods of this namespace; by default those of the own one."""
    labels: dict[LabelKey, LabelValue] = {}
    """Pods with these labels; by default all of the namespace."""
    ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = ()
    """TCP ports; by default all."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        inside = self.namespace is not None or bool(self.labels)
        if (self.cidr is not None) == inside:
            raise ValueError("give either cidr, or namespace and labels of pods")
        return self


class KubeNetwork(Section):
    """Who may talk to the pods, and whom they may talk to. Everything else is refused, names are looked up."""

    reach: tuple[KubePeer, ...] = ()
    """What they connect to: an advising model, a store of checkpoints, an index of packages."""
    operator_namespace: PlaceName | None = None
    """Namespace of the KubeRay operator, which submits jobs and asks how they are; by default any."""


class KubeSubject(Section):
    """Somebody who may run, see and stop this, and nothing else."""

    kind: Literal["User", "Group", "ServiceAccount"]
    """What it is."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """What the cluster calls it."""
    namespace: PlaceName | None = None
    """Of a ServiceAccount: its namespace; by default the own one."""

    @model_validator(mode="after")
    def _has_a_namespace_of_its_own(self) -> Self:
        if self.namespace is not None and self.kind != "ServiceAccount":
            raise ValueError(f"namespace is for a ServiceAccount, and a {self.kind} has none; leave it out")
        return self


class KubeDashboard(Section):
    """A controller of Hostler in the cluster, for its pages."""

    image: Image
    """An image with Hostler in it."""
    fleet: Annotated[str, Field(min_length=1)] | None = None
    """Its fleet file, starting from the folder of this file; by default one without devices. Where it listens, and
    with which certificate, is set for it."""
    cpus: Cores = 1.0
    """Cores of its pod."""
    memory_gb: Memory = 1.0
    """Memory of its pod, in GiB."""
    state_claim: ObjectName | None = None
    """PersistentVolumeClaim for its state; by default that is lost with the pod."""
    tls_secret: ObjectName | None = None
    """Secret with its certificate (`tls.crt`, `tls.key`); on OpenShift by default one that the cluster makes."""
    plain: bool = False
    """Permits to speak plain HTTP inside the cluster, tokens too."""
    host: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)] | None = None
    """Name that people call it by from outside; with `openshift`, that of its Route, by default chosen by the
    cluster."""
    operates: bool = False
    """Whether its pod may run, see and stop the job itself, as `operators` may."""


class Kuberay(Section):
    """A job on Ray in a Kubernetes cluster, or a Ray cluster that stays: what `hostler kuberay render` writes."""

    name: Annotated[DnsLabel, Field(max_length=53)]
    """Name of the RayJob or RayCluster, and beginning of all other names."""
    namespace: PlaceName
    """Where everything is put; it has to be there."""
    kind: Literal["job", "cluster"] = "job"
    """`job` has a cluster of its own that goes when it is done (RayJob); `cluster` stays until it is deleted
    (RayCluster), and is paid for as long."""
    image: Image
    """Image of all Ray pods, with what the job imports."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When images are pulled."""
    pull_secrets: tuple[ObjectName, ...] = ()
    """Secrets that images are pulled with."""
    ray_version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+([.-]?[a-z0-9.]+)?$")]
    """Version of Ray in the image, as `2.60.0`."""
    entrypoint: Command | None = None
    """The job's command, word by word; required for a job."""
    runtime_env: dict[str, Any] = {}
    """Ray's runtime environment of the job: `pip`, `working_dir`, `env_vars`."""
    files: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Small text files, starting from the folder of this file, that all Ray pods find in `/etc/hostler/files`: a
    training's settings, not a ROM."""
    submission: Literal["K8sJobMode", "HTTPMode", "SidecarMode"] = "K8sJobMode"
    """How the operator submits the job: by a pod of its own, whose log is the job's; by itself; or by a container
    beside the head."""
    retries: Annotated[int, Field(ge=0, le=1000)] = 0
    """How often it is begun anew, with a new cluster, after it failed."""
    deadline_s: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    """Longest time it may take, in seconds, from its start on; by default no limit."""
    keep_s: Span = 600
    """How long its cluster stays when it is over, in seconds, for whoever wants to look."""
    head: KubeHead = KubeHead()
    """The head."""
    workers: tuple[KubeWorkers, ...] = ()
    """Groups of workers."""
    autoscaling: bool = False
    """Whether Ray adds and removes workers between `min_replicas` and `max_replicas`."""
    token_auth: bool = False
    """Whether Ray asks for a token (Ray 2.52 and later)."""
    queue: PlaceName | None = None
    """LocalQueue of Kueue in the namespace that it waits in; by default it does not wait."""
    priority: ObjectName | None = None
    """With `queue`: its WorkloadPriorityClass."""
    env: Environment = {}
    """Environment variables of all Ray pods. No secrets: those go to `secrets`."""
    secrets: tuple[KubeSecret, ...] = ()
    """Secrets that all Ray pods get."""
    volumes: tuple[KubeVolume, ...] = ()
    """Volumes that all Ray pods get."""
    run_as: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    """Number of the user in the pods; by default 1000, Ray's own; on OpenShift the cluster chooses it."""
    fs_group: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    """Group that volumes belong to; by default 1000; on OpenShift the cluster chooses it."""
    network: KubeNetwork | None = KubeNetwork()
    """NetworkPolicies; `null`: none."""
    operators: tuple[KubeSubject, ...] = ()
    """Who may run, see and stop it."""
    dashboard: KubeDashboard | None = None
    """Hostler's own pages beside it."""
    openshift: bool = False
    """Whether the cluster is OpenShift: users are random, a Route leads to the dashboard."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        fault = next(_faults(self), None)
        if fault is not None:
            raise ValueError(fault)
        return self


def workers_fault(asked: KubeWorkers) -> str | None:
    """Why a group of workers cannot be, with the arithmetic; `None`: nothing is known against it."""
    if not asked.least <= asked.replicas <= asked.most:
        return (
            f"replicas {asked.replicas} does not lie between min_replicas {asked.least} and max_replicas {asked.most}"
        )
    there = asked.machines
    return None if there is None else _too_big(asked, there) or _too_many(asked, there) or _gpus_taken(asked, there)


def _too_big(asked: KubeWorkers, there: KubeMachines) -> str | None:
    for name in ("cpus", "memory_gb", "gpus"):
        need, has = getattr(asked, name), getattr(there, name)
        if has is not None and need > has:
            return f"a pod needs {name} {need:g}, and a machine has {has:g}; ask for less"
    return None


def _too_many(asked: KubeWorkers, there: KubeMachines) -> str | None:
    """More pods than fit, as far as the number of machines is known."""
    fit = _fit(asked, there)
    if there.count is None or fit is None or asked.most <= there.count * fit:
        return None
    each = "one pod" if fit == 1 else f"{fit} pods"
    why = " (spread: node)" if fit == 1 and asked.spread == "node" else ""
    return f"{asked.most} pods on {there.count} machines with room for {each} each{why}: the rest would wait for ever"


def _fit(asked: KubeWorkers, there: KubeMachines) -> int | None:
    """Pods that one machine has room for; `None`: nobody knows."""
    # The scheduler counts in thousandths.
    rooms = [
        int(1000 * has + 0.5) // int(1000 * need + 0.5)
        for need, has in ((asked.cpus, there.cpus), (asked.memory_gb, there.memory_gb))
        if has is not None
    ]
    if asked.gpus and there.gpus is not None:
        rooms.append((there.gpus - there.gpus_kept) // asked.gpus)
    if _one_each(asked):
        rooms.append(1)
    return min(rooms, default=None)


def _one_each(asked: KubeWorkers) -> bool:
    return asked.spread == "node" and asked.spread_over == "kubernetes.io/hostname"


def _gpus_taken(asked: KubeWorkers, there: KubeMachines) -> str | None:
    """What would be taken of the GPUs that are to stay free: nobody else bounds how many pods one machine gets."""
    if not there.gpus_kept or not asked.gpus:
        return None
    if there.gpus is None:
        return f"gpus_kept {there.gpus_kept} of how many? give `machines: {{gpus: ...}}`, too"
    if there.gpus_kept + asked.gpus > there.gpus:
        return f"a pod takes {asked.gpus} of {there.gpus} GPUs, and {there.gpus_kept} are to stay free; ask for less"
    if not _one_each(asked):
        return (
            f"{there.gpus_kept} GPUs of each machine are to stay free, and `spread: {asked.spread}` may put any number "
            "of pods on one; say `spread: node`"
        )
    return None


def _faults(asked: Kuberay) -> Iterator[str]:
    yield from _of_the_job(asked)
    yield from _of_groups(asked)
    yield from _of_variables(asked)
    yield from _of_secrets(asked)
    if asked.priority is not None and asked.queue is None:
        yield "priority is one in a queue of Kueue; name that, too"
    if asked.openshift and (asked.run_as is not None or asked.fs_group is not None):
        yield "run_as and fs_group are chosen by OpenShift, which refuses others; leave them out"
    board = asked.dashboard
    if board is not None and board.tls_secret is None and not (asked.openshift or board.plain):
        yield (
            "dashboard: others in the cluster can connect, and all they send, tokens too, would be plain text; name a "
            "`tls_secret` (`plain: true` permits it as it is)"
        )
    if board is not None and board.tls_secret is not None and board.plain:
        yield "dashboard: tls_secret and plain contradict each other; keep one of them"


def _of_the_job(asked: Kuberay) -> Iterator[str]:
    if asked.kind == "job" and asked.entrypoint is None:
        yield "a job needs an entrypoint, its command (`kind: cluster` for a cluster without one)"
    if asked.entrypoint is not None and not asked.entrypoint[0].strip():
        yield "the first word of entrypoint is the program, and it is empty; name one"
    if asked.kind == "cluster":
        said = [name for name in ("entrypoint", "runtime_env", "retries", "deadline_s") if getattr(asked, name)]
        if said:
            yield f"{said[0]} is for jobs, and a cluster has none; leave it out, or say `kind: job`"


def _of_groups(asked: Kuberay) -> Iterator[str]:
    twice = _twice(group.name for group in asked.workers)
    if twice is not None:
        yield f"two groups of workers are called {twice!r}; give each a name of its own"
    for group in asked.workers:
        if group.name in ROLES:
            yield f"group {group.name!r}: other pods of Ray are called so; give it another name"
        if not asked.autoscaling and group.least != group.most:
            yield (
                f"group {group.name!r}: min_replicas and max_replicas differ, and nobody would change how many there "
                "are; say `autoscaling: true`, or only replicas"
            )
    if not asked.workers and not asked.head.schedules:
        yield "there are no workers, and the head runs nothing; give workers, or `head: {schedules: true}`"
    mounts = [FILES_DIR] if asked.files else []
    mounts += [each.mount for each in asked.volumes] + [each.mount for each in asked.secrets if each.mount]
    twice = _twice(mounts)
    if twice is not None:
        yield f"two things are to lie in {twice}; give each a folder of its own"
    twice = _twice(name.rpartition("/")[2] for name in asked.files)
    if twice is not None:
        yield f"two files are called {twice!r}, and all of them lie in one folder; call one otherwise"


def _of_variables(asked: Kuberay) -> Iterator[str]:
    """What is wrong with a variable, its value untold: it may be what nobody is to see."""
    ours = [each.env for each in asked.secrets if each.env is not None]
    twice = _twice(ours)
    if twice is not None:
        yield f"two secrets are to be the variable {twice}; give each one of its own"
    for where, variables in _variables(asked):
        for name, value in variables.items():
            if not _VARIABLE.match(name):
                yield f"{where}: {name!r} is no name of a variable; letters, digits, `_`, `-` and `.` make one"
            elif not isinstance(value, str):
                yield f"{where}: {name} is no text, and all variables are; put it in quotes"
            elif is_secret(name):
                yield (
                    f"{where}: {name} looks like a secret, and would stand in every manifest; put it into a Secret, "
                    "and name that under `secrets`"
                )
            elif name in ours:
                yield f"{where}: {name} comes from a Secret, too; keep one of them"
    for group in (asked.head, *asked.workers):
        if GPUS_SEEN in {**asked.env, **group.env} and not group.gpus:
            yield f"env: {GPUS_SEEN} shows GPUs to pods that have asked for none; give them `gpus`"


def _of_secrets(asked: Kuberay) -> Iterator[str]:
    """What would be told to everybody who may read manifests."""
    for where, variables in (*_variables(asked), ("runtime_env", asked.runtime_env)):
        if any(map(has_password, _texts(variables))):
            yield f"{where}: has an address with a password or a token in it, which would stand in every manifest"
    shown = _shown(asked.entrypoint or ())
    if shown is not None:
        yield (
            f"entrypoint: {shown} looks like a secret, and would stand in every manifest and every list of processes; "
            "give it by a variable or a file of a Secret (`secrets`)"
        )


def _variables(asked: Kuberay) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All that are said, by where."""
    yield "env", asked.env
    yield "head.env", asked.head.env
    for group in asked.workers:
        yield f"env of group {group.name!r}", group.env
    given = asked.runtime_env.get("env_vars")
    if isinstance(given, dict):
        yield "runtime_env.env_vars", given


def is_secret(variable: str) -> bool:
    """Whether a variable of that name usually has something that others must not see."""
    name = re.sub(r"[^A-Z0-9]+", "_", variable.upper())
    if name.endswith(_NO_SECRET_ENDS):
        return False
    return not _SECRET_WORDS.isdisjoint(name.split("_")) or name.endswith(_SECRET_ENDS)


def has_password(text: str) -> bool:
    """Whether an address in it tells how one gets in: `https://user:password@host`, `https://token@host`."""
    return any(found["password"] or len(found["user"]) > _USER_MOST for found in _IN_ADDRESS.finditer(text))


def _shown(words: Sequence[str]) -> str | None:
    """Which word of a command tells a secret, without it; `None`: none does."""
    for at, word in enumerate(words):
        if has_password(word):
            return "an address with a password or a token in it"
        named = _NAMED.match(word)
        if named is None or not is_secret(named["name"]):
            continue
        follows = word.startswith("-") and at + 1 < len(words) and not words[at + 1].startswith("-")
        if named["value"] or (named["value"] is None and follows):
            return named["name"]
    return None


def _texts(value: object) -> Iterator[str]:
    """All texts in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for below in value.values():
            yield from _texts(below)
    elif isinstance(value, Sequence):
        for below in value:
            yield from _texts(below)


def _twice(names: Iterable[str]) -> str | None:
    counts = Counter(names)
    return min((name for name, count in counts.items() if count > 1), default=None)
