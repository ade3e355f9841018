"""A first fleet file: the machines that were found, each with a comment, as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hostler.model.units import card_memory
from hostler.settings.importing.writing import comment, flow, scalar

HOSTS_SHOWN = 20


class FoundGpu(NamedTuple):
    """A GPU of this machine."""

    number: int
    model: str | None
    vram_bytes: int | None


class FoundHere(NamedTuple):
    """This machine as its agent found it."""

    cpus: int | None
    gpus: Sequence[FoundGpu] | None
    """`None`: the tools of the driver gave no answer."""


class FoundHost(NamedTuple):
    """A host of the user's ssh configuration, as a node."""

    name: str
    node: dict[str, object]


class FoundPartition(NamedTuple):
    """A partition of a Slurm cluster."""

    name: str
    nodes: int
    gpus: Sequence[str]
    """Its GPUs in words: `4 x h100`."""
    node: dict[str, object]
    why_not: str | None = None
    """Why no job can start there now; it stands in the file as a comment then."""
    away: int = 0
    """How many of its nodes take no jobs now."""


class FoundRay(NamedTuple):
    """A Ray cluster whose dashboard answers."""

    address: str
    version: str | None
    is_here: bool
    """Whether it is on this machine, whose devices it shares."""


class Found(NamedTuple):
    """What a first fleet file is made of."""

    here: FoundHere
    hosts: Sequence[FoundHost]
    others: Sequence[str]
    """Further hosts of the ssh configuration, by name."""
    partitions: Sequence[FoundPartition]
    shared_root: str
    """The folder that the nodes of the cluster are supposed to share."""
    ray: FoundRay | None
    ray_name: str = "ray"
    """The name of its node."""


def draft(found: Found) -> str:
    """The text of a fleet file, which `hostler check` finds good."""
    return "".join(f"{line}\n".replace(" \n", "\n") for line in _lines(found))


def _lines(found: Found) -> Iterator[str]:
    yield "# A fleet file: the machines that Hostler runs work on. Written by `hostler init`; it is yours to edit."
    yield "#"
    yield "#   hostler check FILE    what each setting is, and where it comes from"
    yield "#   hostler up FILE       start the controller"
    yield "#"
    yield "# All settings: docs/reference/settings.md"
    yield "name: fleet"
    if found.ray is not None and not found.ray.is_here:
        yield ""
        yield "dialin:"
        yield "  listen: 0.0.0.0:8767    # the pilots of the Ray cluster call here; see docs/guides/ray.md"
    if found.partitions:
        yield ""
        yield "classes:"
        yield "  cluster:"
        yield "    backend: slurm"
        yield "    slurm:"
        yield "      # A folder under the same path on every node of the cluster:"
        yield f"      shared_root: {scalar(found.shared_root)}"
    yield ""
    yield "nodes:"
    yield from _here(found.here)
    for host in found.hosts:
        yield ""
        yield f"  # The host {comment(host.name)} of your ssh configuration. Its host key: `hostler node trust FILE`"
        yield f"  - {flow(host.node)}"
    yield from _others(found)
    yield from _slurm(found)
    yield from _ray(found.ray, found.ray_name)


def _here(here: FoundHere) -> Iterator[str]:
    cpus = "an unknown number of CPUs" if here.cpus is None else "1 CPU" if here.cpus == 1 else f"{here.cpus} CPUs"
    yield f"  # This machine: {cpus}"
    if here.gpus is None:
        yield "  # Its GPUs could not be read: look at `nvidia-smi` (or `rocm-smi`), and start the controller again"
    elif not here.gpus:
        yield "  # No GPU was found"
    for gpu in here.gpus or ():
        memory = "memory unknown" if gpu.vram_bytes is None else card_memory(gpu.vram_bytes)
        yield f"  # GPU {gpu.number}: {comment(gpu.model or 'model unknown')}, {memory}"
    yield "  - name: here"
    if here.gpus:
        yield f"    # gpus: {{exclude: [{here.gpus[0].number}]}}    # keeps Hostler off a card, as that of a monitor"
        yield "    # foreign_use: share              # places work beside other people's, where the memory fits"
    if here.cpus is not None:
        yield f"    # cpu_slots: {here.cpus}                    # jobs at once on its CPUs, by default one for each"


def _others(found: Found) -> Iterator[str]:
    if not found.others:
        return
    yield ""
    shown = [comment(name) for name in found.others[:HOSTS_SHOWN]]
    more = f" and {len(found.others) - HOSTS_SHOWN} more" if len(found.others) > HOSTS_SHOWN else ""
    yield f"  # Further hosts of your ssh configuration: {', '.join(shown)}{more}"
    yield f"  # - {flow({'name': found.others[0], 'backend': 'ssh'})}"


def _slurm(found: Found) -> Iterator[str]:
    if not found.partitions:
        return
    yield ""
    yield "  # The partitions of the Slurm cluster. Check them with `hostler slurm check FILE`"
    for partition in found.partitions:
        gpus = f", {', '.join(map(comment, partition.gpus))}" if partition.gpus else ", no GPUs"
        nodes = f"{partition.nodes} node{'' if partition.nodes == 1 else 's'}"
        away = f", {partition.away} of them not usable now" if partition.away and partition.why_not is None else ""
        yield f"  # {comment(partition.name)}: {nodes}{gpus}{away}"
        if partition.why_not is None:
            yield f"  - {flow(partition.node)}"
        else:
            yield f"  # As a comment, as no job can start there now: {comment(partition.why_not)}"
            yield f"  # - {flow(partition.node)}"


def _ray(ray: FoundRay | None, name: str) -> Iterator[str]:
    if ray is None:
        return
    version = f" (Ray {comment(ray.version)})" if ray.version else ""
    yield ""
    yield f"  # The Ray cluster at {comment(ray.address)}{version}. docs/guides/ray.md has what a share of it can be"
    share = flow({"name": name, "backend": "ray", "ray": {"address": ray.address, "cpus": 1}})
    if ray.is_here:
        yield "  # It is on this machine and shares its devices with the node `here`: use one of them, or divide the"
        yield "  # devices."
        yield "  # A share of it needs `dialin: {listen: 127.0.0.1:8767}` at the top of this file"
        yield f"  # - {share}"
    else:
        yield f"  - {share}"
