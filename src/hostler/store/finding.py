"""What is asked of the catalogue by people: lists page by page, lineages, sums. Each question is bounded.

A page looks at `LOOKED` artifacts at most, however few of them are asked for: it may come short, or empty, and leads to
where the next one goes on. No question about one artifact walks all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    distinct,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    true,
)

from hostler.model.artifact_views import Sought
from hostler.model.artifacts import ArtifactKind, Standing, Wanted
from hostler.store.tables import artifacts, copies, lineage

LOOKED = 2_000
"""Artifacts that one page looks at; those of its last entry of the journal all together."""
COUNTED = 1_000
"""Parents and children are counted up to here."""

EVERY = 1 << 62
"""More artifacts than there are."""

KIND_OF: Mapping[Standing, ArtifactKind] = {
    Standing.DATASET: ArtifactKind.DATASET,
    Standing.MODEL: ArtifactKind.MODEL,
    Standing.CANDIDATE: ArtifactKind.MODEL,
    Standing.FORMER: ArtifactKind.MODEL,
}
"""What all artifacts of a standing are; games of both kinds have one."""
FEW = (ArtifactKind.MODEL, ArtifactKind.DATASET)
"""Kinds of which there are few, told before the many games of the same parent."""


class Row(NamedTuple):
    """An artifact as it lies in the catalogue, without its parents: of a dataset these may be thousands."""

    sha256: str
    kind: ArtifactKind
    bytes: int
    config: str | None
    job: str | None
    made_at: float
    standing: Standing
    games: int | None
    exported: bool


class Rules(NamedTuple):
    """What counts, and how much of it is wanted."""

    wanted: Mapping[Standing, Wanted]
    domains: Mapping[str, str]
    """The places that count, with the domain of each."""
    since: float
    """Copies that were read before then count no more."""


class Sum(NamedTuple):
    """All artifacts of a kind and standing."""

    kind: ArtifactKind
    standing: Standing
    artifacts: int
    bytes: int
    copies: int
    short: int
    at_risk: int


def page(
    connection: Connection, sought: Sought, rules: Rules, after: str | None, limit: int
) -> tuple[list[Row], str | None]:
    """Artifacts, newest first, behind the one that is called `after`; and the one that the next page begins behind.

    `None` for that on the last page. Raises `KeyError` where `after` is unknown.
    """
    walk = _in_order(sought, _behind(connection, after))
    rest = _rest(sought, rules)
    if rest is None:
        rows = [_row(each) for each in connection.execute(walk.limit(limit + 1))]
        return rows[:limit], rows[limit - 1].sha256 if len(rows) > limit else None
    far = walk.with_only_columns(artifacts.c.seq).order_by(None).order_by(artifacts.c.seq.desc())
    end = connection.execute(far.offset(LOOKED - 1).limit(1)).scalar()
    near = walk if end is None else walk.where(artifacts.c.seq >= end)
    rows = [_row(each) for each in connection.execute(near.where(rest).limit(limit + 1))]
    if len(rows) > limit:
        return rows[:limit], rows[limit - 1].sha256
    if end is None:
        return rows, None
    last = walk.with_only_columns(func.max(artifacts.c.sha256)).order_by(None).where(artifacts.c.seq == end)
    return rows, connection.execute(last).scalar()


def rows(connection: Connection, names: Sequence[str]) -> dict[str, Row]:
    """These artifacts, as far as they are known; as many as a statement may name."""
    found = connection.execute(select(artifacts).where(artifacts.c.sha256.in_(names)))
    return {each.sha256: _row(each) for each in found}


def parents(connection: Connection, name: str, limit: int) -> list[str]:
    """What an artifact was made from."""
    query = select(lineage.c.parent).where(lineage.c.child == name).order_by(lineage.c.parent)
    return list(connection.execute(query.limit(limit)).scalars())


def children(connection: Connection, name: str, config: str | None, limit: int) -> list[str]:
    """What was made from an artifact; where that is more than `limit`, models and datasets of its config first."""
    query = select(lineage.c.child).where(lineage.c.parent == name).order_by(lineage.c.child)
    some = list(connection.execute(query.limit(limit)).scalars())
    if len(some) < limit:
        return some
    # A model has many games, but its config has few models.
    own = exists().where(lineage.c.child == artifacts.c.sha256, lineage.c.parent == name)
    few = select(artifacts.c.sha256).where(artifacts.c.config == config, own).order_by(artifacts.c.seq).limit(limit)
    first = (each for kind in FEW for each in connection.execute(few.where(artifacts.c.kind == kind)).scalars())
    return list(dict.fromkeys([*first, *some]))[:limit]


def count_parents(connection: Connection, name: str) -> int:
    """How many there are, up to `COUNTED`."""
    return _count(connection, select(literal(1)).select_from(lineage).where(lineage.c.child == name))


def count_children(connection: Connection, name: str) -> int:
    """How many there are, up to `COUNTED`."""
    return _count(connection, select(literal(1)).select_from(lineage).where(lineage.c.parent == name))


def sums(connection: Connection, rules: Rules) -> list[Sum]:
    """All artifacts in numbers. It walks all of them, and is for whoever does so now and then, in a thread."""
    there, apart = _there(rules), _apart(rules)
    one = select(artifacts.c.kind, artifacts.c.standing, artifacts.c.bytes, there.label("there"), apart.label("apart"))
    # With a limit it is one thing: otherwise copies would be counted anew wherever their number is asked for.
    each = one.limit(EVERY).subquery("each")
    short = or_(*(_lacks(each.c.standing, each.c.there, each.c.apart, standing, rules) for standing in rules.wanted))
    query = select(
        each.c.kind,
        each.c.standing,
        func.count(),
        func.sum(each.c.bytes),
        func.sum(each.c.there),
        func.sum(case((short, 1), else_=0)),
        func.sum(case((each.c.there == 0, 1), else_=0)),
    ).group_by(each.c.kind, each.c.standing)
    found = connection.execute(query.order_by(each.c.kind, each.c.standing)).all()
    return [Sum(ArtifactKind(kind), Standing(standing), *map(int, numbers)) for kind, standing, *numbers in found]


def sums_of_places(connection: Connection) -> dict[str, tuple[int, int]]:
    """By place, how many copies are noted there, and how many of these are damaged. It walks all copies."""
    query = select(copies.c.place, func.count(), func.sum(case((copies.c.damaged, 1), else_=0)))
    return {place: (count, damaged) for place, count, damaged in connection.execute(query.group_by(copies.c.place))}


def _in_order(sought: Sought, behind: ColumnElement[bool]) -> Select[Any]:
    """The walk, by an index that has its order: newest first."""
    kind = sought.kind or (None if sought.standing is None else KIND_OF.get(sought.standing))
    query = select(artifacts).where(behind).order_by(artifacts.c.seq.desc(), artifacts.c.sha256)
    query = query if kind is None else query.where(artifacts.c.kind == kind)
    return query if sought.config is None else query.where(artifacts.c.config == sought.config)


def _behind(connection: Connection, after: str | None) -> ColumnElement[bool]:
    if after is None:
        return true()
    seq = connection.execute(select(artifacts.c.seq).where(artifacts.c.sha256 == after)).scalar()
    if seq is None:
        raise KeyError(after)
    # The first half is what an index can be entered by.
    return and_(artifacts.c.seq <= seq, or_(artifacts.c.seq < seq, artifacts.c.sha256 > after))


def _rest(sought: Sought, rules: Rules) -> ColumnElement[bool] | None:
    """What no index knows; `None`: nothing."""
    parts: list[ColumnElement[bool]] = []
    if sought.standing is not None:
        parts.append(artifacts.c.standing == sought.standing)
    if sought.place is not None:
        parts.append(exists().where(copies.c.sha256 == artifacts.c.sha256, copies.c.place == sought.place))
    if sought.short:
        there, apart = _there(rules), _apart(rules)
        parts.append(or_(*(_lacks(artifacts.c.standing, there, apart, each, rules) for each in rules.wanted)))
    return and_(*parts) if parts else None


def _lacks(own: Any, there: Any, apart: Any, standing: Standing, rules: Rules) -> ColumnElement[bool]:
    wanted = rules.wanted[standing]
    if _is_each_apart(rules):
        return and_(own == standing, there < max(wanted.copies, wanted.domains))
    return and_(own == standing, or_(there < wanted.copies, apart < wanted.domains))


def _is_each_apart(rules: Rules) -> bool:
    """Whether each place is in a domain of its own."""
    return len(set(rules.domains.values())) == len(rules.domains)


def _there(rules: Rules) -> Any:
    """How many copies of it count."""
    return select(func.count()).select_from(copies).where(*_counting(rules)).scalar_subquery()


def _apart(rules: Rules) -> Any:
    """How many domains they are in; nobody asks where each place has one of its own."""
    if _is_each_apart(rules):
        return null()
    domain = case(dict(rules.domains), value=copies.c.place)
    return select(func.count(distinct(domain))).select_from(copies).where(*_counting(rules)).scalar_subquery()


def _counting(rules: Rules) -> tuple[ColumnElement[bool], ...]:
    return (
        copies.c.sha256 == artifacts.c.sha256,
        copies.c.place.in_(list(rules.domains)),
        copies.c.damaged.is_(False),
        copies.c.verified_at >= rules.since,
    )


def _count(connection: Connection, query: Select[Any]) -> int:
    some = query.limit(COUNTED).subquery()
    return connection.execute(select(func.count()).select_from(some)).scalar() or 0


def _row(row: Any) -> Row:
    return Row(
        sha256=row.sha256,
        kind=ArtifactKind(row.kind),
        bytes=row.bytes,
        config=row.config,
        job=row.job,
        made_at=row.made_at,
        standing=Standing(row.standing),
        games=row.games,
        exported=row.exported,
    )
