"""Lists, lineages and sums of the catalogue: complete, in order, and never by walking all of it for one page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event, insert, select

from hostler.model.artifact_views import Sought
from hostler.model.artifacts import HUB, USUAL_COPIES, ArtifactKind, Standing
from hostler.model.codec import dump_event
from hostler.model.events import CopiesDamaged, CopiesVerified, DatasetMade, Entry, Event, MatchesPlayed, SegmentsMade
from hostler.model.learning import DatasetRef, Match, SegmentRef
from hostler.store import Batch, Journal, catalogue, finding, open_journal, tables
from hostler.store.dialect import Place, sqlite_engine
from hostler.store.finding import Rules, Sum
from hostler.store.migrating import MIGRATIONS
from hostler.store.opening import FILE
from tests.store.test_catalogue import model, promoted

DOMAINS = {HUB: "home", "shelf": "home", "attic": "away"}
RULES = Rules(USUAL_COPIES, DOMAINS, since=0.0)
APART = Rules(USUAL_COPIES, {HUB: "home", "attic": "away"}, since=0.0)
WALKS = re.compile(r"SCAN (artifacts|copies|lineage)(?! USING (COVERING )?INDEX artifacts_)")


def sha(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()


def segments(config: str, job: str, player: str, *names: str) -> SegmentsMade:
    refs = tuple(SegmentRef(sha256=name, bytes=100, games=5, positions=50) for name in names)
    return SegmentsMade(config=config, job=job, player=player, segments=refs, cpu_s=None)


def story() -> Iterator[Event]:
    """Two configs, each with games, a dataset, two models and their match; copies elsewhere, one of them damaged."""
    for config in ("a", "b"):
        first, second = sha((config, "first")), sha((config, "second"))
        yield replace(model(first, None, None), config=config)
        yield replace(promoted(first, None), config=config)
        games = [sha((config, number)) for number in range(12)]
        for begin in range(0, 12, 4):
            yield segments(config, f"j{begin}", f"gumbel-16@{first}", *games[begin : begin + 4])
        dataset = DatasetRef(sha256=sha((config, "dataset")), bytes=60, games=5, positions=50)
        yield DatasetMade(config=config, job="j8", dataset=dataset, segments=tuple(games[:8]))
        yield replace(model(second, first, dataset.sha256), config=config)
        match = sha((config, "match"))
        yield segments(config, f"{config}9", "evaluation", match)
        players = (f"gumbel-16@{first}", f"gumbel-16@{second}")
        yield MatchesPlayed(config=config, job=f"{config}9", matches=(Match(a=players[0], b=players[1], groups=()),))
        yield CopiesVerified(place="attic", artifacts=(*games[:6], first))
        yield CopiesVerified(place="shelf", artifacts=(*games[4:9],))
        yield CopiesDamaged(place="attic", artifacts=(games[1],), why="bits")


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    opened = open_journal(place)
    entries = [Entry(seq=number, at=1000.0 + number, event=each) for number, each in enumerate(story(), 1)]
    opened.append([Batch(entries=entries, jobs=())])
    yield opened
    opened.close()


@pytest.fixture
def asked(journal: Journal) -> Iterator[Connection]:
    with journal.catalogue() as connection:
        yield connection


def walked(asked: Connection, sought: Sought, rules: Rules, limit: int) -> list[str]:
    """All pages, one behind the other."""
    names: list[str] = []
    after: str | None = None
    while True:
        rows, after = finding.page(asked, sought, rules, after, limit)
        assert len(rows) <= limit
        names += [row.sha256 for row in rows]
        if after is None:
            return names


def everything(asked: Connection) -> list[tuple[Any, Standing, Any]]:
    """All that there is, with its standing and its copies."""
    every = catalogue.page(asked, limit=1000)
    names = [each.sha256 for each in every]
    copies, worth = catalogue.copies_of(asked, names), catalogue.standings(asked, names)
    return [(each, worth[each.sha256].standing, copies[each.sha256]) for each in every]


def expected(every: list[tuple[Any, Standing, Any]], sought: Sought, rules: Rules) -> list[str]:
    """The same, by looking at everything."""
    kept = []
    for each, standing, own in every:
        there = [copy.place for copy in own if copy.place in rules.domains and not copy.damaged]
        wanted = rules.wanted[standing]
        short = len(there) < wanted.copies or len({rules.domains[place] for place in there}) < wanted.domains
        if (
            sought.kind in (None, each.kind)
            and sought.config in (None, each.config)
            and sought.standing in (None, standing)
            and (sought.place is None or sought.place in {copy.place for copy in own})
            and (short or not sought.short)
        ):
            kept.append(each.sha256)
    return kept


@pytest.mark.parametrize(
    ("looked", "first", "rules"),
    [
        pytest.param(3, 1, APART, id="3-1-domains apart"),
        pytest.param(2000, 2, RULES, id="2000-2-shared domain"),
        *(
            pytest.param(looked, first, rules, id=f"{looked}-{first}-{name}", marks=pytest.mark.long)
            for looked, first, rules, name in (
                (1, 0, RULES, "shared domain"),
                (1, 0, APART, "domains apart"),
                (3, 1, RULES, "shared domain"),
                (2000, 2, APART, "domains apart"),
            )
        ),
    ],
)
def test_pages_hold_what_is_asked_for_once_in_order(
    asked: Connection, monkeypatch: pytest.MonkeyPatch, looked: int, first: int, rules: Rules
) -> None:
    """Each question is asked in pages of one, some and all, each with another bound on what is looked at."""
    monkeypatch.setattr(finding, "LOOKED", looked)
    found, every = 0, everything(asked)
    questions = product((None, *ArtifactKind), (None, *Standing), (None, HUB, "attic", "nowhere"), (False, True))
    for number, (kind, standing, place, short) in enumerate(questions, first):
        sought = Sought(kind=kind, standing=standing, place=place, short=short, config="a" if short else None)
        wanted = expected(every, sought, rules)
        assert walked(asked, sought, rules, limit=(1, 4, 100)[number % 3]) == wanted, sought
        found += len(wanted)
    assert found > 100


def test_a_page_behind_what_is_not_there_is_none(asked: Connection) -> None:
    with pytest.raises(KeyError):
        finding.page(asked, Sought(), RULES, "0" * 64, 10)


QUESTIONS: Mapping[str, Any] = {
    "newest": lambda c: finding.page(c, Sought(), RULES, None, 20),
    "behind": lambda c: finding.page(c, Sought(), RULES, sha(("a", 3)), 20),
    "kind": lambda c: finding.page(c, Sought(kind=ArtifactKind.MODEL), RULES, sha(("a", 3)), 20),
    "config": lambda c: finding.page(c, Sought(config="a"), RULES, sha(("a", 3)), 20),
    "both": lambda c: finding.page(c, Sought(config="a", kind=ArtifactKind.MODEL), RULES, sha(("a", 3)), 20),
    "standing": lambda c: finding.page(c, Sought(standing=Standing.FORMER), RULES, sha(("a", 3)), 20),
    "place": lambda c: finding.page(c, Sought(place="attic"), RULES, sha(("a", 3)), 20),
    "short": lambda c: finding.page(c, Sought(short=True), RULES, sha(("a", 3)), 20),
    "parents": lambda c: finding.parents(c, sha(("a", "dataset")), 5),
    "children": lambda c: finding.children(c, sha(("a", "first")), "a", 5),
    "counts": lambda c: finding.count_children(c, sha(("a", "first"))),
    "beginning": lambda c: catalogue.beginning_with(c, "ab", 9),
    "copies": lambda c: catalogue.copies_of(c, [sha(("a", 3))]),
}


# PostgreSQL plans by how many rows there are; benchmarks/store.py asks it with millions.
@pytest.mark.parametrize("new_place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_about_one_page_walks_everything(asked: Connection, question: str) -> None:
    """By the plan of each statement: everything is entered by an index, and what is in its order is not sorted."""
    said: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        said.append((statement, parameters))

    event.listen(asked, "before_cursor_execute", note)
    QUESTIONS[question](asked)
    event.remove(asked, "before_cursor_execute", note)
    assert said
    for statement, parameters in said:
        plan = [row[3] for row in asked.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        assert not [step for step in plan if WALKS.search(step)], (statement, plan)
        assert "USE TEMP B-TREE FOR ORDER BY" not in plan, (statement, plan)


def test_evaluations_come_of_the_models_that_played(asked: Connection) -> None:
    first, second, match = (sha(("a", name)) for name in ("first", "second", "match"))
    assert finding.parents(asked, match, 9) == sorted([first, second])
    assert finding.children(asked, second, "a", 9) == [match]


def test_of_many_children_models_are_told_first(asked: Connection) -> None:
    first = sha(("a", "first"))
    assert finding.count_children(asked, first) == 14, "twelve segments, a model and a match"
    assert finding.children(asked, first, "a", 3)[0] == sha(("a", "second"))
    assert len(finding.children(asked, first, "a", 3)) == 3
    assert len(set(finding.children(asked, first, "a", 99))) == 14


def test_counts_end_somewhere(asked: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "COUNTED", 5)
    assert finding.count_children(asked, sha(("a", "first"))) == 5
    assert finding.count_parents(asked, sha(("a", "second"))) == 2


@pytest.mark.parametrize("rules", [RULES, APART], ids=["shared domain", "domains apart"])
def test_sums_are_those_of_the_single_artifacts(asked: Connection, rules: Rules) -> None:
    every = {each.sha256: each for each in catalogue.page(asked, limit=1000)}
    worth, copies = catalogue.standings(asked, list(every)), catalogue.copies_of(asked, list(every))
    short = set(expected(everything(asked), Sought(short=True), rules))
    there = {
        name: sum(copy.place in rules.domains and not copy.damaged for copy in own) for name, own in copies.items()
    }
    groups: dict[tuple[ArtifactKind, Standing], list[str]] = {}
    for name, each in every.items():
        groups.setdefault((each.kind, worth[name].standing), []).append(name)
    assert set(finding.sums(asked, rules)) == {
        Sum(
            kind,
            standing,
            len(names),
            sum(every[name].bytes for name in names),
            sum(there[name] for name in names),
            len(short.intersection(names)),
            sum(not there[name] for name in names),
        )
        for (kind, standing), names in groups.items()
    }


def test_copies_that_were_read_too_long_ago_do_not_count(asked: Connection) -> None:
    late = Rules(USUAL_COPIES, DOMAINS, since=5000.0)
    assert all(each.copies == 0 and each.at_risk == each.artifacts for each in finding.sums(asked, late))


def test_places_are_summed(asked: Connection) -> None:
    assert finding.sums_of_places(asked) == {HUB: (32, 0), "attic": (14, 2), "shelf": (10, 0)}


def test_an_older_store_learns_what_evaluations_came_of(journal: Journal, tmp_path: Path) -> None:
    older = tmp_path / "older"
    older.mkdir()
    engine = sqlite_engine(older / FILE)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    entries = [Entry(seq=number, at=1000.0 + number, event=each) for number, each in enumerate(story(), 1)]
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0003")
        rows = [{"seq": each.seq, "at": each.at, "job": None, "data": dump_event(each.event)} for each in entries]
        connection.execute(insert(tables.journal), rows)
        catalogue.note(connection, (each for each in entries if not isinstance(each.event, MatchesPlayed)))
    engine.dispose()
    again = open_journal(older)
    try:
        with journal.catalogue() as ours, again.catalogue() as theirs:
            query = select(tables.lineage).order_by(*tables.lineage.primary_key)
            assert theirs.execute(query).all() == ours.execute(query).all()
    finally:
        again.close()
