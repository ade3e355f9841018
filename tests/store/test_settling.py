"""Marks make a look cheap and change no answer, whatever facts, rules and times come after each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.artifacts import HUB, Standing, Wanted
from hostler.model.events import (
    CopiesDamaged,
    CopiesGone,
    CopiesVerified,
    Entry,
    Event,
    ModelRejected,
    PlaceGone,
)
from hostler.store import Batch, Journal, catalogue, open_journal, settling
from hostler.store.dialect import Place
from hostler.store.settling import Marks, Rules
from hostler.store.tables import artifacts
from tests.journals import new_journal
from tests.store.test_catalogue import model, promoted, segments

PLACES = {HUB: "home", "shelf": "home", "bucket": "s3"}
GAMES = [f"{number:064x}" for number in range(6)]
MODELS = [f"{number:064x}" for number in range(100, 104)]
ALL = [*GAMES, *MODELS]
some = st.lists(st.sampled_from(ALL), min_size=1, max_size=4, unique=True).map(tuple)
place = st.sampled_from(list(PLACES))


@dataclass(frozen=True)
class Look:
    """Somebody looks: at these rules, with readings counting since so many seconds ago."""

    copies: int
    domains: int
    places: frozenset[str]
    within: float


steps = st.lists(
    st.one_of(
        st.builds(lambda n: segments("j", "random", n), st.sampled_from(GAMES)),
        st.builds(lambda n: replace(segments("j", "random", n), unread=True), st.sampled_from(GAMES)),
        st.builds(lambda n: model(n, None, None), st.sampled_from(MODELS)),
        st.builds(lambda n: replace(model(n, None, None), unread=True), st.sampled_from(MODELS)),
        st.builds(lambda n: promoted(n, None), st.sampled_from(MODELS)),
        st.builds(
            lambda n: ModelRejected(config="hex8_2p", model=n, over=n, groups=1, llr=None, why="no better"),
            st.sampled_from(MODELS),
        ),
        st.builds(lambda p, n: CopiesVerified(place=p, artifacts=n), place, some),
        st.builds(lambda p, n: CopiesDamaged(place=p, artifacts=n, why="a bit"), place, some),
        st.builds(lambda p, n: CopiesGone(place=p, artifacts=n, why="gone"), place, some),
        st.builds(lambda p: PlaceGone(place=p, who="me", why="burnt"), place),
        st.builds(
            Look,
            st.integers(1, 3),
            st.integers(1, 2),
            st.frozensets(place),
            st.sampled_from([3.0, 10.0, 1000.0]),
        ),
    ),
    max_size=40,
)


def both(journal: Journal, marks: Marks, look: Look, now: float, limit: int) -> tuple[list[str], list[str]]:
    wanted = dict.fromkeys(Standing, Wanted(copies=look.copies, domains=look.domains))
    wanted[Standing.GAMES] = Wanted(copies=1)
    domains = {name: PLACES[name] for name in sorted(look.places)}
    since = now - look.within
    with journal.catalogue() as connection:
        plain = [
            name
            for standing, each in wanted.items()
            for name in catalogue.short_of(connection, standing, each, domains, since, limit)
        ]
    return plain, marks.short_of(Rules(wanted, domains), since, limit)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "PAGE", 2)
    monkeypatch.setattr(settling, "PAGES", 2)


def both_ways_find_the_same(story: list[Event | Look], limit: int) -> None:
    with TemporaryDirectory() as folder:
        journal = open_journal(new_journal(Path(folder)))
        try:
            marks, seq, now = Marks(journal), 0, 1000.0
            for step in [*story, Look(2, 1, frozenset(PLACES), 1000.0)]:
                now += 1.0
                if isinstance(step, Look):
                    plain, marked = both(journal, marks, step, now, limit)
                    assert marked == plain
                    continue
                seq += 1
                journal.append([Batch(entries=[Entry(seq=seq, at=now, event=step)], jobs=())])
        finally:
            journal.close()


@settings(max_examples=12, deadline=None)
@given(steps, st.integers(1, 5))
def test_both_ways_find_the_same(story: list[Event | Look], limit: int) -> None:
    both_ways_find_the_same(story, limit)


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(steps, st.integers(1, 5))
def test_both_ways_find_the_same_in_many_stories(story: list[Event | Look], limit: int) -> None:
    both_ways_find_the_same(story, limit)


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    opened = open_journal(place)
    events: list[Event] = [segments("j", "random", *GAMES), CopiesVerified(place="bucket", artifacts=tuple(GAMES[:5]))]
    opened.append([Batch(entries=[Entry(seq=n, at=1000.0 + n, event=e) for n, e in enumerate(events, 1)], jobs=())])
    yield opened
    opened.close()


def open_names(journal: Journal) -> list[str]:
    with journal.catalogue() as connection:
        query = artifacts.select().where(artifacts.c.settled_on.is_(None)).order_by(artifacts.c.sha256)
        return [row.sha256 for row in connection.execute(query)]


def test_what_is_settled_is_looked_at_no_more_until_something_happens(journal: Journal) -> None:
    marks, rules = Marks(journal), Rules({Standing.GAMES: Wanted(copies=2, domains=2)}, PLACES)
    for _ in range(3):
        assert marks.short_of(rules, 0.0, 10) == [GAMES[5]]
    assert open_names(journal) == [GAMES[5]]
    gone = CopiesGone(place="bucket", artifacts=(GAMES[1],), why="deleted")
    journal.append([Batch(entries=[Entry(seq=3, at=1003.0, event=gone)], jobs=())])
    assert open_names(journal) == [GAMES[1], GAMES[5]]
    assert marks.short_of(rules, 0.0, 10) == [GAMES[1], GAMES[5]]


def test_what_was_read_too_long_ago_settles_nothing(journal: Journal) -> None:
    marks, rules = Marks(journal), Rules({Standing.GAMES: Wanted(copies=1)}, PLACES)
    assert marks.short_of(rules, 0.0, 10) == []
    assert marks.short_of(rules, 1001.5, 10) == [GAMES[5]]
    assert marks.short_of(rules, 1003.0, 10) == GAMES


def test_other_rules_begin_anew_and_another_look_goes_on(journal: Journal) -> None:
    for _ in range(3):
        Marks(journal).short_of(Rules({Standing.GAMES: Wanted(copies=1)}, PLACES), 0.0, 10)
    assert open_names(journal) == []
    assert Marks(journal).short_of(Rules({Standing.GAMES: Wanted(copies=2)}, PLACES), 0.0, 10) == [GAMES[5]]
