"""The places where artifacts lie: the controller's own store, and those of the fleet file; which of them answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from hostler.model.artifacts import HUB, Place, StoreSpec
from hostler.model.errors import FilesError, LinkError
from hostler.runtime.clock import Clock
from hostler.runtime.pacing import Bandwidth
from hostler.stores.base import Store
from hostler.stores.bucket import BucketStore
from hostler.stores.directory import DirectoryStore
from hostler.stores.remote import RemoteStore

RESTS_S = (5.0, 15.0, 60.0, 300.0, 600.0)
"""How long a store that does not answer is left alone, after so many failures in a row."""
FULL_S = 60.0
"""How long nothing is put into a store that had no room."""


@dataclass
class Located:
    """A place, and the way to it."""

    store: Store
    domain: str
    bandwidth: Bandwidth
    keeps: bool = True
    reserve_bytes: int = 0
    """What is left free there."""
    failures: int = 0
    """In a row."""
    away_until: float = 0.0
    full_until: float = 0.0
    trouble: str | None = None
    """What it said last, while that counts."""
    free_bytes: int | None = field(default=None)


Places: TypeAlias = Mapping[str, Located]


def located(specs: Iterable[StoreSpec], own: Path, domain: str) -> dict[str, Located]:
    """The store in the state directory, below `own`, and those of the fleet file. Raises `UsageError`."""
    hub = Located(store=DirectoryStore(own), domain=domain, bandwidth=Bandwidth(None))
    others = {
        each.name: Located(
            store=_store(each),
            domain=each.domain,
            bandwidth=Bandwidth(each.bytes_per_s),
            reserve_bytes=each.reserve_bytes,
        )
        for each in specs
    }
    return {HUB: hub, **others}


def seen(places: Places, now: float) -> dict[str, Place]:
    """The places, as decisions are made about them."""
    return {
        name: Place(
            name=name,
            domain=each.domain,
            keeps=each.keeps,
            takes=now >= each.full_until,
            reachable=now >= each.away_until,
            free_bytes=None if each.free_bytes is None else max(each.free_bytes - each.reserve_bytes, 0),
        )
        for name, each in places.items()
    }


def look(located: Located, clock: Clock) -> None:
    """Ask a place for its room; waits, so it belongs into a thread."""
    try:
        located.free_bytes = located.store.free_bytes()
    except (LinkError, FilesError) as error:
        failed(located, error, clock.now())
    except OSError as error:
        failed(located, FilesError(f"its room is unknown: {error}"), clock.now())


def failed(located: Located, error: LinkError | FilesError, now: float) -> None:
    """Leave it alone for a while: the longer, the oftener it failed in a row."""
    located.trouble = str(error)
    if isinstance(error, LinkError):
        located.away_until = now + RESTS_S[min(located.failures, len(RESTS_S) - 1)]
        located.failures += 1
    else:
        located.full_until = now + FULL_S


def answered(located: Located) -> None:
    """It did what it was asked for."""
    located.failures, located.away_until, located.full_until, located.trouble = 0, 0.0, 0.0, None


def _store(spec: StoreSpec) -> Store:
    if spec.kind == "directory":
        return DirectoryStore(Path(spec.root))
    if spec.kind == "rclone":
        return RemoteStore(spec.root, config=None if spec.config is None else Path(spec.config))
    return BucketStore(spec.root, prefix=spec.prefix, endpoint=spec.endpoint, region=spec.region, profile=spec.profile)
