"""The places where artifacts lie: the controller's own store, and those of the fleet file; which of them answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from hostler.backends.base import Backend, KeepsShelves
from hostler.model.artifacts import HUB, Place, StoreSpec
from hostler.model.errors import FilesError, LinkError, LinkRefused, UsageError
from hostler.runtime.clock import Clock
from hostler.runtime.pacing import Bandwidth
from hostler.runtime.shelf import ShelfStore
from hostler.snapshots.reserve import RESERVE
from hostler.stores.base import LABEL, Damaged, Missing, ObjectName, Store, at_once
from hostler.stores.bucket import BucketStore
from hostler.stores.directory import DirectoryStore
from hostler.stores.remote import RemoteStore

RESTS_S = (5.0, 15.0, 60.0, 300.0, 600.0)
"""How long a store that does not answer is left alone, after so many failures in a row."""
FULL_S = 60.0
"""How long nothing is put into a store that had no room."""
AWAY_S = 86_400.0

Known: TypeAlias = Callable[[], Sequence[ObjectName]]
"""Some of what is believed to lie in a place."""
Absences: TypeAlias = dict[str, dict[str, float | bool | None]]


@dataclass
class Located:
    """A place, and the way to it."""

    store: Store
    domain: str
    bandwidth: Bandwidth
    keeps: bool = True
    reserve_bytes: int = 0
    """What is left free there."""
    node: str | None = None
    """The node whose disk it is on, if it is one of the fleet's."""
    label: str | None = None
    """What it has to say that it is; `None`: it is not asked."""
    away_s: float = AWAY_S
    """After how long nothing counts that it is said to hold."""
    failures: int = 0
    """In a row."""
    refused: bool = False
    """It said that it is another one, or said no: nothing is put there until it was asked who it is, and was right."""
    away_until: float = 0.0
    away_since: float | None = None
    """Since when it does not answer; `None`: it does, or was not asked yet."""
    suspect: bool = False
    """Whether it was away for so long that nothing there counts before a sample was read."""
    full_until: float = 0.0
    trouble: str | None = None
    """What it said last, while that counts."""
    free_bytes: int | None = field(default=None)


Places: TypeAlias = Mapping[str, Located]


def located(
    specs: Iterable[StoreSpec],
    own: Path,
    domain: str,
    *,
    fleet: str | None = None,
    nodes: Mapping[str, Backend] | None = None,
    away_s: float = AWAY_S,
) -> dict[str, Located]:
    """The store in the state directory, below `own`, and those of the fleet file. Raises `UsageError`.

    `fleet` is whose they are, which they have to say from their first use on; `nodes` are those that stores may be on.
    """
    hub = Located(store=DirectoryStore(own), domain=domain, bandwidth=Bandwidth(None), reserve_bytes=RESERVE.bytes)
    others = {
        each.name: Located(
            store=_store(each, nodes or {}),
            domain=each.domain,
            bandwidth=Bandwidth(each.bytes_per_s),
            reserve_bytes=each.reserve_bytes,
            away_s=away_s,
            node=each.node,
        )
        for each in specs
    }
    if fleet is not None:
        hub.label = label(None, HUB)  # it moves with its state directory, and fleets may be called otherwise one day
        for name, each in others.items():
            each.label = label(fleet, name)
    return {HUB: hub, **others}


def label(fleet: str | None, store: str) -> str:
    """What the file at the root of a store says."""
    return json.dumps({"fleet": fleet, "store": store}) + "\n"


def seen(places: Places, now: float) -> dict[str, Place]:
    """The places, as decisions are made about them."""
    return {
        name: Place(
            name=name,
            domain=each.domain,
            keeps=counts(each, now),
            takes=now >= each.full_until,
            reachable=now >= each.away_until and not each.refused,
            free_bytes=None if each.free_bytes is None else max(each.free_bytes - each.reserve_bytes, 0),
            node=each.node,
        )
        for name, each in places.items()
    }


def counts(located: Located, now: float) -> bool:
    """Whether what it is said to hold counts: not on a place that was away for too long."""
    return located.keeps and not located.suspect and not _is_lost(located, now)


def look(located: Located, clock: Clock, known: Known) -> None:
    """Ask a place who it is, and for its room; waits, so it belongs into a thread."""
    try:
        recognise(located, known)
        located.free_bytes = located.store.free_bytes()
    except (LinkError, FilesError) as error:
        failed(located, error, clock.now())
    except OSError as error:
        failed(located, FilesError(f"its room is unknown: {error}"), clock.now())
    else:
        if located.away_since is not None and clock.now() >= located.away_until:
            answered(located, clock.now())


def recognise(located: Located, known: Known) -> None:
    """Raise `LinkRefused` where what answers is not the store, but an empty mount point or somebody else's.

    A store that was not told who it is, is told now, if nothing is believed to lie there, or something of that does.
    """
    if located.label is None or (said := located.store.read_label()) == located.label:
        return
    if said is not None:
        raise LinkRefused(
            f"it says in {LABEL} that it is {said.strip()}, and not {located.label.strip()}: give each store of each "
            "fleet a folder of its own; if it is this one under another name, correct that file"
        )
    believed = known()
    if believed and not any(_has(located, each) for each in believed):
        raise LinkRefused(
            f"it answers, and has neither {LABEL} nor anything of what it should hold: is what it lies on mounted? If "
            "all of it is lost, take the store out of the fleet file; an empty one may come there under another name"
        )
    located.store.write_label(located.label)


def failed(located: Located, error: LinkError | FilesError, now: float) -> None:
    """Leave it alone for a while: the longer, the oftener it failed in a row."""
    located.trouble = str(error)
    located.refused = located.refused or isinstance(error, LinkRefused)
    if isinstance(error, LinkError):
        located.away_until = now + RESTS_S[min(located.failures, len(RESTS_S) - 1)]
        located.failures += 1
        if located.away_since is None:
            located.away_since = now
    else:
        located.full_until = now + FULL_S


def forgets(name: ObjectName) -> str:
    """What is wrong with the place where what came is not what is read afterwards."""
    return f"what was written of {name.path} is not what is read: its disk is failing"


def answered(located: Located, now: float, *, took: bool = False) -> None:
    """It did what it was asked for. If it was away for long, nothing there counts yet.

    That something can be read there says nothing of room; that it `took` a file does.
    """
    located.suspect = located.suspect or _is_lost(located, now)
    located.failures, located.away_until, located.away_since, located.refused = 0, 0.0, None, False
    if took or now >= located.full_until:
        located.full_until, located.trouble = 0.0, None


def troubles(places: Places, now: float, after_s: float) -> list[str]:
    """What people should know of places that do not answer for longer than that."""
    return [
        f"store {name}: {each.trouble or 'it does not answer'}{_loss(each, now)}"
        for name, each in places.items()
        if each.away_since is not None and now - each.away_since >= after_s
    ] + [
        f"store {name} was away for long: nothing there counts before a sample of it was read and was right"
        for name, each in places.items()
        if each.suspect and each.away_since is None
    ]


def absences(places: Places) -> Absences:
    """Who is away since when, to be kept over a restart."""
    return {
        name: {"since": each.away_since, "suspect": each.suspect}
        for name, each in places.items()
        if each.away_since is not None or each.suspect
    }


def recall(places: Places, told: Absences) -> None:
    """Go on from what was kept."""
    for name, each in told.items():
        if name in places:
            since = each.get("since")
            places[name].away_since = None if since is None else float(since)
            places[name].suspect = bool(each.get("suspect"))


def _is_lost(located: Located, now: float) -> bool:
    return located.away_since is not None and now - located.away_since >= located.away_s


def _loss(located: Located, now: float) -> str:
    if not _is_lost(located, now):
        return ""
    return f" (for more than {located.away_s / 3600:.3g} h: nothing there counts, and is copied elsewhere)"


def _has(located: Located, name: ObjectName) -> bool:
    try:
        located.store.check(name, at_once)
    except (Missing, Damaged):
        return False
    return True


def _store(spec: StoreSpec, nodes: Mapping[str, Backend]) -> Store:
    if spec.kind == "directory":
        return DirectoryStore(Path(spec.root))
    if spec.kind == "rclone":
        return RemoteStore(spec.root, config=None if spec.config is None else Path(spec.config))
    if spec.kind == "node":
        return _on_node(spec, nodes)
    return BucketStore(spec.root, prefix=spec.prefix, endpoint=spec.endpoint, region=spec.region, profile=spec.profile)


def _on_node(spec: StoreSpec, nodes: Mapping[str, Backend]) -> Store:
    """A node on this machine has its disks."""
    node = nodes.get(spec.node or "")
    if node is not None and node.kind == "local":
        return DirectoryStore(Path(spec.root))
    if not isinstance(node, KeepsShelves):
        raise UsageError(f"the store {spec.name} is on the node {spec.node}, on which no files can be kept")
    return ShelfStore(node.shelf, spec.root, f"on {spec.node}")
