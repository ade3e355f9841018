"""The catalogue of artifacts: what there is, what it was made from, where copies lie. A projection of the journal.

`note` is the whole of the writing: what each fact says of artifacts, as statements of the one transaction that makes
the fact durable. Everything else here reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection, Select, case, delete, distinct, func, null, select, update

from hostler.model import events
from hostler.model.artifacts import HUB, Artifact, ArtifactKind, Copy, Standing, Wanted
from hostler.model.events import Entry
from hostler.store.dialect import ignore_known, upsert
from hostler.store.tables import artifacts, copies, lineage

Row: TypeAlias = dict[str, Any]
SOME = 500
"""Names in one statement: databases have a limit."""


def note(connection: Connection, entries: Iterable[Entry]) -> None:
    """Write what these entries say of artifacts."""
    for entry in entries:
        noted = NOTED.get(type(entry.event))
        if noted is not None:
            noted(connection, entry, entry.event)


def by_name(connection: Connection, names: Sequence[str]) -> dict[str, Artifact]:
    """These artifacts, as far as they are known."""
    parents = _parents(connection, names)
    query = select(artifacts)
    rows = (row for some in _by_some(names) for row in connection.execute(query.where(artifacts.c.sha256.in_(some))))
    return {row.sha256: _artifact(row, parents.get(row.sha256, ())) for row in rows}


def copies_of(connection: Connection, names: Sequence[str]) -> dict[str, list[Copy]]:
    """By artifact, all that is known of its copies."""
    found: dict[str, list[Copy]] = {name: [] for name in names}
    for some in _by_some(names):
        for row in connection.execute(select(copies).where(copies.c.sha256.in_(some)).order_by(copies.c.place)):
            found[row.sha256].append(Copy(place=row.place, verified_at=row.verified_at, damaged=row.damaged))
    return found


def children_of(connection: Connection, names: Sequence[str]) -> dict[str, list[str]]:
    """By artifact, what was made from it."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for some in _by_some(names):
        for row in connection.execute(select(lineage).where(lineage.c.parent.in_(some)).order_by(lineage.c.child)):
            found[row.parent].append(row.child)
    return found


def page(
    connection: Connection,
    *,
    kind: ArtifactKind | None = None,
    config: str | None = None,
    after: str | None = None,
    limit: int,
) -> list[Artifact]:
    """Artifacts, newest first, behind the one that is called `after`. Raises `KeyError` where there is none such."""
    query = select(artifacts).order_by(artifacts.c.seq.desc(), artifacts.c.sha256).limit(limit)
    wanted: Mapping[Any, Any] = {artifacts.c.kind: kind, artifacts.c.config: config}
    for column, value in wanted.items():
        query = query if value is None else query.where(column == value)
    if after is not None:
        seq = connection.execute(select(artifacts.c.seq).where(artifacts.c.sha256 == after)).scalar()
        if seq is None:
            raise KeyError(after)
        same = (artifacts.c.seq == seq) & (artifacts.c.sha256 > after)
        query = query.where((artifacts.c.seq < seq) | same)
    rows = connection.execute(query).all()
    parents = _parents(connection, [row.sha256 for row in rows])
    return [_artifact(row, parents.get(row.sha256, ())) for row in rows]


def beginning_with(connection: Connection, prefix: str, limit: int) -> list[str]:
    """Names of artifacts that begin so."""
    query = select(artifacts.c.sha256).where(artifacts.c.sha256 >= prefix, artifacts.c.sha256 < f"{prefix}g")
    return list(connection.execute(query.order_by(artifacts.c.sha256).limit(limit)).scalars())


def unread_longest(connection: Connection, place: str, limit: int) -> list[tuple[str, float | None]]:
    """Copies in a place that were read back longest ago, and when."""
    own = copies.c.place == place
    query = select(copies.c.sha256, copies.c.verified_at).where(own, copies.c.damaged.is_(False))
    return [tuple(row) for row in connection.execute(query.order_by(copies.c.verified_at).limit(limit))]


def short_of(
    connection: Connection, standing: Standing, wanted: Wanted, domains: Mapping[str, str], since: float, limit: int
) -> list[str]:
    """Artifacts of a standing with fewer copies, or in fewer domains, than wanted; the oldest first.

    `domains` names the places that count, with the domain of each; a copy counts that was read there since `since`.
    """
    own = (
        copies.c.sha256 == artifacts.c.sha256,
        copies.c.place.in_(list(domains)),
        copies.c.damaged.is_(False),
        copies.c.verified_at >= since,
    )
    domain = case(dict(domains), value=copies.c.place) if domains else null()
    there = select(func.count()).select_from(copies).where(*own).scalar_subquery()
    apart = select(func.count(distinct(domain))).select_from(copies).where(*own).scalar_subquery()
    query: Select[Any] = select(artifacts.c.sha256).where(
        artifacts.c.standing == standing, (there < wanted.copies) | (apart < wanted.domains)
    )
    return list(connection.execute(query.order_by(artifacts.c.seq).limit(limit)).scalars())


class Worth(NamedTuple):
    """What an artifact is worth now."""

    standing: Standing
    exported: bool
    """Of games: whether a dataset was chosen from them, or the quality gate refused them."""
    games: int | None


def standings(connection: Connection, names: Sequence[str]) -> dict[str, Worth]:
    """By artifact, what it is worth now."""
    query = select(artifacts.c.sha256, artifacts.c.standing, artifacts.c.exported, artifacts.c.games)
    rows = (row for some in _by_some(names) for row in connection.execute(query.where(artifacts.c.sha256.in_(some))))
    return {row.sha256: Worth(Standing(row.standing), row.exported, row.games) for row in rows}


def _artifact(row: Any, parents: tuple[str, ...]) -> Artifact:
    return Artifact(
        sha256=row.sha256,
        kind=ArtifactKind(row.kind),
        bytes=row.bytes,
        config=row.config,
        parents=parents,
        job=row.job,
        made_at=row.made_at,
    )


def _parents(connection: Connection, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for some in _by_some(names):
        for row in connection.execute(select(lineage).where(lineage.c.child.in_(some)).order_by(lineage.c.parent)):
            found.setdefault(row.child, []).append(row.parent)
    return {child: tuple(parents) for child, parents in found.items()}


def _by_some(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), SOME):
        yield names[start : start + SOME]


def _segments(connection: Connection, entry: Entry, event: events.SegmentsMade) -> None:
    from_evaluation = event.player == "evaluation"
    kind = ArtifactKind.EVALUATION if from_evaluation else ArtifactKind.GAMES
    _, _, model = event.player.rpartition("@")
    for each in event.segments:
        row = _row(entry, kind, event, each.sha256, each.bytes, Standing.GAMES) | {"games": each.games}
        _made(connection, entry, row, {model} if len(model) == 64 else set())


def _judged(connection: Connection, entry: Entry, event: events.SegmentsJudged) -> None:
    """What the gate refused is in no dataset, and never will be."""
    refused = [each.sha256 for each in event.segments if each.refused is not None]
    _update(connection, refused, {"exported": True})


def _dataset(connection: Connection, entry: Entry, event: events.DatasetMade) -> None:
    made = event.dataset
    row = _row(entry, ArtifactKind.DATASET, event, made.sha256, made.bytes, Standing.DATASET) | {"games": made.games}
    _made(connection, entry, row, set(event.segments))
    _update(connection, event.segments, {"exported": True})


def _model(connection: Connection, entry: Entry, event: events.ModelMade) -> None:
    made = event.training
    row = _row(entry, ArtifactKind.MODEL, event, made.model.sha256, made.model.bytes, Standing.CANDIDATE)
    _made(connection, entry, row, {each for each in (made.dataset, made.base) if each is not None})


def _promoted(connection: Connection, entry: Entry, event: events.ModelPromoted) -> None:
    """The current model and the one before it are worth most; those before them were that once."""
    own = (artifacts.c.config == event.config, artifacts.c.kind == ArtifactKind.MODEL)
    was = artifacts.c.standing == Standing.MODEL
    connection.execute(update(artifacts).where(*own, was).values(standing=Standing.FORMER))
    _update(connection, [each for each in (event.model, event.over) if each is not None], {"standing": Standing.MODEL})


def _rejected(connection: Connection, entry: Entry, event: events.ModelRejected) -> None:
    _update(connection, [event.model], {"standing": Standing.FORMER})


def _rolled_back(connection: Connection, entry: Entry, event: events.ModelRolledBack) -> None:
    _update(connection, [event.model, event.was], {"standing": Standing.MODEL})


def _verified(connection: Connection, entry: Entry, event: events.CopiesVerified) -> None:
    read = {"place": event.place, "verified_at": entry.at, "damaged": False}
    upsert(connection, copies, [{"sha256": name, **read} for name in event.artifacts])


def _damaged(connection: Connection, entry: Entry, event: events.CopiesDamaged) -> None:
    read = {"place": event.place, "verified_at": None, "damaged": True}
    upsert(connection, copies, [{"sha256": name, **read} for name in event.artifacts])


def _gone(connection: Connection, entry: Entry, event: events.CopiesGone) -> None:
    for some in _by_some(event.artifacts):
        connection.execute(delete(copies).where(copies.c.place == event.place, copies.c.sha256.in_(some)))


def _place_gone(connection: Connection, entry: Entry, event: events.PlaceGone) -> None:
    connection.execute(delete(copies).where(copies.c.place == event.place))


NOTED: Mapping[type, Callable[[Connection, Entry, Any], None]] = {
    events.SegmentsMade: _segments,
    events.SegmentsJudged: _judged,
    events.DatasetMade: _dataset,
    events.ModelMade: _model,
    events.ModelPromoted: _promoted,
    events.ModelRejected: _rejected,
    events.ModelRolledBack: _rolled_back,
    events.CopiesVerified: _verified,
    events.CopiesDamaged: _damaged,
    events.CopiesGone: _gone,
    events.PlaceGone: _place_gone,
}


def _row(entry: Entry, kind: ArtifactKind, event: Any, sha256: str, size: int, standing: Standing) -> Row:
    return {
        "sha256": sha256,
        "kind": kind,
        "bytes": size,
        "config": event.config,
        "job": event.job,
        "seq": entry.seq,
        "made_at": entry.at,
        "standing": standing,
        "games": None,
        "exported": False,
    }


def _made(connection: Connection, entry: Entry, row: Row, parents: set[str]) -> None:
    """It lies in the controller's store by now: a stage's end counts only then, and its hash was read back there."""
    connection.execute(ignore_known(connection, artifacts), [row])
    if parents:
        own = [{"child": row["sha256"], "parent": parent} for parent in sorted(parents)]
        connection.execute(ignore_known(connection, lineage), own)
    upsert(connection, copies, [{"sha256": row["sha256"], "place": HUB, "verified_at": entry.at, "damaged": False}])


def _update(connection: Connection, names: Sequence[str], values: Row) -> None:
    for some in _by_some(names):
        connection.execute(update(artifacts).where(artifacts.c.sha256.in_(some)).values(**values))
