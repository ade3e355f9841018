"""What lacks copies, found without walking through all artifacts: who has what is wanted is marked as settled.

A mark holds under one set of rules, as long as the oldest reading that it rests on counts, and until a fact takes
something away, with which `catalogue.note` wipes it out. What is not marked is looked at by the plain query, so marks
change how long that takes and never what it answers.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, NamedTuple, Protocol

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from hostler.model.artifacts import Standing, Wanted
from hostler.store import catalogue
from hostler.store.tables import artifacts, copies, settling

PAGE = 2000
"""Artifacts that are marked in one transaction: the journal waits for it."""
PAGES = 2
"""Pages that are tried at one look where most of them lack copies: these, too, are not to be walked through."""


class Keeps(Protocol):
    """What of a journal is needed."""

    def catalogue(self) -> AbstractContextManager[Connection]:
        """To read."""

    def marking(self) -> AbstractContextManager[Connection]:
        """To write marks, in a transaction of their own."""


class Rules(NamedTuple):
    """What settles an artifact."""

    wanted: Mapping[Standing, Wanted]
    domains: Mapping[str, str]
    """The places that count, with the domain of each."""

    def text(self) -> str:
        """All of it, as it is compared."""
        wanted = {each.value: [self.wanted[each].copies, self.wanted[each].domains] for each in sorted(self.wanted)}
        return json.dumps([wanted, dict(self.domains)], sort_keys=True)


class Marks:
    """Finds what lacks copies, and marks what does not."""

    def __init__(self, journal: Keeps) -> None:
        self._journal = journal
        self._behind: dict[Standing, tuple[int, str]] = {}
        """How far marking has come through what is open: what lacks copies is not tried first at each look."""

    def short_of(self, rules: Rules, since: float, limit: int, readable: Collection[str] | None = None) -> list[str]:
        """Of each standing, at most `limit` artifacts with fewer copies read since `since` than wanted, oldest first.

        Just what `catalogue.short_of` answers for each. With `readable`, only of what lies in any of these places: what
        is lost, or out of reach, must not keep all others from being seen; `out_of_reach` has it.
        """
        self._begin_under(rules.text())
        self._reopen(since)
        for standing, wanted in rules.wanted.items():
            self._settle(standing, wanted, rules.domains, since)
        open_ = artifacts.c.settled_on.is_(None)
        return self._short_of(rules, since, limit, open_ if readable is None else open_ & catalogue.lies_in(readable))

    def out_of_reach(self, rules: Rules, since: float, limit: int, readable: Collection[str]) -> list[str]:
        """The same, of what lies in none of these places. It walks through all that lacks copies."""
        return self._short_of(rules, since, limit, artifacts.c.settled_on.is_(None) & ~catalogue.lies_in(readable))

    def _short_of(self, rules: Rules, since: float, limit: int, among: ColumnElement[bool]) -> list[str]:
        with self._journal.catalogue() as connection:
            return [
                name
                for standing, wanted in rules.wanted.items()
                for name in catalogue.short_of(connection, standing, wanted, rules.domains, since, limit, among)
            ]

    def _begin_under(self, rules: str) -> None:
        """Other rules: no mark holds. They are named last, so that who is interrupted begins anew."""
        with self._journal.catalogue() as connection:
            if connection.execute(select(settling.c.rules)).scalar() == rules:
                return
        self._wipe(artifacts.c.settled_on.is_not(None))
        with self._journal.marking() as connection:
            if not connection.execute(update(settling).values(rules=rules)).rowcount:
                connection.execute(insert(settling), {"id": 1, "rules": rules})

    def _reopen(self, since: float) -> None:
        """Marks that rest on readings which count no more."""
        self._wipe(artifacts.c.settled_on < since)

    def _wipe(self, which: ColumnElement[bool]) -> None:
        while True:
            with self._journal.catalogue() as connection:
                names = list(connection.execute(select(artifacts.c.sha256).where(which).limit(PAGE)).scalars())
            if not names:
                return
            with self._journal.marking() as connection:
                catalogue.unsettle(connection, names)

    def _settle(self, standing: Standing, wanted: Wanted, domains: Mapping[str, str], since: float) -> None:
        """Mark what lacks nothing: some pages of what is open, from where the last look ended."""
        for turn in count(1):
            marked = 0
            with self._journal.catalogue() as connection:
                page = _open(connection, standing, self._behind.get(standing))
            if page:
                with self._journal.marking() as connection:
                    marked = _mark(connection, [row.sha256 for row in page], standing, wanted, domains, since)
            if len(page) < PAGE:
                self._behind.pop(standing, None)
                return
            self._behind[standing] = page[-1].seq, page[-1].sha256
            if turn >= PAGES and marked < len(page) / 2:
                return


def _open(connection: Connection, standing: Standing, behind: tuple[int, str] | None) -> Sequence[Any]:
    query = select(artifacts.c.seq, artifacts.c.sha256).where(
        artifacts.c.standing == standing, artifacts.c.settled_on.is_(None)
    )
    if behind is not None:
        seq, name = behind
        later = (artifacts.c.seq > seq) | ((artifacts.c.seq == seq) & (artifacts.c.sha256 > name))
        query = query.where(artifacts.c.seq >= seq, later)
    return connection.execute(query.order_by(artifacts.c.seq, artifacts.c.sha256).limit(PAGE)).all()


def _mark(
    connection: Connection,
    names: Sequence[str],
    standing: Standing,
    wanted: Wanted,
    domains: Mapping[str, str],
    since: float,
) -> int:
    """How many lack nothing. Each is settled on its oldest reading that counts: without that, it is looked at anew.

    One that was promoted since the page was read is left open: more is wanted of it now.
    """
    own = catalogue.counting(domains, since)
    oldest = select(func.min(copies.c.verified_at)).where(*own).scalar_subquery()
    lacks = catalogue.lacking(wanted, domains, since)
    marked = 0
    for start in range(0, len(names), catalogue.SOME):
        some = names[start : start + catalogue.SOME]
        marked += connection.execute(
            update(artifacts)
            .where(artifacts.c.sha256.in_(some), artifacts.c.standing == standing, ~lacks)
            .values(settled_on=oldest)
        ).rowcount
    return marked
