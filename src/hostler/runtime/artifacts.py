"""Artifacts for people: what there is, where copies lie, what came of what. Everything is asked in threads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from hostler.model.artifact_views import ArtifactDetail, ArtifactView, CopyView, Kin, LineageView, Sought
from hostler.model.artifacts import Copy, ReplicationRules
from hostler.model.errors import NotFound, UsageError
from hostler.model.events import JobDone
from hostler.policy import replication
from hostler.policy.replication import Held
from hostler.runtime import places
from hostler.runtime.clock import Clock
from hostler.runtime.places import Places
from hostler.runtime.replicating import possible
from hostler.store import Journal, catalogue, finding
from hostler.store.finding import Row, Rules

BEGINNING = re.compile(r"[0-9a-f]{1,64}")
CANDIDATES = 8
"""So many names are told where a beginning is one of several."""
SHORT = 16
KIN_TOLD = 100
"""Parents and children of an artifact that are told with it."""
ABREAST = 12
"""Parents (children) of one artifact that are told in a lineage, at most: a dataset is made from thousands."""


class Placed(NamedTuple):
    """The places and the rules, at one moment."""

    located: Places
    rules: ReplicationRules
    at: float

    def counting(self) -> Rules:
        """What counts, for the catalogue: as much of what is wanted as the places there are could hold."""
        domains = {name: each.domain for name, each in self.located.items() if places.counts(each, self.at)}
        wanted = {standing: possible(each, domains) for standing, each in self.rules.wanted.items()}
        return Rules(wanted, domains, self.at - self.rules.verified_within_s)


class Artifacts:
    """The catalogue as people see it. Names are SHA-256s, or beginnings of them that no other has."""

    def __init__(self, journal: Journal, located: Places, rules: ReplicationRules, clock: Clock) -> None:
        self._journal = journal
        self._located = located
        self._rules = rules
        self._clock = clock

    async def page(self, sought: Sought, after: str | None, limit: int) -> tuple[Sequence[ArtifactView], str | None]:
        """As `Desk.artifacts`."""
        return await asyncio.to_thread(self._page, sought, after, limit)

    async def view(self, name: str) -> ArtifactView:
        """One artifact with its copies."""
        return await asyncio.to_thread(self._view, name)

    async def detail(self, name: str) -> ArtifactDetail:
        """As `Desk.artifact`."""
        return await asyncio.to_thread(self._detail, name)

    async def lineage(self, name: str, depth: int, limit: int) -> LineageView:
        """As `Desk.lineage`."""
        return await asyncio.to_thread(self._lineage, name, depth, limit)

    def _now(self) -> Placed:
        return Placed(self._located, self._rules, self._clock.now())

    def _page(self, sought: Sought, after: str | None, limit: int) -> tuple[Sequence[ArtifactView], str | None]:
        placed = self._now()
        with self._journal.catalogue() as connection:
            try:
                found, more = finding.page(connection, sought, placed.counting(), after, limit)
            except KeyError:
                raise UsageError("`after` is of no artifact; take it from the `Link` of the page before") from None
            copies = catalogue.copies_of(connection, [row.sha256 for row in found])
        return [view_of(row, copies[row.sha256], placed) for row in found], more

    def _view(self, name: str) -> ArtifactView:
        with self._journal.catalogue() as connection:
            row = found_by(connection, name)
            return view_of(row, catalogue.copies_of(connection, [row.sha256])[row.sha256], self._now())

    def _detail(self, name: str) -> ArtifactDetail:
        placed = self._now()
        with self._journal.catalogue() as connection:
            row = found_by(connection, name)
            copies = catalogue.copies_of(connection, [row.sha256])[row.sha256]
            parents = finding.parents(connection, row.sha256, KIN_TOLD + 1)
            children = finding.children(connection, row.sha256, row.config, KIN_TOLD + 1)
        missing = replication.shortfall(
            _held(row, copies), places.seen(placed.located, placed.at), placed.at, placed.rules
        )
        return ArtifactDetail(
            artifact=view_of(row, copies, placed),
            attempt=self._attempt_of(row.job),
            exported=row.exported,
            parents=tuple(parents[:KIN_TOLD]),
            children=tuple(children[:KIN_TOLD]),
            parents_more=len(parents) > KIN_TOLD,
            children_more=len(children) > KIN_TOLD,
            missing=missing.copies,
            missing_domains=missing.domains,
        )

    def _attempt_of(self, job: str | None) -> str | None:
        ends = [] if job is None else [entry.event for entry in self._journal.story(job)]
        return next((event.attempt for event in reversed(ends) if isinstance(event, JobDone)), None)

    def _lineage(self, name: str, depth: int, limit: int) -> LineageView:
        with self._journal.catalogue() as connection:
            row = found_by(connection, name)
            copies = catalogue.copies_of(connection, [row.sha256])[row.sha256]
            up, over = Walk(connection, _up, finding.count_parents).from_(row, depth, limit)
            down, under = Walk(connection, _down, finding.count_children).from_(row, depth, limit)
        return LineageView(
            artifact=view_of(row, copies, self._now()),
            parents=up,
            children=down,
            parents_further=over,
            children_further=under,
        )


class Walk:
    """Through a lineage in one direction, step by step, each artifact once."""

    def __init__(
        self,
        connection: Connection,
        ahead: Callable[[Connection, str, str | None], Sequence[str]],
        count: Callable[[Connection, str], int],
    ) -> None:
        self._connection = connection
        self._ahead = ahead
        self._count = count
        self._told: dict[str, int] = {}
        """By artifact, how many of its own are told."""
        self._whole: set[str] = set()
        """Artifacts all of whose own were looked at."""

    def from_(self, row: Row, depth: int, limit: int) -> tuple[tuple[Kin, ...], int]:
        """Those that are `depth` steps away at most, at most `limit`; and how many of its own are not among them."""
        self._told = {row.sha256: 0}
        found: list[tuple[str, str, int]] = []
        level, configs = [row.sha256], {row.sha256: row.config}
        for step in range(1, depth + 1):
            new = list(self._step(level, configs, limit - len(found)))
            found += [(name, via, step) for name, via in new]
            level = [name for name, _ in new]
            configs = {name: each.config for name, each in self._rows(level).items()}
        rows = self._rows([name for name, _, _ in found])
        kin = tuple(self._kin(name, via, step, rows.get(name)) for name, via, step in found)
        return kin, self._further(row.sha256)

    def _step(self, level: Sequence[str], configs: Mapping[str, str | None], room: int) -> Iterator[tuple[str, str]]:
        for via in level:
            own = self._ahead(self._connection, via, configs.get(via))
            for name in own[:ABREAST]:
                if name in self._told:
                    self._told[via] += 1  # told elsewhere
                elif room > 0:
                    room -= 1
                    self._told[name] = 0
                    self._told[via] += 1
                    yield name, via
            if len(own) <= ABREAST and self._told[via] == len(own):
                self._whole.add(via)

    def _rows(self, names: Sequence[str]) -> Mapping[str, Row]:
        return finding.rows(self._connection, names) if names else {}

    def _further(self, name: str) -> int:
        return 0 if name in self._whole else max(self._count(self._connection, name) - self._told[name], 0)

    def _kin(self, name: str, via: str, depth: int, row: Row | None) -> Kin:
        return Kin(
            sha256=name,
            depth=depth,
            via=via,
            kind=None if row is None else row.kind,
            standing=None if row is None else row.standing,
            bytes=None if row is None else row.bytes,
            config=None if row is None else row.config,
            job=None if row is None else row.job,
            made_at=None if row is None else row.made_at,
            further=self._further(name),
        )


def found_by(connection: Connection, name: str) -> Row:
    """The one artifact whose name begins so. Raises `NotFound`, and `UsageError` where several do."""
    beginning = name.lower()
    if not BEGINNING.fullmatch(beginning):
        raise NotFound(f"there is no artifact {name[:100]!r}: they are called by their SHA-256, or how that begins")
    names = catalogue.beginning_with(connection, beginning, CANDIDATES + 1)
    if not names:
        raise NotFound(
            f"there is no artifact whose SHA-256 begins with {beginning}; `hostler artifact list` lists them"
        )
    known = finding.rows(connection, names)
    if len(names) == 1:
        return known[names[0]]
    more = " and more" if len(names) > CANDIDATES else ""
    told = ", ".join(f"{each[:SHORT]} ({known[each].kind})" for each in names[:CANDIDATES])
    raise UsageError(f"several artifacts begin with {beginning}; write more of it: {told}{more}")


def view_of(row: Row, copies: Sequence[Copy], placed: Placed) -> ArtifactView:
    """An artifact with its copies, as things stand."""
    held, rules = _held(row, copies), placed.rules
    seen = places.seen(placed.located, placed.at)
    proven = frozenset(each.place for each in replication.proven(copies, seen, placed.at, rules))
    wanted = rules.wanted[row.standing]
    return ArtifactView(
        sha256=row.sha256,
        kind=row.kind,
        standing=row.standing,
        bytes=row.bytes,
        config=row.config,
        job=row.job,
        made_at=row.made_at,
        games=row.games,
        copies=tuple(
            CopyView(
                place=each.place,
                domain=seen[each.place].domain if each.place in seen else None,
                verified_at=each.verified_at,
                damaged=each.damaged,
                counts=each.place in proven,
            )
            for each in copies
        ),
        counted=len(proven),
        wanted=wanted.copies,
        wanted_domains=wanted.domains,
        why=replication.shortfall(held, seen, placed.at, rules).why,
    )


def _held(row: Row, copies: Sequence[Copy]) -> Held:
    return Held(sha256=row.sha256, bytes=row.bytes, standing=row.standing, made_at=row.made_at, copies=tuple(copies))


def _up(connection: Connection, name: str, config: str | None) -> Sequence[str]:
    return finding.parents(connection, name, ABREAST + 1)


def _down(connection: Connection, name: str, config: str | None) -> Sequence[str]:
    return finding.children(connection, name, config, ABREAST + 1)
