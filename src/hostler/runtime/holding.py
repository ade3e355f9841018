"""Which of the artifacts that a journal names are there, as the places themselves list them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import select

from hostler.model.artifacts import HUB, SUFFIXES, ArtifactKind, StoreSpec
from hostler.model.errors import FilesError, LinkError, UsageError
from hostler.model.record import record
from hostler.runtime.places import Places, located
from hostler.runtime.statedir import StateDir
from hostler.settings import Loaded, load, store_specs
from hostler.store import Journal, tables
from hostler.stores.base import Damaged, ObjectName, at_once

HERE = "here"
NAMES = 500
"""Artifacts in one fact."""


@record
class Holdings:
    """What the places hold, by their lists; nothing was read."""

    listed: Mapping[str, Mapping[str, int]]
    """By place, the bytes of what it has, by SHA-256."""
    silent: Mapping[str, str]
    """Places that did not say, and why."""

    def places_of(self, sha256: str, size: int) -> list[str]:
        """Who has it, all of it."""
        return [place for place, there in self.listed.items() if there.get(sha256) == size]


@record
class Named:
    """An artifact that a journal names."""

    name: ObjectName
    bytes: int
    config: str | None
    kind: ArtifactKind


def places_of(kept: StateDir, own: Path, environ: Mapping[str, str]) -> tuple[Places, Mapping[str, str]]:
    """The controller's own store, and those of the fleet file that a state directory keeps; what is wrong with that."""
    if not kept.fleet_file.exists():
        return located((), own, HERE), {}
    try:
        loaded, before = load(kept.fleet_file, environ), kept.fleet_path()
        # Its relative paths start from where it was.
        asked = loaded if before is None else replace(loaded, base_dir=Path(before).parent)
        specs = store_specs(asked)
    except UsageError as error:
        return located((), own, HERE), {"the stores of its fleet file": str(error)}
    local = frozenset(node.name for node in loaded.fleet.nodes if node.backend == "local")
    return _each_located(specs, own, loaded.fleet.replication.domain, local)


def stores_from_here(loaded: Loaded) -> tuple[Places, Mapping[str, str]]:
    """The stores of a fleet file that can be asked without a controller, and why others cannot."""
    local = frozenset(node.name for node in loaded.fleet.nodes if node.backend == "local")
    places, faults = _each_located(store_specs(loaded), loaded.state_dir, HERE, local)
    return {name: place for name, place in places.items() if name != HUB}, faults


def look_around(places: Places) -> Holdings:
    """Ask every place for its list."""
    listed: dict[str, Mapping[str, int]] = {}
    silent: dict[str, str] = {}
    for place, there in places.items():
        try:
            listed[place] = {each.name.sha256: each.bytes for each in there.store.listed()}
        except (LinkError, FilesError, OSError) as error:
            silent[place] = str(error)
    return Holdings(listed=listed, silent=silent)


def named(journal: Journal) -> Iterator[Named]:
    """Every artifact of the index."""
    table = tables.artifacts
    query = select(table.c.sha256, table.c.kind, table.c.bytes, table.c.config).order_by(table.c.seq, table.c.sha256)
    with journal.catalogue() as connection:
        rows = connection.execute(query).all()
    for row in rows:
        kind = ArtifactKind(row.kind)
        yield Named(name=ObjectName(row.sha256, SUFFIXES[kind]), bytes=row.bytes, config=row.config, kind=kind)


def nowhere(journal: Journal, held: Holdings) -> list[Named]:
    """Artifacts of the index that no place lists."""
    return [each for each in named(journal) if not held.places_of(each.name.sha256, each.bytes)]


def lacking(journal: Journal, held: Holdings) -> list[Named]:
    """Artifacts that the index has in the controller's own store, and that are not there."""
    there, table = held.listed.get(HUB, {}), tables.copies
    with journal.catalogue() as connection:
        kept = set(connection.execute(select(table.c.sha256).where(table.c.place == HUB)).scalars())
    return [each for each in named(journal) if each.name.sha256 in kept and there.get(each.name.sha256) != each.bytes]


def fetch(
    missing: Sequence[Named], places: Places, held: Holdings, root: Path, tell: Callable[[str], None]
) -> list[Named]:
    """Bring them below `root`, the controller's own store, from whoever has them; answers those that did not come."""
    left = []
    for each in missing:
        others = [place for place in held.places_of(each.name.sha256, each.bytes) if place != HUB]
        if not any(_came(each, place, places, root, tell) for place in others):
            left.append(each)
    return left


def some_names(missing: Sequence[Named]) -> Iterator[tuple[str, ...]]:
    """Their names, so many at a time."""
    for start in range(0, len(missing), NAMES):
        yield tuple(each.name.sha256 for each in missing[start : start + NAMES])


def _each_located(
    specs: Iterable[StoreSpec], own: Path, domain: str, local: Collection[str]
) -> tuple[Places, Mapping[str, str]]:
    """One that cannot be used from here keeps no other from being asked."""
    found, faults = located((), own, domain), dict[str, str]()
    for each in specs:
        try:
            found |= located([_as_seen_from_here(each, local)], own, domain)
        except UsageError as error:
            faults[each.name] = str(error)
    return found, faults


def _as_seen_from_here(spec: StoreSpec, local: Collection[str]) -> StoreSpec:
    """A folder of a node on this machine is one of this machine. Raises `UsageError` for one of another node."""
    if spec.kind != "node":
        return spec
    if spec.node not in local:
        raise UsageError(
            f"it is on the node {spec.node}, which only a running controller can ask; what it alone has comes by "
            "`hostler artifact get` from that"
        )
    return replace(spec, kind="directory")


def _came(wanted: Named, place: str, places: Places, root: Path, tell: Callable[[str], None]) -> bool:
    try:
        places[place].store.get(wanted.name, root / wanted.name.path, at_once)
        return _is_right_here(wanted, places, tell)
    except (LinkError, FilesError, OSError) as error:
        tell(f"{wanted.name.path} does not come from {place}: {error}")
        return False


def _is_right_here(wanted: Named, places: Places, tell: Callable[[str], None]) -> bool:
    """Read back what came: the index says of the copy here that it was read."""
    own = places[HUB].store
    try:
        own.check(wanted.name, at_once)
    except Damaged as error:
        own.set_aside(wanted.name)
        tell(f"{wanted.name.path} has come, and is not what is read here: {error}")
        return False
    return True
