"""Faults of requests are recorded at a bounded rate, and those of callers never."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import h11
import pytest

from hostler.model.errors import StoreFull
from hostler.model.inputs import Trouble
from hostler.web.request_faults import EQUAL_S, MINUTE_S, PER_MINUTE, RequestFaults


class Desk:
    def __init__(self) -> None:
        self.told: list[Trouble] = []
        self.refuses = False

    async def tell(self, given: Trouble) -> None:
        if self.refuses:
            raise StoreFull("no room")
        self.told.append(given)


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(at=1000.0)


@pytest.fixture
def faults(clock: SimpleNamespace) -> RequestFaults:
    return RequestFaults(lambda: clock.at)


async def note(faults: RequestFaults, desk: Any, where: str = "GET /x", what: str = "wrong") -> None:
    await faults.note(desk, where, ValueError(what))


async def test_equal_faults_are_recorded_once_and_counted(faults: RequestFaults, clock: SimpleNamespace) -> None:
    desk = Desk()
    for _ in range(50):
        await note(faults, desk)
    assert [(each.where, each.what) for each in desk.told] == [("GET /x", "ValueError: wrong")]
    clock.at += EQUAL_S
    await note(faults, desk)
    assert desk.told[1].what == "ValueError: wrong (49 more faults of requests since the one before)"


async def test_different_faults_are_bounded_by_the_minute(faults: RequestFaults, clock: SimpleNamespace) -> None:
    desk = Desk()
    for number in range(1000):
        await note(faults, desk, f"GET /{number}")
    assert len(desk.told) == PER_MINUTE
    clock.at += MINUTE_S
    await note(faults, desk, "GET /other")
    assert desk.told[-1].what.endswith("(990 more faults of requests since the one before)")


async def test_what_is_no_http_is_no_fault_of_the_controller(faults: RequestFaults) -> None:
    desk: Any = Desk()
    await faults.note(desk, "GET /healthz", h11.LocalProtocolError("can't handle event type Response"))
    assert desk.told == []


async def test_fault_that_cannot_be_recorded_raises_nothing(faults: RequestFaults) -> None:
    desk = Desk()
    desk.refuses = True
    await note(faults, desk)
    assert desk.told == []


async def test_long_fault_is_cut(faults: RequestFaults) -> None:
    desk = Desk()
    await note(faults, desk, what="x" * 10_000_000)
    assert len(desk.told[0].what) == 2000
