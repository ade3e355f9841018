"""The catalogue says of artifacts what the journal said, told as it grows or all at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import insert, select, update

from hostler.model.artifacts import HUB, ArtifactKind, Copy, Standing, Wanted
from hostler.model.codec import dump_event, load_event
from hostler.model.events import (
    CopiesDamaged,
    CopiesGone,
    CopiesVerified,
    DatasetMade,
    Entry,
    Event,
    ModelMade,
    ModelPromoted,
    ModelRejected,
    ModelRolledBack,
    PlaceGone,
    SegmentsJudged,
    SegmentsMade,
)
from hostler.model.learning import DatasetRef, ModelFile, SegmentRef, SegmentVerdict, TrainingResult
from hostler.store import Batch, Journal, catalogue, open_journal, tables
from hostler.store.dialect import Place, sqlite_engine
from hostler.store.migrating import MIGRATIONS
from hostler.store.opening import FILE

CONFIG = "hex8_2p"
MODELS = [f"{number:x}" * 64 for number in (10, 11, 12)]
GAMES, WEAK, MATCHES, DATASET = ("1" * 64, "2" * 64, "3" * 64, "d" * 64)


def segments(job: str, player: str, *names: str) -> SegmentsMade:
    made = tuple(SegmentRef(sha256=name, bytes=100, games=5, positions=50) for name in names)
    return SegmentsMade(config=CONFIG, job=job, player=player, segments=made, cpu_s=None)


def judged(name: str, refused: str | None) -> SegmentVerdict:
    accepted = 0 if refused else 5
    return SegmentVerdict(sha256=name, games=5, accepted=accepted, rejected={}, quality={}, score=None, refused=refused)


def model(name: str, base: str | None, dataset: str | None) -> ModelMade:
    training = TrainingResult(
        schema=1,
        model=ModelFile(sha256=name, bytes=7),
        base=base,
        dataset=dataset,
        steps=0,
        positions_in=0,
        positions_used=0,
        samples=0,
        stopped="steps",
    )
    return ModelMade(config=CONFIG, job="j3", training=training)


def promoted(name: str, over: str | None) -> ModelPromoted:
    return ModelPromoted(config=CONFIG, model=name, over=over, groups=1, llr=None, why="better")


FIRST, SECOND, THIRD = MODELS
STORY: list[Event] = [
    model(FIRST, None, None),
    promoted(FIRST, None),
    segments("j1", f"gumbel-16@{FIRST}", GAMES, WEAK),
    segments("j2", "evaluation", MATCHES),
    SegmentsJudged(
        config=CONFIG,
        job="j4",
        segments=(judged(GAMES, None), judged(WEAK, "weak generator")),
        quality={},
        lengths=None,
        bootstrap=False,
    ),
    DatasetMade(
        config=CONFIG,
        job="j4",
        dataset=DatasetRef(sha256=DATASET, bytes=60, games=5, positions=50),
        segments=(GAMES,),
    ),
    model(SECOND, FIRST, DATASET),
    promoted(SECOND, FIRST),
    model(THIRD, SECOND, DATASET),
]


def told(events: list[Event], after: int = 0) -> list[Entry]:
    return [Entry(seq=after + n, at=1000.0 + after + n, event=event) for n, event in enumerate(events, 1)]


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    opened = open_journal(place)
    opened.append([Batch(entries=told(STORY), jobs=())])
    yield opened
    opened.close()


def add(journal: Journal, *events: Event) -> None:
    journal.append([Batch(entries=told(list(events), journal.newest_seq()), jobs=())])


def copies(journal: Journal, name: str) -> list[Copy]:
    with journal.catalogue() as connection:
        return catalogue.copies_of(connection, [name])[name]


def standing(journal: Journal, name: str) -> Standing:
    with journal.catalogue() as connection:
        return catalogue.standings(connection, [name])[name][0]


def test_what_a_stage_made_is_there_with_what_it_was_made_from(journal: Journal) -> None:
    with journal.catalogue() as connection:
        known = catalogue.by_name(connection, [GAMES, MATCHES, DATASET, SECOND, "f" * 64])
        assert catalogue.children_of(connection, [GAMES]) == {GAMES: [DATASET]}
    assert {name: each.kind for name, each in known.items()} == {
        GAMES: ArtifactKind.GAMES,
        MATCHES: ArtifactKind.EVALUATION,
        DATASET: ArtifactKind.DATASET,
        SECOND: ArtifactKind.MODEL,
    }
    assert known[GAMES].parents == (FIRST,)
    assert known[DATASET].parents == (GAMES,)
    assert known[SECOND].parents == tuple(sorted((FIRST, DATASET)))
    assert (known[GAMES].bytes, known[GAMES].job, known[GAMES].config) == (100, "j1", CONFIG)
    assert copies(journal, GAMES) == [Copy(place=HUB, verified_at=1003.0)]


def test_games_are_done_with_once_a_dataset_was_chosen_from_them_or_they_were_refused(journal: Journal) -> None:
    with journal.catalogue() as connection:
        found = catalogue.standings(connection, [GAMES, WEAK, MATCHES])
    assert {name: exported for name, (_, exported, _) in found.items()} == {GAMES: True, WEAK: True, MATCHES: False}


def test_models_are_worth_what_the_switches_say(journal: Journal) -> None:
    assert [standing(journal, name) for name in MODELS] == ["model", "model", "candidate"]
    add(journal, promoted(THIRD, SECOND))
    assert [standing(journal, name) for name in MODELS] == ["former", "model", "model"]
    add(journal, ModelRolledBack(config=CONFIG, model=SECOND, was=THIRD, why="worse"))
    assert standing(journal, SECOND) == "model"
    fourth = "e" * 64
    add(journal, model(fourth, SECOND, DATASET))
    add(journal, ModelRejected(config=CONFIG, model=fourth, over=SECOND, groups=1, llr=None, why="no better"))
    assert standing(journal, fourth) == "former"


def test_copies_come_are_damaged_and_go(journal: Journal) -> None:
    add(journal, CopiesVerified(place="bucket", artifacts=(GAMES, DATASET)))
    assert copies(journal, GAMES) == [Copy(place="bucket", verified_at=1010.0), Copy(place=HUB, verified_at=1003.0)]
    add(journal, CopiesDamaged(place=HUB, artifacts=(GAMES,), why="a bit"))
    assert copies(journal, GAMES)[1] == Copy(place=HUB, verified_at=None, damaged=True)
    add(journal, CopiesVerified(place=HUB, artifacts=(GAMES,)))
    assert copies(journal, GAMES)[1] == Copy(place=HUB, verified_at=1012.0)
    add(journal, CopiesGone(place=HUB, artifacts=(GAMES,), why="exported"))
    assert [each.place for each in copies(journal, GAMES)] == ["bucket"]
    add(journal, PlaceGone(place="bucket", who="me", why="burnt"))
    assert copies(journal, GAMES) == []


def unread(event: SegmentsMade | DatasetMade | ModelMade) -> Event:
    """As it is told since what stages made counts only once it was read back."""
    return replace(event, unread=True)


def test_what_a_stage_made_counts_once_it_was_read_back(journal: Journal) -> None:
    """It was taken for read at the moment when the word of a stage was accepted; nobody had opened the file."""
    names = ["4" * 64, "5" * 64, "6" * 64]
    first, second, third = names
    dataset = DatasetRef(sha256=second, bytes=60, games=5, positions=50)
    add(
        journal,
        unread(segments("j5", "random", first)),
        unread(DatasetMade(config=CONFIG, job="j6", dataset=dataset, segments=(first,))),
        unread(model(third, None, second)),
    )
    wanted = Wanted(copies=1)
    for name in names:
        assert copies(journal, name) == [Copy(place=HUB, verified_at=None)]
    with journal.catalogue() as connection:
        short = catalogue.short_of(connection, Standing.GAMES, wanted, {HUB: "home"}, 0.0, 10)
        new = catalogue.never_read(connection, HUB, 10)
        assert [each.sha256 for each in catalogue.never_read(connection, HUB, 2)] == names[:2]
        longest = catalogue.unread_longest(connection, HUB, 4)
        assert catalogue.unread_longest(connection, HUB, 2) == longest[:2]
        aged = sum(each.copies for each in catalogue.ages(connection, HUB, 100.0))
    assert short == [first]
    assert [(each.sha256, each.kind, each.bytes) for each in new] == [
        (first, ArtifactKind.GAMES, 100),
        (second, ArtifactKind.DATASET, 60),
        (third, ArtifactKind.MODEL, 7),
    ]
    assert longest == [(first, None), (second, None), (third, None), (FIRST, 1001.0)]
    assert aged == 7, "those of before"
    add(
        journal,
        CopiesVerified(place=HUB, artifacts=(first, third)),
        CopiesDamaged(place=HUB, artifacts=(second,), why="a bit"),
    )
    with journal.catalogue() as connection:
        assert catalogue.never_read(connection, HUB, 10) == []
    assert copies(journal, first) == [Copy(place=HUB, verified_at=1013.0)]


def test_what_is_made_again_is_read_again(journal: Journal) -> None:
    """A mark that it has what is wanted would have kept everybody from looking."""
    with journal.marking() as connection:
        connection.execute(update(tables.artifacts).values(settled_on=1003.0))
    add(journal, unread(segments("j5", "random", GAMES)))
    assert copies(journal, GAMES) == [Copy(place=HUB, verified_at=None)]
    with journal.catalogue() as connection:
        marked = select(tables.artifacts.c.sha256).where(tables.artifacts.c.settled_on.is_not(None))
        assert GAMES not in set(connection.execute(marked).scalars())
        assert WEAK in set(connection.execute(marked).scalars())


def test_a_journal_of_before_means_what_it_meant(journal: Journal, tmp_path: Path) -> None:
    """Entries that do not say whether anybody has read are as ever; those that do are the same however they come."""
    add(journal, unread(segments("j5", "random", "4" * 64)), CopiesVerified(place=HUB, artifacts=(GAMES,)))
    lines = [dump_event(entry.event) for entry in journal.read()]
    older = [line.replace(',"unread":false', "") for line in lines]
    assert older != lines
    (tmp_path / "again").mkdir()
    again = open_journal(tmp_path / "again")
    try:
        for entry, line in zip(list(journal.read()), older, strict=True):
            again.append([Batch(entries=[replace(entry, event=load_event(line))], jobs=())])
        for table in (tables.artifacts, tables.lineage, tables.copies):
            with journal.catalogue() as ours, again.catalogue() as theirs:
                query = select(table).order_by(*table.primary_key)
                assert theirs.execute(query).all() == ours.execute(query).all()
    finally:
        again.close()
    assert copies(journal, WEAK) == [Copy(place=HUB, verified_at=1003.0)]


def test_what_lacks_copies_is_found_and_what_was_not_read_for_long(journal: Journal) -> None:
    add(journal, CopiesVerified(place="bucket", artifacts=(FIRST,)))
    domains = {HUB: "home", "bucket": "s3"}

    def short(copies: int, domains: dict[str, str], since: float = 0.0, apart: int = 1) -> list[str]:
        wanted = Wanted(copies=copies, domains=apart)
        with journal.catalogue() as connection:
            return catalogue.short_of(connection, Standing.MODEL, wanted, domains, since, 10)

    assert short(2, domains) == [SECOND]
    assert short(2, domains, since=1005.0) == [FIRST, SECOND]
    assert short(1, domains) == []
    assert short(1, domains, apart=2) == [SECOND]
    assert short(2, {HUB: "home", "bucket": "home"}, apart=2) == [FIRST, SECOND]
    assert short(1, {}) == [FIRST, SECOND]
    with journal.catalogue() as connection:
        assert catalogue.unread_longest(connection, HUB, 2) == [(FIRST, 1001.0), (GAMES, 1003.0)]


def test_pages_go_on_where_the_last_one_ended(journal: Journal) -> None:
    """Also between artifacts that one entry told of."""
    with journal.catalogue() as connection:
        whole = [each.sha256 for each in catalogue.page(connection, limit=100)]
        assert sorted(whole) == sorted([*MODELS, GAMES, WEAK, MATCHES, DATASET])
        found: list[str] = []
        while some := catalogue.page(connection, after=found[-1] if found else None, limit=2):
            found += [each.sha256 for each in some]
        assert found == whole
        models = catalogue.page(connection, kind=ArtifactKind.MODEL, config=CONFIG, limit=9)
        assert [each.sha256 for each in models] == [THIRD, SECOND, FIRST]
        assert catalogue.page(connection, config="nobodys", limit=2) == []
        with pytest.raises(KeyError):
            catalogue.page(connection, after="0" * 64, limit=2)


def test_a_beginning_of_a_name_is_enough(journal: Journal) -> None:
    with journal.catalogue() as connection:
        assert catalogue.beginning_with(connection, "1", 10) == [GAMES]
        assert catalogue.beginning_with(connection, "", 3) == [GAMES, WEAK, MATCHES]
        assert catalogue.beginning_with(connection, "f", 10) == []


def test_a_sample_of_a_place_is_all_of_it_where_that_is_little(journal: Journal) -> None:
    with journal.catalogue() as connection:
        everything = catalogue.beginning_with(connection, "", 100)
        assert catalogue.some_in(connection, HUB, ["f" * 8] * len(everything)) == everything
        assert len(everything) > 2
        assert catalogue.some_in(connection, HUB, [GAMES, "2"]) == [GAMES, WEAK]
        assert catalogue.some_in(connection, "nowhere", ["0"]) == []


def test_an_older_journal_fills_it(journal: Journal, tmp_path: Path) -> None:
    """Told all at once it is what it is told as the journal grows."""
    older = tmp_path / "older"
    older.mkdir()
    engine = sqlite_engine(older / FILE)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
        rows = [{"seq": e.seq, "at": e.at, "job": None, "data": dump_event(e.event)} for e in told(STORY)]
        connection.execute(insert(tables.journal), rows)
    engine.dispose()
    again = open_journal(older)
    try:
        for table in (tables.artifacts, tables.lineage, tables.copies):
            with journal.catalogue() as ours, again.catalogue() as theirs:
                query = select(table).order_by(*table.primary_key)
                assert theirs.execute(query).all() == ours.execute(query).all()
    finally:
        again.close()
