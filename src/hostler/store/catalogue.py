"""The catalogue of artifacts: what there is, what it was made from, where copies lie. A projection of the journal.

`note` is the whole of the writing: what each fact says of artifacts, as statements of the one transaction that makes
the fact durable. Everything else here reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    bindparam,
    case,
    delete,
    distinct,
    func,
    null,
    select,
    update,
)

from hostler.model import events
from hostler.model.artifacts import HUB, Artifact, ArtifactKind, Copy, Standing, Wanted
from hostler.model.events import Entry
from hostler.store.dialect import ignore_known, upsert
from hostler.store.tables import artifacts, copies, lineage

Row: TypeAlias = dict[str, Any]
SOME = 500
"""Names in one statement: databases have a limit."""
NAMES = "names"
_ANY: BindParameter[str] = bindparam(NAMES, expanding=True)
# Made once: to make one takes as long as to ask.
_KNOWN = select(artifacts).where(artifacts.c.sha256.in_(_ANY))
_WORTHS = select(artifacts.c.sha256, artifacts.c.standing, artifacts.c.exported, artifacts.c.games).where(
    artifacts.c.sha256.in_(_ANY)
)
_COPIES = select(copies).where(copies.c.sha256.in_(_ANY)).order_by(copies.c.place)
_PARENTS = select(lineage).where(lineage.c.child.in_(_ANY)).order_by(lineage.c.parent)
_CHILDREN = select(lineage).where(lineage.c.parent.in_(_ANY)).order_by(lineage.c.child)


def note(connection: Connection, entries: Iterable[Entry]) -> None:
    """Write what these entries say of artifacts."""
    for entry in entries:
        noted = NOTED.get(type(entry.event))
        if noted is not None:
            noted(connection, entry, entry.event)


def says_something(entries: Iterable[Entry]) -> bool:
    """Whether any of these says something of artifacts."""
    return any(type(entry.event) in NOTED for entry in entries)


def by_name(connection: Connection, names: Sequence[str]) -> dict[str, Artifact]:
    """These artifacts, as far as they are known."""
    parents = _parents(connection, names)
    return {row.sha256: _artifact(row, parents.get(row.sha256, ())) for row in _rows(connection, _KNOWN, names)}


def copies_of(connection: Connection, names: Sequence[str]) -> dict[str, list[Copy]]:
    """By artifact, all that is known of its copies."""
    found: dict[str, list[Copy]] = {name: [] for name in names}
    for row in _rows(connection, _COPIES, names):
        found[row.sha256].append(Copy(place=row.place, verified_at=row.verified_at, damaged=row.damaged))
    return found


def children_of(connection: Connection, names: Sequence[str]) -> dict[str, list[str]]:
    """By artifact, what was made from it."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for row in _rows(connection, _CHILDREN, names):
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
        # The first of both is what an index can begin at.
        query = query.where(artifacts.c.seq <= seq, (artifacts.c.seq < seq) | same)
    rows = connection.execute(query).all()
    parents = _parents(connection, [row.sha256 for row in rows])
    return [_artifact(row, parents.get(row.sha256, ())) for row in rows]


def beginning_with(connection: Connection, prefix: str, limit: int) -> list[str]:
    """Names of artifacts that begin so."""
    query = select(artifacts.c.sha256).where(artifacts.c.sha256 >= prefix, artifacts.c.sha256 < f"{prefix}g")
    return list(connection.execute(query.order_by(artifacts.c.sha256).limit(limit)).scalars())


class Unread(NamedTuple):
    """A copy that nobody has read back yet."""

    sha256: str
    kind: ArtifactKind
    bytes: int


def never_read(connection: Connection, place: str, limit: int) -> list[Unread]:
    """Copies in a place that were never read back since they came, those first that were made first."""
    query = (
        select(artifacts.c.sha256, artifacts.c.kind, artifacts.c.bytes)
        .join(copies, copies.c.sha256 == artifacts.c.sha256)
        .where(*_sound(place), copies.c.verified_at.is_(None))
        .order_by(artifacts.c.seq, artifacts.c.sha256)
    )
    return [Unread(name, ArtifactKind(kind), size) for name, kind, size in connection.execute(query.limit(limit))]


def unread_longest(connection: Connection, place: str, limit: int) -> list[tuple[str, float | None]]:
    """Copies in a place that were read back longest ago, and when; first those that never were."""
    found = [(each.sha256, None) for each in never_read(connection, place, limit)]
    # Asked apart: databases differ in whether the unknown comes first or last, and in what their indexes know of it.
    query = select(copies.c.sha256, copies.c.verified_at).where(*_sound(place), copies.c.verified_at.is_not(None))
    rows = connection.execute(query.order_by(copies.c.verified_at).limit(limit - len(found)))
    return [*found, *((name, at) for name, at in rows)]


class Aged(NamedTuple):
    """Copies in a place that were last read at about the same time."""

    verified_at: float
    """When the last of them was read."""
    bytes: int
    copies: int


def ages(connection: Connection, place: str, step_s: float) -> list[Aged]:
    """How much in a place was last read when, in steps of so many seconds, the oldest first.

    What never was is not in it: it does not wait for its turn among these.
    """
    step = func.floor(copies.c.verified_at / step_s)
    query = (
        select(func.max(copies.c.verified_at), func.sum(artifacts.c.bytes), func.count())
        .join(artifacts, artifacts.c.sha256 == copies.c.sha256)
        .where(*_sound(place), copies.c.verified_at.is_not(None))
        .group_by(step)
        .order_by(step)
    )
    return [Aged(at, int(size), count) for at, size, count in connection.execute(query)]


def some_in(connection: Connection, place: str, beginnings: Sequence[str]) -> list[str]:
    """Copies in a place, one behind each of these beginnings of names; all, where there are no more than these."""
    own = select(copies.c.sha256).where(copies.c.place == place, copies.c.damaged.is_(False)).order_by(copies.c.sha256)
    first = connection.execute(own.limit(len(beginnings) + 1)).scalars().all()
    if len(first) <= len(beginnings):
        return list(first)
    found = (connection.execute(own.where(copies.c.sha256 >= each).limit(1)).scalar() for each in beginnings)
    return sorted({each for each in found if each is not None})


class Holding(NamedTuple):
    """What a place holds."""

    copies: int
    only: int
    """Of these, how many artifacts have no other copy that is not damaged."""


def places(connection: Connection) -> list[str]:
    """All places that something is known of."""
    return list(connection.execute(select(copies.c.place).distinct().order_by(copies.c.place)).scalars())


def holding(connection: Connection, place: str) -> Holding:
    """What a place holds, and what nobody else does."""
    other = copies.alias()
    own = (copies.c.place == place, copies.c.damaged.is_(False))
    elsewhere = select(other.c.sha256).where(
        other.c.sha256 == copies.c.sha256, other.c.place != place, other.c.damaged.is_(False)
    )
    count = select(func.count()).select_from(copies).where(*own)
    alone = count.where(~elsewhere.exists())
    return Holding(connection.execute(count).scalar() or 0, connection.execute(alone).scalar() or 0)


def unknown_of(connection: Connection, names: Sequence[str]) -> list[str]:
    """Those of these names that no artifact has."""
    known = set[str]()
    for some in _by_some(names):
        known.update(connection.execute(select(artifacts.c.sha256).where(artifacts.c.sha256.in_(some))).scalars())
    return [each for each in names if each not in known]


def short_of(
    connection: Connection,
    standing: Standing,
    wanted: Wanted,
    domains: Mapping[str, str],
    since: float,
    limit: int,
    among: ColumnElement[bool] | None = None,
) -> list[str]:
    """Artifacts of a standing with fewer copies, or in fewer domains, than wanted; the oldest first.

    `domains` names the places that count, with the domain of each; a copy counts that was read there since `since`.
    It walks through all artifacts, or those `among` which somebody has to look (`store.settling`).
    """
    query: Select[Any] = select(artifacts.c.sha256).where(
        artifacts.c.standing == standing, lacking(wanted, domains, since)
    )
    if among is not None:
        query = query.where(among)
    return list(connection.execute(query.order_by(artifacts.c.seq, artifacts.c.sha256).limit(limit)).scalars())


def lacking(wanted: Wanted, domains: Mapping[str, str], since: float) -> ColumnElement[bool]:
    """Whether an artifact has fewer copies than wanted, or in fewer domains."""
    own = counting(domains, since)
    domain = case(dict(domains), value=copies.c.place) if domains else null()
    there = select(func.count()).select_from(copies).where(*own).scalar_subquery()
    apart = select(func.count(distinct(domain))).select_from(copies).where(*own).scalar_subquery()
    return (there < wanted.copies) | (apart < wanted.domains)


def lies_in(places: Collection[str]) -> ColumnElement[bool]:
    """Whether an artifact has a copy in any of these places that was not found damaged."""
    own = (copies.c.sha256 == artifacts.c.sha256, copies.c.place.in_(list(places)), copies.c.damaged.is_(False))
    return select(copies.c.place).where(*own).exists()


def lost(connection: Connection) -> list[str]:
    """Artifacts of which no copy is known that was not found damaged; none of them is ever marked as settled."""
    there = (copies.c.sha256 == artifacts.c.sha256, copies.c.damaged.is_(False))
    query = select(artifacts.c.sha256).where(
        artifacts.c.settled_on.is_(None), ~select(copies.c.place).where(*there).exists()
    )
    return list(connection.execute(query).scalars())


def counting(domains: Mapping[str, str], since: float) -> tuple[ColumnElement[bool], ...]:
    """Which copies of an artifact count."""
    return (
        copies.c.sha256 == artifacts.c.sha256,
        copies.c.place.in_(list(domains)),
        copies.c.damaged.is_(False),
        copies.c.verified_at >= since,
    )


def unsettle(connection: Connection, names: Sequence[str]) -> None:
    """Somebody has to look whether these have the copies that are wanted."""
    _update(connection, names, {"settled_on": None})


class Worth(NamedTuple):
    """What an artifact is worth now."""

    standing: Standing
    exported: bool
    """Of games: whether a dataset was chosen from them, or the quality gate refused them."""
    games: int | None


def standings(connection: Connection, names: Sequence[str]) -> dict[str, Worth]:
    """By artifact, what it is worth now."""
    rows = _rows(connection, _WORTHS, names)
    return {row.sha256: Worth(Standing(row.standing), row.exported, row.games) for row in rows}


def _sound(place: str) -> tuple[ColumnElement[bool], ...]:
    """Copies in a place that were not found damaged."""
    return copies.c.place == place, copies.c.damaged.is_(False)


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
    for row in _rows(connection, _PARENTS, names):
        found.setdefault(row.child, []).append(row.parent)
    return {child: tuple(parents) for child, parents in found.items()}


def _rows(connection: Connection, query: Select[Any], names: Sequence[str]) -> Iterator[Any]:
    for some in _by_some(names):
        yield from connection.execute(query, {NAMES: some})


def _by_some(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), SOME):
        yield names[start : start + SOME]


def _segments(connection: Connection, entry: Entry, event: events.SegmentsMade) -> None:
    from_evaluation = event.player == "evaluation"
    kind = ArtifactKind.EVALUATION if from_evaluation else ArtifactKind.GAMES
    _, _, model = event.player.rpartition("@")
    for each in event.segments:
        row = _row(entry, kind, event, each.sha256, each.bytes, Standing.GAMES) | {"games": each.games}
        _made(connection, entry, row, {model} if len(model) == 64 else set(), event.unread)


def _judged(connection: Connection, entry: Entry, event: events.SegmentsJudged) -> None:
    """What the gate refused is in no dataset, and never will be."""
    refused = [each.sha256 for each in event.segments if each.refused is not None]
    _update(connection, refused, {"exported": True})


def _dataset(connection: Connection, entry: Entry, event: events.DatasetMade) -> None:
    made = event.dataset
    row = _row(entry, ArtifactKind.DATASET, event, made.sha256, made.bytes, Standing.DATASET) | {"games": made.games}
    _made(connection, entry, row, set(event.segments), event.unread)
    _update(connection, event.segments, {"exported": True})


def _model(connection: Connection, entry: Entry, event: events.ModelMade) -> None:
    made = event.training
    row = _row(entry, ArtifactKind.MODEL, event, made.model.sha256, made.model.bytes, Standing.CANDIDATE)
    _made(connection, entry, row, {each for each in (made.dataset, made.base) if each is not None}, event.unread)


def _promoted(connection: Connection, entry: Entry, event: events.ModelPromoted) -> None:
    """The current model and the one before it are worth most; those before them were that once."""
    own = (artifacts.c.config == event.config, artifacts.c.kind == ArtifactKind.MODEL)
    was = artifacts.c.standing == Standing.MODEL
    connection.execute(update(artifacts).where(*own, was).values(standing=Standing.FORMER, settled_on=None))
    _stand(connection, [each for each in (event.model, event.over) if each is not None], Standing.MODEL)


def _rejected(connection: Connection, entry: Entry, event: events.ModelRejected) -> None:
    _stand(connection, [event.model], Standing.FORMER)


def _rolled_back(connection: Connection, entry: Entry, event: events.ModelRolledBack) -> None:
    _stand(connection, [event.model, event.was], Standing.MODEL)


def _verified(connection: Connection, entry: Entry, event: events.CopiesVerified) -> None:
    read = {"place": event.place, "verified_at": entry.at, "damaged": False}
    upsert(connection, copies, [{"sha256": name, **read} for name in event.artifacts])


def _damaged(connection: Connection, entry: Entry, event: events.CopiesDamaged) -> None:
    read = {"place": event.place, "verified_at": None, "damaged": True}
    upsert(connection, copies, [{"sha256": name, **read} for name in event.artifacts])
    unsettle(connection, event.artifacts)


def _gone(connection: Connection, entry: Entry, event: events.CopiesGone) -> None:
    for some in _by_some(event.artifacts):
        connection.execute(delete(copies).where(copies.c.place == event.place, copies.c.sha256.in_(some)))
    unsettle(connection, event.artifacts)


def _place_gone(connection: Connection, entry: Entry, event: events.PlaceGone) -> None:
    there = select(copies.c.sha256).where(copies.c.place == event.place)
    connection.execute(update(artifacts).where(artifacts.c.sha256.in_(there)).values(settled_on=None))
    connection.execute(delete(copies).where(copies.c.place == event.place))


def _played(connection: Connection, entry: Entry, event: events.MatchesPlayed) -> None:
    """The games that this evaluation recorded, told just before, were made by the models that played them."""
    own = (artifacts.c.config == event.config, artifacts.c.kind == ArtifactKind.EVALUATION)
    newest = select(artifacts.c.sha256, artifacts.c.job).where(*own, artifacts.c.seq <= entry.seq)
    rows = connection.execute(newest.order_by(artifacts.c.seq.desc()).limit(SOME)).all()
    players = {name.rpartition("@")[2] for match in event.matches for name in (match.a, match.b)}
    models = by_name(connection, sorted(each for each in players if len(each) == 64))
    pairs = [{"child": row.sha256, "parent": each} for row in rows if row.job == event.job for each in sorted(models)]
    if pairs:
        connection.execute(ignore_known(connection, lineage), pairs)


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
    events.MatchesPlayed: _played,
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


def _made(connection: Connection, entry: Entry, row: Row, parents: set[str], unread: bool) -> None:
    """It lies in the controller's store by now, as far as anybody has said: whoever reads it there tells so.

    One that is made again may have been written again; it is looked at anew.
    """
    is_new = connection.execute(ignore_known(connection, artifacts), row).rowcount
    if parents:
        own = [{"child": row["sha256"], "parent": parent} for parent in sorted(parents)]
        connection.execute(ignore_known(connection, lineage), own)
    read_at = None if unread else entry.at
    upsert(connection, copies, [{"sha256": row["sha256"], "place": HUB, "verified_at": read_at, "damaged": False}])
    if unread and not is_new:
        unsettle(connection, [row["sha256"]])


def _update(connection: Connection, names: Sequence[str], values: Row) -> None:
    for some in _by_some(names):
        connection.execute(update(artifacts).where(artifacts.c.sha256.in_(some)).values(**values))


def _stand(connection: Connection, names: Sequence[str], standing: Standing) -> None:
    """Something else is wanted of them from now on."""
    _update(connection, names, {"standing": standing, "settled_on": None})
