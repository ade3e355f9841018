"""Listening to trainings: what is new is told once, what cannot be read is not told, and none keeps another waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hostler.model.errors import LinkLost
from hostler.model.inputs import RlTelemetry
from hostler.model.views import LogChunk
from hostler.runtime.hearing import Hearing
from hostler.web.rl.trails import FAULT_REST_S, Trails
from tests.web.rl.builders import line, output, told

pytestmark = pytest.mark.anyio


class Desk:
    """What it needs of a controller: outputs by attempt, and the time."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.outputs: dict[str, bytes] = {}
        self.told: list[RlTelemetry] = []
        self.learning: list[tuple[str, str]] = []

    def status(self) -> Desk:
        return self

    def now(self) -> float:
        self.at += 1.5
        return self.at

    async def log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        if attempt not in self.outputs:
            raise LinkLost("no route")
        whole = self.outputs[attempt]
        begin = max(len(whole) + offset, 0) if offset < 0 else offset
        data = whole[begin : begin + limit]
        return LogChunk(attempt=attempt, stream=stream, offset=begin, data=data, size=len(whole), ended=False)

    async def tell(self, *given: Any) -> Sequence[Any]:
        self.told += given
        return [None] * len(given)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError

    def hearing(self) -> Hearing:
        trails = Trails(self, self.now)  # type: ignore[arg-type]
        return Hearing(trails, lambda: self.learning, self.tell, self, lambda where, what: None)


async def test_what_is_new_is_told_once() -> None:
    desk = Desk()
    hearing = desk.hearing()
    desk.learning = [("j1", "j1.1"), ("j2", "j2.1"), ("j3", "j3.1")]
    desk.outputs = {"j1.1": output(3), "j3.1": b"not yet\n"}
    await hearing.listen()
    assert [(each.job, each.attempt, each.steps) for each in desk.told] == [("j1", "j1.1", 6000)]
    await hearing.listen()
    assert len(desk.told) == 1, "nothing is new"
    desk.outputs["j1.1"] += line(told(4))
    desk.outputs["j2.1"] = output(1)
    desk.at += FAULT_REST_S
    await hearing.listen()
    assert [(each.job, each.steps) for each in desk.told[1:]] == [("j1", 8000), ("j2", 2000)]


async def test_a_new_attempt_is_read_from_its_beginning() -> None:
    desk = Desk()
    hearing = desk.hearing()
    desk.learning, desk.outputs = [("j1", "j1.1")], {"j1.1": output(3), "j1.2": output(1)}
    await hearing.listen()
    desk.learning = [("j1", "j1.2")]
    await hearing.listen()
    desk.learning = []
    await hearing.listen()
    assert [(each.attempt, each.steps) for each in desk.told] == [("j1.1", 6000), ("j1.2", 2000)]
