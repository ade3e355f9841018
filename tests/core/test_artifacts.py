"""What is read of copies becomes facts, and only that; the state stays as large as it was."""

from __future__ import annotations

from hostler.core import Core
from hostler.model.errors import UsageError
from hostler.model.events import CopiesDamaged, CopiesGone, CopiesVerified, PlaceGone
from hostler.model.inputs import Asked, CopiesTold, GivePlaceUp, Input, ReadCopies

RIGHT, WRONG, AWAY = ("a" * 64,), ("b" * 64,), ("c" * 64,)


def told(core: Core, given: Input) -> list[object]:
    outcome = core.handle(1.0, given)
    core.validate()
    return [entry.event for entry in outcome.entries]


def test_each_finding_is_a_fact() -> None:
    found = CopiesTold(place="bucket", verified=RIGHT, damaged=WRONG, gone=AWAY, why="read by the scrubber")
    assert told(Core(), found) == [
        CopiesVerified(place="bucket", artifacts=RIGHT),
        CopiesDamaged(place="bucket", artifacts=WRONG, why="read by the scrubber"),
        CopiesGone(place="bucket", artifacts=AWAY, why="read by the scrubber"),
    ]


def test_to_have_found_nothing_is_no_fact() -> None:
    assert told(Core(), CopiesTold(place="bucket")) == []


def test_who_gives_a_place_up_says_why() -> None:
    assert told(Core(), GivePlaceUp(place="rig-1", who="me", why="burnt")) == [
        PlaceGone(place="rig-1", who="me", why="burnt")
    ]
    core = Core()
    outcome = core.handle(1.0, GivePlaceUp(place="rig-1", who="me", why=" "))
    assert isinstance(outcome.answers[0], UsageError)
    assert not outcome.entries


def test_that_copies_are_to_be_read_is_on_record_and_a_repetition_knows_since_when() -> None:
    core = Core()
    asked = Asked(who="me", what="verify", key="one", fingerprint="f", given=ReadCopies(artifact=RIGHT[0]))
    first = core.handle(5.0, asked)
    assert [entry.event.kind for entry in first.entries] == ["request.accepted"]
    again = core.handle(9.0, asked)
    assert (first.answers[0], again.answers[0], list(again.entries)) == (5.0, 5.0, [])
