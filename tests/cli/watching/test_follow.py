"""Looking again and again: at once when something happens, through restarts, and never in the way of who shows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hostler.cli.watching import follow
from hostler.cli.watching.follow import Follower, Sight
from hostler.model.errors import CorruptState, LinkLost
from tests.integration.conftest import until

FOREVER_S = 1e6


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LEAST_S", 0.0)
    monkeypatch.setattr(follow, "AGAIN_S", 0.0)


class World:
    """Something to look at, whose answers are set by hand."""

    def __init__(self) -> None:
        self.value = 1
        self.error: Exception | None = None
        self.looks = 0
        self.streams = 0
        self.happened = threading.Semaphore(0)

    def look(self) -> int:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return self.value

    def stream(self) -> Iterator[dict[str, Any]]:
        self.streams += 1
        while True:
            self.happened.acquire()
            if self.error is not None:
                raise self.error
            yield {"seq": self.value}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.error = LinkLost("the test is over")  # threads that wait for something to happen end
    made.happened.release(10)


def following(world: World, every_s: float = FOREVER_S) -> Follower[int]:
    return Follower(0, world.look, world.stream, every_s, clock=lambda: 100.0 + world.looks)


def seen(follower: Follower[int], wanted: Callable[[Sight[int]], bool]) -> Sight[int]:
    """What is seen, once it is as wanted."""
    until(lambda: wanted(follower.sight), "what is wanted")
    return follower.sight


def test_something_that_happens_is_seen_though_no_look_is_due(world: World) -> None:
    with following(world) as follower:
        assert follower.sight == Sight(0, 100.0)
        world.happened.release()
        assert seen(follower, lambda sight: sight.seen == 1).lost is None
        assert [entry["seq"] for entry in follower.entries] == [1]
        world.value = 2
        world.happened.release()
        seen(follower, lambda sight: sight.seen == 2)


def test_without_events_it_looks_from_time_to_time(world: World) -> None:
    with following(world, every_s=0.01) as follower:
        until(lambda: world.looks > 3, "several looks")
        assert seen(follower, lambda sight: sight.seen == 1).lost is None


def test_what_is_lost_is_said_since_when_and_heals(world: World) -> None:
    with following(world) as follower:
        world.happened.release()
        before = seen(follower, lambda sight: sight.seen == 1)
        world.error = LinkLost("it hangs")
        world.happened.release()
        lost = seen(follower, lambda sight: sight.lost is not None)
        assert (lost.seen, lost.at, lost.lost and lost.lost[1]) == (1, before.at, "it hangs")
        looks = world.looks
        until(lambda: world.looks > looks + 2, "more looks: it is asked again by itself")
        assert follower.sight.lost is not None
        assert lost.lost is not None
        assert follower.sight.lost[0] == lost.lost[0], "since the first failure"
        world.value, world.error = 7, None
        assert seen(follower, lambda sight: sight.lost is None).seen == 7
        assert until(lambda: world.streams > 1, "the stream is taken up again")


def test_what_asking_again_does_not_heal_is_raised_where_it_is_shown(world: World) -> None:
    world.error = CorruptState("nonsense")
    with following(world, every_s=0.0) as follower, pytest.raises(CorruptState, match="nonsense"):
        until(lambda: follower.sight.seen == 1, "an error")


def test_a_look_that_takes_long_is_followed_by_a_long_rest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much happens: 1 s of answering is followed by 4 s of rest."""
    clock = iter(range(10**6))
    monkeypatch.setattr(follow.time, "monotonic", lambda: float(next(clock)))
    rests: list[float] = []
    follower = following(world, every_s=0.0)
    follower._closed.wait = lambda rest=None: bool(rests.append(rest or 0.0)) or len(rests) > 2  # type: ignore[method-assign]
    follower._keep_looking()
    assert rests == [0.0, 4.0, 4.0]
