"""What may be deleted: never what is unknown, in use, too young, or without the copies that its rule asks for."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.artifacts import Artifact, ArtifactKind, Copy, Place, Standing
from hostler.policy.retention import (
    DAY_S,
    SHORT_MOST,
    SORTED_AT_ONCE,
    Deletion,
    FileKind,
    Found,
    Obstacle,
    RetentionRules,
    Rule,
    in_order,
    judged,
    plan,
    stock_of,
)

AT = 100 * DAY_S
RULES = RetentionRules()
PLACES = {
    "here": Place(name="here", domain="home"),
    "bucket": Place(name="bucket", domain="s3"),
    "rig": Place(name="rig", domain="rigs"),
    "rented": Place(name="rented", domain="vast", keeps=False),
    "cut": Place(name="cut", domain="far", reachable=False),
    "shelf": Place(name="shelf", domain="rig-2", node="rig-2"),
}
GAMES = Artifact(sha256="a" * 64, kind=ArtifactKind.GAMES, bytes=10, config="hex8_2p")
SEGMENT = Found(
    path="objects/aa/a.segment.npz",
    kind=FileKind.ARTIFACT,
    bytes=10,
    used_at=0.0,
    place="here",
    artifact=GAMES,
    standing=Standing.GAMES,
    games=20,
    exported=True,
)

DATASET = replace(SEGMENT, standing=Standing.DATASET, artifact=replace(GAMES, kind=ArtifactKind.DATASET))


def read(*places: str, at: float = AT) -> tuple[Copy, ...]:
    return tuple(Copy(place=place, verified_at=at) for place in places)


CACHED = replace(SEGMENT, kind=FileKind.STOCK, place=stock_of("rig-1"), exported=False, wanted=2)
"""A segment in the artifact folder of a node."""
PROVEN = replace(CACHED, copies=read("here", "bucket"))


def file(kind: FileKind, age_s: float, **more: object) -> Found:
    return replace(Found(path=f"{kind}/{age_s}", kind=kind, bytes=5, used_at=AT - age_s, place="here"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (file(FileKind.UNKNOWN, 1e6), Obstacle.UNKNOWN),
        (file(FileKind.LOG, 8 * DAY_S), Rule.LOG),
        (file(FileKind.LOG, 6 * DAY_S), Obstacle.YOUNG),
        (file(FileKind.LOG, 8 * DAY_S, in_use=True), Obstacle.IN_USE),
        (file(FileKind.CACHE, 2 * DAY_S), Rule.CACHE),
        (file(FileKind.CACHE, 60.0), Obstacle.YOUNG),
        (file(FileKind.CHECKPOINT, 9 * DAY_S), Obstacle.UNKNOWN),
        (file(FileKind.CHECKPOINT, 9 * DAY_S, series="t"), Rule.CHECKPOINT),
        (file(FileKind.ARTIFACT, 9 * DAY_S), Obstacle.UNKNOWN),
        (replace(SEGMENT, games=0), Rule.EMPTY),
        (replace(SEGMENT, games=None), Obstacle.COPIES),
        (replace(SEGMENT, games=0, used_at=AT), Obstacle.YOUNG),
        (replace(SEGMENT, copies=read("here", "bucket", "rig")), Rule.EXPORTED),
        (replace(SEGMENT, copies=read("here", "bucket", "rig"), exported=False), Obstacle.NOT_EXPORTED),
        (replace(SEGMENT, copies=read("here", "bucket", "rig"), exported=False, wanted=2), Obstacle.NOT_EXPORTED),
        (replace(SEGMENT, copies=read("here", "bucket", "rig"), wanted=2), Rule.EXPORTED),
        (replace(SEGMENT, copies=read("here", "bucket", "rig"), heirs_short=True), Obstacle.LINEAGE),
        (replace(SEGMENT, copies=read("here", "bucket")), Obstacle.COPIES),
        (replace(SEGMENT, copies=read("bucket", "rented")), Obstacle.COPIES),
        (replace(SEGMENT, copies=read("bucket", "cut")), Obstacle.COPIES),
        (replace(SEGMENT, copies=read("bucket", "rig", at=AT - 31 * DAY_S)), Obstacle.COPIES),
        (replace(SEGMENT, copies=read("bucket", "rig", at=AT + 60)), Obstacle.COPIES),
        (replace(SEGMENT, copies=read("bucket", "nowhere")), Obstacle.COPIES),
        (
            replace(DATASET, copies=read("here", "bucket", "rig"), wanted=2),
            Rule.SPARE,
        ),
        (
            replace(SEGMENT, standing=Standing.MODEL, artifact=replace(GAMES, kind=ArtifactKind.MODEL)),
            Obstacle.PROMOTED,
        ),
        (
            DATASET,
            Obstacle.UNNAMED,
        ),
        (PROVEN, Rule.CACHE),
        (replace(PROVEN, used_at=AT - 3601), Rule.CACHE),
        (replace(PROVEN, used_at=AT - 3599), Obstacle.YOUNG),
        (replace(PROVEN, in_use=True), Obstacle.IN_USE),
        (replace(PROVEN, artifact=None), Obstacle.UNKNOWN),
        (replace(PROVEN, wanted=None), Obstacle.UNKNOWN),
        (replace(PROVEN, wanted=3), Obstacle.COPIES),
        (replace(PROVEN, domains=3), Obstacle.COPIES),
        (replace(PROVEN, wanted=1, copies=read("here")), Obstacle.COPIES),
        (replace(PROVEN, copies=read("here", "rented", "cut")), Obstacle.COPIES),
        (replace(PROVEN, copies=read("here", "bucket", at=AT - 31 * DAY_S)), Obstacle.COPIES),
        (replace(PROVEN, copies=read("here", "bucket", "shelf")), Rule.CACHE),
        (replace(PROVEN, copies=read("here", "bucket", "shelf"), place=stock_of("rig-2")), Obstacle.STORED),
    ],
)
def test_each_kind_has_its_rule(found: Found, verdict: Rule | Obstacle) -> None:
    said = judged(found, PLACES, RULES, AT)
    assert (said.rule if isinstance(said, Deletion) else said) is verdict


def test_the_newest_checkpoints_of_each_training_stay() -> None:
    days = [
        replace(file(FileKind.CHECKPOINT, (2 + n) * DAY_S, series=series), path=f"{series}/{n}")
        for series in ("s", "t")
        for n in range(5)
    ]
    made = plan(days, PLACES, RULES, AT)
    assert [each.found.path for each in made.deletions] == ["s/4", "t/4", "s/3", "t/3"]
    assert made.kept == {Obstacle.NEWEST: (6, 30)}


def test_no_more_goes_than_is_needed_and_what_can_be_made_again_goes_first() -> None:
    files = [
        replace(SEGMENT, copies=read("bucket", "rig")),
        file(FileKind.LOG, 8 * DAY_S),
        file(FileKind.CACHE, 2 * DAY_S),
    ]
    assert [each.rule for each in plan(files, PLACES, RULES, AT).deletions] == [Rule.CACHE, Rule.LOG, Rule.EXPORTED]
    assert [each.rule for each in plan(files, PLACES, RULES, AT, need_bytes=6).deletions] == [Rule.CACHE, Rule.LOG]
    assert not plan(files, PLACES, RULES, AT, need_bytes=0).deletions


def test_two_copies_do_not_prove_each_other() -> None:
    """Three copies, two wanted elsewhere: the first may go, the others are what it was allowed for."""
    everywhere = read("here", "bucket", "rig")
    files = [replace(SEGMENT, place=place, path=place, copies=everywhere) for place in ("here", "bucket", "rig")]
    made = plan(files, PLACES, RULES, AT)
    assert len(made.deletions) == 1
    assert made.kept == {Obstacle.COPIES: (2, 20)}


def test_segment_of_which_nothing_more_is_known_stays() -> None:
    """Every field that may be left out is what lets a file stay."""
    least = Found(
        path="a", kind=FileKind.ARTIFACT, bytes=1, used_at=0.0, place="here", artifact=GAMES, standing=Standing.GAMES
    )
    proved = replace(least, copies=read("bucket", "rig"))
    assert judged(least, PLACES, RULES, AT) is Obstacle.NOT_EXPORTED
    assert judged(proved, PLACES, RULES, AT) is Obstacle.NOT_EXPORTED
    assert judged(replace(least, exported=True), PLACES, RULES, AT) is Obstacle.COPIES
    assert isinstance(judged(replace(proved, exported=True), PLACES, RULES, AT), Deletion)


def test_plan_with_copies_of_one_artifact_has_all_other_files_too() -> None:
    everywhere = read("here", "bucket", "rig")
    twins = [replace(SEGMENT, place=place, path=place, copies=everywhere) for place in ("here", "bucket", "rig")]
    files = [file(FileKind.LOG, 8 * DAY_S), file(FileKind.LOG, 9 * DAY_S), *twins]
    made = plan([*files, file(FileKind.CACHE, 2 * DAY_S)], PLACES, RULES, AT)
    assert [each.rule for each in made.deletions] == [Rule.CACHE, Rule.LOG, Rule.LOG, Rule.EXPORTED]


def test_what_stays_in_a_plan_for_want_of_copies_alone_is_told_the_oldest_first() -> None:
    ages = [*range(SHORT_MOST, SHORT_MOST * 2 + 7), *range(SHORT_MOST)]
    files = [replace(SEGMENT, path=f"{age:06}", used_at=float(age)) for age in ages]
    made = plan([*files, replace(SEGMENT, exported=False)], PLACES, RULES, AT)
    assert [each.used_at for each in made.short] == [float(age) for age in range(SHORT_MOST)]
    assert made.kept[Obstacle.COPIES][0] == len(files)


@pytest.mark.parametrize("size", [0, 1, SORTED_AT_ONCE, SORTED_AT_ONCE + 1, SORTED_AT_ONCE * 5])
@pytest.mark.parametrize("different", [3, 1000, 10**9])
def test_short_sorts_make_the_same_order_as_one(size: int, different: int) -> None:
    chance = random.Random(size)
    values = [(chance.randrange(different), number) for number in range(size)]
    assert in_order(values, lambda each: each[:1]) == sorted(values, key=lambda each: each[:1])


COPIES = st.lists(
    st.builds(
        Copy,
        place=st.sampled_from([*PLACES, "nowhere"]),
        verified_at=st.none() | st.floats(AT - 40 * DAY_S, AT + DAY_S),
        damaged=st.booleans(),
    ),
    max_size=5,
    unique_by=lambda copy: copy.place,
).map(tuple)
ARTIFACTS = st.builds(
    Artifact, sha256=st.just("b" * 64), kind=st.sampled_from(ArtifactKind), bytes=st.just(1), config=st.none()
)
FILES = st.lists(
    st.builds(
        Found,
        path=st.uuids().map(str),
        kind=st.sampled_from(FileKind),
        bytes=st.integers(0, 100),
        used_at=st.floats(0, AT),
        place=st.sampled_from([*PLACES]),
        in_use=st.booleans(),
        series=st.none() | st.sampled_from(["s", "t"]),
        artifact=st.none() | ARTIFACTS,
        standing=st.none() | st.sampled_from(Standing),
        games=st.none() | st.integers(0, 2),
        exported=st.booleans(),
        heirs_short=st.booleans(),
        wanted=st.none() | st.integers(1, 4),
        copies=COPIES,
    ),
    max_size=12,
)


@settings(max_examples=30)
@given(FILES, st.none() | st.integers(0, 500))
def test_nothing_unproved_is_ever_deleted(files: list[Found], need: int | None) -> None:
    made = plan(files, PLACES, RULES, AT, need)
    as_found = [replace(each, heirs_short=False) for each in files]
    assert all(each.found in as_found for each in made.deletions if each.found.artifact is None)
    for each in made.deletions:
        found = each.found
        assert found.kind is not FileKind.UNKNOWN
        assert not found.in_use
        is_empty = found.artifact is not None and found.artifact.kind is ArtifactKind.GAMES and found.games == 0
        if found.kind is FileKind.ARTIFACT and not is_empty:
            assert not found.heirs_short
            assert found.artifact is None or found.artifact.kind is not ArtifactKind.GAMES or found.exported
            assert len(each.proof) >= RULES.copies
        for copy in each.proof:
            assert copy in found.copies
            assert copy.place != found.place
            assert copy.verified_at is not None
            assert not copy.damaged
            assert PLACES[copy.place].keeps
            assert PLACES[copy.place].reachable
    stays = sum(count for count, _ in made.kept.values())
    assert need is not None or len(made.deletions) + stays == len(files)


NODES = {name: replace(place, node=place.node or name) for name, place in PLACES.items()}
"""Each place is on a node."""


@settings(max_examples=30)
@given(FILES, st.integers(0, 500))
def test_of_a_node_goes_what_was_not_used_for_longest_and_never_what_counts_or_is_needed(
    files: list[Found], need: int
) -> None:
    stock = [replace(each, kind=FileKind.STOCK, place=stock_of(each.place)) for each in files]
    for node in sorted({each.place for each in stock}):
        own = [replace(each, heirs_short=False) for each in stock if each.place == node]
        made = plan(own, NODES, RULES, AT, need)
        for each in made.deletions:
            found = each.found
            assert each.rule is Rule.CACHE
            assert found in own
            assert not found.in_use
            assert AT - found.used_at >= 3600
            assert len(each.proof) >= max(found.wanted or 99, RULES.copies)
            assert not {stock_of(NODES[copy.place].node or "") for copy in found.copies if copy.place in NODES} & {node}
            for copy in each.proof:
                assert copy.verified_at is not None
                assert 0 <= AT - copy.verified_at <= RULES.read_within_s
                assert not copy.damaged
                assert NODES[copy.place].keeps
                assert NODES[copy.place].reachable
        gone, whole = list(made.deletions), plan(own, NODES, RULES, AT).deletions
        assert [each.found.used_at for each in gone] == sorted(each.found.used_at for each in gone)
        assert gone == list(whole)[: len(gone)]
        assert sum(each.found.bytes for each in gone[:-1]) < max(need, 1), "no more than it takes"


@settings(max_examples=30)
@given(FILES)
def test_the_newest_checkpoints_are_in_no_plan(files: list[Found]) -> None:
    gone = {each.found.path for each in plan(files, PLACES, RULES, AT).deletions}
    for series in ("s", "t"):
        own = [each for each in files if each.kind is FileKind.CHECKPOINT and each.series == series]
        assert len([each for each in own if each.path not in gone]) >= min(len(own), RULES.checkpoints)
