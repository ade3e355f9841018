"""Facts about nodes and devices; the events of the fleet, apart only because there are many."""

from __future__ import annotations

from typing import Literal

from hostler.model.fleet import NodeSpec
from hostler.model.record import record


@record
class NodeJoined:
    """A node is part of the fleet, with these devices; a later one of the same name replaces it."""

    kind: Literal["node.joined"] = "node.joined"
    node: NodeSpec


@record
class NodeLinked:
    """The controller reached the node's agent, which holds these attempts and chunks."""

    kind: Literal["node.linked"] = "node.linked"
    node: str
    agent: str
    incarnation: int
    boot: str | None
    attempts: tuple[str, ...]
    chunks: tuple[str, ...]


@record
class NodeUnreachable:
    """The link to the node broke. What runs there runs on, for all we know."""

    kind: Literal["node.unreachable"] = "node.unreachable"
    node: str
    why: str


@record
class NodeCordoned:
    """Somebody wants nothing new put on the node; said again where more than that is wanted, or for another reason."""

    kind: Literal["node.cordoned"] = "node.cordoned"
    node: str
    why: str | None
    who: str | None
    drain: bool
    """Whether it is to be told when nothing is left on it."""
    now: bool
    """Whether what runs there was asked to go."""


@record
class NodeDrained:
    """Nothing is left on a node that is being drained."""

    kind: Literal["node.drained"] = "node.drained"
    node: str


@record
class NodeResumed:
    """Somebody wants work put on the node again."""

    kind: Literal["node.resumed"] = "node.resumed"
    node: str
    who: str | None


@record
class DeviceInUse:
    """Others use a device, by a reading of its memory and processes."""

    kind: Literal["device.in_use"] = "device.in_use"
    device: str
    use: Literal["others", "leftover"]
    """`leftover`: processes of an attempt that has ended."""
    who: str
    vram_gb: float | None


@record
class DeviceFreed:
    """Others do not use a device any more."""

    kind: Literal["device.freed"] = "device.freed"
    device: str


@record
class DeviceCordoned:
    """A person wants nothing new put on a device; recorded again for another reason or end, or for a drain."""

    kind: Literal["device.cordoned"] = "device.cordoned"
    device: str
    why: str | None
    who: str | None
    drain: bool
    """Whether it is recorded when nothing is left on it."""
    until: float | None
    """When the cordon expires; `None`: not before it is ended."""


@record
class DeviceDrained:
    """Nothing is left on a device that is being drained."""

    kind: Literal["device.drained"] = "device.drained"
    device: str


@record
class DeviceResumed:
    """The cordon of a device is over: a person has ended it, or it has expired."""

    kind: Literal["device.resumed"] = "device.resumed"
    device: str
    who: str | None
    expired: bool


@record
class EnvironmentHeld:
    """Decision: the build of a Python environment failed on a node, and it is not built there again until then."""

    kind: Literal["environment.held"] = "environment.held"
    node: str
    environment: str
    """The digest of the file that states it, or that of a snapshot with the path of the file in it."""
    file: str
    job: str
    """Whose attempt it was built for; `hostler retry` of it ends the hold."""
    why: str
    until: float


@record
class DeviceQuarantined:
    """Decision: the device is not trusted: it is given nothing until then, and then one job at a time, as a probe."""

    kind: Literal["device.quarantined"] = "device.quarantined"
    device: str
    why: str
    until: float
    strikes: int
    """How often in a row it has been quarantined, this time included."""


@record
class DeviceTrusted:
    """Decision: the quarantined device has done what it was given, and is as good as any other again."""

    kind: Literal["device.trusted"] = "device.trusted"
    device: str
    why: str
    bans: int = 0
    """How often in a row it was quarantined, if that still counts: until work has succeeded on it."""


@record
class DeviceProved:
    """The canary of a device gave the right answer; or it did not, which keeps all work off it until one does."""

    kind: Literal["device.proved"] = "device.proved"
    device: str
    ok: bool
    why: str | None = None
    seconds: float | None = None
    """How long it took; `None`: it never ran."""
    again_at: float | None = None
    """When it is proved again after a failure."""
