"""Copies: what counts, what is missing, what is copied first, and that doing as it says comes to what is wanted."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from hostler.model.artifacts import Copy, Place, ReplicationRules, Standing, Wanted
from hostler.policy import replication
from hostler.policy.replication import Held, Urgency, shortfall, transfers

AT = 10_000.0
RULES = ReplicationRules()
HUB = "controller"
HERE = Place(name=HUB, domain="home")
BUCKET = Place(name="bucket", domain="s3")
SHELF = Place(name="shelf", domain="home")
RENTED = Place(name="rented", domain="vast", keeps=False)
PLACES = {each.name: each for each in (HERE, BUCKET, SHELF, RENTED)}

NAMES = st.integers(0, 2**64).map(lambda number: f"{number:064x}")
FLEETS = st.lists(
    st.builds(
        Place,
        name=st.sampled_from(["a", "b", "c", "d", "e", HUB]),
        domain=st.sampled_from(["x", "y", "z"]),
        keeps=st.booleans(),
        takes=st.booleans(),
        reachable=st.booleans(),
        free_bytes=st.none() | st.integers(0, 2000),
    ),
    max_size=6,
    unique_by=lambda place: place.name,
).map(lambda places: {place.name: place for place in places})
COPIES = st.lists(
    st.builds(
        Copy,
        place=st.sampled_from(["a", "b", "c", "d", "e", "gone", HUB]),
        verified_at=st.none() | st.floats(0, AT),
        damaged=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda copy: copy.place,
).map(tuple)
HELD = st.builds(
    Held,
    sha256=NAMES,
    bytes=st.integers(0, 3000),
    standing=st.sampled_from(Standing),
    made_at=st.floats(0, AT),
    copies=COPIES,
)


def held(*places: str, standing: Standing = Standing.GAMES, name: str = "a" * 64, verified: bool = True) -> Held:
    copies = tuple(Copy(place=place, verified_at=AT if verified else None) for place in places)
    return Held(sha256=name, bytes=100, standing=standing, made_at=AT, copies=copies)


def test_games_want_two_copies_in_two_domains() -> None:
    assert shortfall(held(HUB, "bucket"), PLACES, AT, RULES).is_met
    one = shortfall(held(HUB), PLACES, AT, RULES)
    assert (one.copies, one.domains, one.why) == (1, 1, None)
    same = shortfall(held(HUB, "shelf"), PLACES, AT, RULES)
    assert (same.copies, same.domains) == (0, 1)


def test_what_may_vanish_is_no_copy_and_goes_first() -> None:
    only_there = held("rented")
    assert replication.is_at_risk(only_there, PLACES, AT, RULES)
    model = held(HUB, standing=Standing.MODEL, name="b" * 64)
    first, second = transfers([model, only_there], PLACES, AT, RULES)
    assert (first.source, first.target, first.urgency) == ("rented", HUB, Urgency.AT_RISK)
    assert first.due_at == AT + replication.URGENT_S
    assert (second.source, second.target, second.urgency) == (HUB, "bucket", Urgency.MODEL)


def test_another_domain_is_found_before_another_place_in_the_same() -> None:
    for number in range(20):
        (next_,) = transfers([held(HUB, name=f"{number:064x}")], PLACES, AT, RULES)
        assert next_.target == "bucket"


def test_a_copy_that_was_not_read_for_long_counts_no_more_and_is_read_before_another_is_made() -> None:
    late = AT + RULES.verified_within_s + 1
    old = replace(held(HUB, "bucket"), standing=Standing.DATASET)
    assert shortfall(old, PLACES, late, RULES).copies == 1
    assert replication.unread(old, PLACES, late, RULES) == (HUB, "bucket")
    assert replication.unread(old, PLACES, AT, RULES) == ()


def test_what_cannot_be_done_is_said() -> None:
    alone = {HUB: HERE}
    assert "1 places that keep" in (shortfall(held(HUB), alone, AT, RULES).why or "")
    near = {HUB: HERE, "shelf": SHELF}
    assert "failure domains" in (shortfall(held(HUB), near, AT, RULES).why or "") or (
        shortfall(held(HUB), near, AT, RULES).copies == 1
    )
    both = shortfall(held(HUB, "shelf"), near, AT, RULES)
    assert "failure domains" in (both.why or "")
    full = {**near, "bucket": replace(BUCKET, free_bytes=99)}
    assert "has room" in (shortfall(held(HUB, "shelf"), full, AT, RULES).why or "")
    cut = {name: replace(place, reachable=False) for name, place in PLACES.items()}
    assert shortfall(held(HUB), cut, AT, RULES).why == "no place that has it can be reached"


def test_what_lies_elsewhere_only_comes_home_before_it_goes_anywhere() -> None:
    """It was read where it is not, and was taken for gone where it was."""
    far = held("bucket", standing=Standing.MODEL)
    (home,) = transfers([far], PLACES, AT, RULES)
    assert (home.source, home.target) == ("bucket", HUB)
    full = {**PLACES, HUB: replace(HERE, takes=False)}
    assert transfers([far], full, AT, RULES) == []
    assert "own disk" in (shortfall(far, full, AT, RULES).why or "")


@settings(max_examples=30)
@given(st.lists(HELD, max_size=6, unique_by=lambda each: each.sha256), FLEETS)
def test_a_transfer_goes_from_where_it_is_to_where_it_is_not_and_has_room(
    open_: list[Held], places: dict[str, Place]
) -> None:
    known = {each.sha256: each for each in open_}
    found = transfers(open_, places, AT, RULES)
    assert [each.urgency for each in found] == sorted(each.urgency for each in found)
    for each in found:
        artifact = known[each.sha256]
        whole = {copy.place for copy in artifact.copies if not copy.damaged}
        source, target = places[each.source], places[each.target]
        assert each.source in whole
        assert source.reachable
        assert each.target not in whole
        assert HUB in (each.source, each.target), "two stores do not reach each other"
        assert target.keeps
        assert target.takes
        assert target.reachable
        assert target.free_bytes is None or target.free_bytes >= artifact.bytes
        assert not shortfall(artifact, places, AT, RULES).is_met


@settings(max_examples=30)
@given(HELD, FLEETS)
def test_done_as_it_says_there_is_what_is_wanted_or_it_says_why_not(artifact: Held, places: dict[str, Place]) -> None:
    """Every transfer that comes to be brings it nearer, and none is asked for twice."""
    for _ in range(2 * len(places) + 1):
        for name in replication.unread(artifact, places, AT, RULES):
            others = tuple(copy for copy in artifact.copies if copy.place != name)
            artifact = replace(artifact, copies=(*others, Copy(place=name, verified_at=AT)))
        found = transfers([artifact], places, AT, RULES)
        if not found:
            break
        others = tuple(copy for copy in artifact.copies if copy.place != found[0].target)
        artifact = replace(artifact, copies=(*others, Copy(place=found[0].target, verified_at=AT)))
    missing = shortfall(artifact, places, AT, RULES)
    assert not transfers([artifact], places, AT, RULES)
    assert missing.is_met or missing.why is not None


@settings(max_examples=30)
@given(HELD, FLEETS, st.integers(1, 5))
def test_more_wanted_is_never_less_missing(artifact: Held, places: dict[str, Place], more: int) -> None:
    wanted = RULES.wanted[artifact.standing]
    greedy = replace(RULES, wanted={**RULES.wanted, artifact.standing: Wanted(copies=wanted.copies + more)})
    assert shortfall(artifact, places, AT, greedy).copies >= shortfall(artifact, places, AT, RULES).copies
