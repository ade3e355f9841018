"""Segments that are closed while their self-play goes on: fetched, counted once, lost by name."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostler.agent.interim import Interim
from hostler.core.loop import closing
from hostler.core.readings import readings
from hostler.core.state import Job
from hostler.model import events, inputs
from hostler.model.commands import Collect, Launch, Secure
from hostler.model.work import JobState, WorkKind
from tests.core.builders import ended, link_up, node, replayed
from tests.core.loop.builders import Loop, loop, small

S = WorkKind.SELFPLAY


class Apart(Loop):
    """A loop on a node with files of its own, which come as soon as they are asked for when an attempt has ended."""

    def step(self) -> None:
        """As ever; then what is to be fetched has come."""
        super().step()
        while fetched := [inputs.Fetched(attempt=each.attempt) for each in self.commands if isinstance(each, Collect)]:
            self.tell(*fetched)


def apart(**fields: Any) -> Apart:
    """A loop on such a node."""
    world = Apart()
    found = inputs.NodeFound(node=replace(node(devices=1), apart=True, **fields))
    world.tell(inputs.Begin(version="test", epoch=1), found, link_up())
    world.tell(inputs.Declare(configs=(small(),)))
    return world


def numbered(world: Loop, job: Job) -> dict[str, Any]:
    """What the lab would report, with the games that each segment holds."""
    told, first, segments = world.report(job), 0, []
    for each in told["segments"]:
        last = first + each["games"] - 1
        segments.append({**each, "numbers": f"{first}-{last}"})
        first = last + 1
    return {**told, "segments": segments}


def part(world: Loop, job: Job, count: int, first: int = 0) -> dict[str, Any]:
    """The report on some of its segments."""
    told = numbered(world, job)
    segments = told["segments"][first : first + count]
    sums = {name: sum(each[name] for each in segments) for name in ("games", "positions")}
    return {**told, "segments": segments, **sums}


def names(told: dict[str, Any]) -> tuple[str, ...]:
    return tuple(each["sha256"] for each in told["segments"])


def so_far(world: Loop, job: Job, told: dict[str, Any]) -> None:
    assert job.attempt is not None
    world.tell(inputs.SoFar(attempt=job.attempt.id, result=told))


def secured(world: Loop, attempt: str, *artifacts: str) -> None:
    world.tell(inputs.Secured(attempt=attempt, artifacts=artifacts))


def games(world: Loop) -> int:
    return sum(segment.games for segment in world.config().segments.values())


def secures(world: Loop) -> list[Secure]:
    return [each for each in world.commands if isinstance(each, Secure)]


class TestOnANodeWithFilesOfItsOwn:
    def test_what_is_closed_is_fetched_at_once_and_counts_when_it_is_here(self) -> None:
        world = apart()
        job = world.until_running(S)
        told = part(world, job, 2)
        so_far(world, job, {**told, "cpu_s": 10.0})
        assert [(each.attempt, each.artifacts) for each in secures(world)] == [(f"{job.id}.1", names(told))]
        assert (games(world), closing.at_risk(world.state)) == (0, {"n": 16})
        secured(world, f"{job.id}.1", names(told)[0])
        assert (games(world), closing.at_risk(world.state)) == (8, {"n": 8})
        secured(world, f"{job.id}.1", names(told)[1])
        assert (games(world), closing.at_risk(world.state)) == (16, {})
        assert [each.cpu_s for each in world.config().segments.values()] == [5.0, 5.0]

    def test_only_what_is_new_is_asked_for(self) -> None:
        world = apart()
        job = world.until_running(S)
        so_far(world, job, part(world, job, 1))
        secured(world, f"{job.id}.1", *names(part(world, job, 1)))
        so_far(world, job, part(world, job, 1))
        assert not secures(world)
        so_far(world, job, part(world, job, 3))
        assert [each.artifacts for each in secures(world)] == [names(part(world, job, 2, first=1))]

    def test_the_end_counts_every_game_once_and_fetches_the_rest_alone(self) -> None:
        world = apart()
        job = world.until_running(S)
        whole = numbered(world, job)
        so_far(world, job, part(world, job, 3))
        secured(world, f"{job.id}.1", *names(part(world, job, 2)))
        world.tell(ended(f"{job.id}.1", result=whole))
        (fetched,) = [each.fetch.artifacts for each in world.commands if isinstance(each, Collect)]
        assert sorted(fetched) == sorted(names(whole)[2:])
        secured(world, f"{job.id}.1", names(whole)[2])  # on its way when the end came
        world.tell(inputs.Fetched(attempt=f"{job.id}.1"))
        assert world.job_state(job.id) is JobState.DONE
        assert games(world) == whole["games"]
        assert not world.config().closing

    def test_what_dies_with_the_node_is_named_and_its_games_are_played_again(self) -> None:
        world = apart()
        job = world.until_running(S)
        whole = numbered(world, job)
        so_far(world, job, part(world, job, 3))
        secured(world, f"{job.id}.1", *names(part(world, job, 2)))
        world.tell(link_up(agent="another"))
        (lost,) = world.of(events.SegmentsLost)
        assert [each.sha256 for each in lost.segments] == [names(whole)[2]]
        assert not world.config().closing
        world.until(lambda: world.state.jobs[job.id].attempt is not None)
        (order,) = [each.order for each in world.commands if isinstance(each, Launch)]
        assert order.inputs is not None
        told = order.inputs["closed"]["segments"]
        assert [(each["sha256"], each["numbers"]) for each in told] == [
            (each["sha256"], each["numbers"]) for each in whole["segments"][:2]
        ]
        world.tell(ended(f"{job.id}.2", result=whole))
        world.tell(inputs.Fetched(attempt=f"{job.id}.2"))
        assert (world.job_state(job.id), games(world)) == (JobState.DONE, whole["games"])

    def test_a_result_that_leaves_out_what_counts_is_refused(self) -> None:
        world = apart()
        job = world.until_running(S)
        whole = numbered(world, job)
        so_far(world, job, part(world, job, 1))
        secured(world, f"{job.id}.1", names(whole)[0])
        world.tell(link_up(agent="another"))
        world.until(lambda: world.state.jobs[job.id].attempt is not None)
        other = {**whole["segments"][0], "sha256": "f" * 64}
        world.tell(ended(f"{job.id}.2", result={**whole, "segments": [other, *whole["segments"][1:]]}))
        world.tell(inputs.Fetched(attempt=f"{job.id}.2"))
        assert world.job_state(job.id) is JobState.FAILED
        assert "would count twice" in (world.state.jobs[job.id].why or "")
        assert games(world) == 8

    def test_after_a_cut_link_what_is_not_here_is_asked_for_again(self) -> None:
        world = apart()
        job = world.until_running(S)
        so_far(world, job, part(world, job, 2))
        world.tell(inputs.LinkDown(node="n", why="cut"))
        assert closing.at_risk(world.state) == {"n": 16}
        world.tell(link_up(attempts=(f"{job.id}.1",)))
        assert [each.artifacts for each in secures(world)] == [names(part(world, job, 2))]

    @pytest.mark.parametrize("how", [{"signal": 9}, {"exit_code": None, "reason": "lost"}], ids=str)
    def test_an_end_that_tells_of_nothing_leaves_nothing_to_wait_for(self, how: dict[str, Any]) -> None:
        world = apart()
        job = world.until_running(S)
        so_far(world, job, part(world, job, 2))
        world.tell(ended(f"{job.id}.1", **how))
        assert [len(each.segments) for each in world.of(events.SegmentsLost)] == [2]
        assert not world.config().closing

    def test_one_that_is_cancelled_waits_for_nothing(self) -> None:
        world = apart()
        job = world.until_running(S)
        so_far(world, job, part(world, job, 2))
        world.tell(inputs.Cancel(job=job.id, reason="not wanted"))
        so_far(world, job, part(world, job, 3))
        assert not secures(world)
        world.tell(ended(f"{job.id}.1", reason="stopped", exit_code=None))
        assert world.job_state(job.id) is JobState.CANCELLED
        assert not world.config().closing

    def test_what_cannot_be_believed_is_left_to_the_end(self) -> None:
        world = apart()
        job = world.until_running(S)
        told = part(world, job, 2)
        unnumbered = [{name: each[name] for name in each if name != "numbers"} for each in told["segments"]]
        wrong: list[Any] = [
            None, [], {**told, "games": 3}, {**told, "segments": "all"}, {**told, "segments": unnumbered},
        ]  # fmt: skip
        for said in wrong:
            world.tell(inputs.SoFar(attempt=f"{job.id}.1", result=said))
            assert not world.events, said
        world.tell(inputs.SoFar(attempt="j999.1", result=told), inputs.Secured(attempt="j999.1", artifacts=()))
        assert not world.events

    def test_games_at_risk_are_shown_and_measured(self) -> None:
        world = apart()
        job = world.until_running(S)
        so_far(world, job, part(world, job, 2))
        shown = readings(world.state, world.core.index, world.now, "test", "test").nodes[0]
        assert shown.games_at_risk == 16


class TestOnThisMachine:
    def test_what_is_closed_counts_at_once(self) -> None:
        world = loop()
        job = world.until_running(S)
        so_far(world, job, part(world, job, 2))
        assert (games(world), secures(world)) == (16, [])
        world.end(job, numbered(world, job), exit_code=0)
        assert (world.job_state(job.id), games(world)) == (JobState.DONE, 32)

    def test_ephemeral_nodes_tell_more_often(self) -> None:
        world = apart()
        job = world.until_running(S)
        assert [each.order.tell_s for each in world.commands if isinstance(each, Launch)] == [60.0]
        world.tell(inputs.NodeFound(node=replace(node(devices=1), apart=True, ephemeral=True)))
        world.tell(ended(f"{job.id}.1", reason="stopped", exit_code=None))
        world.until(lambda: world.running(S))
        assert [each.order.tell_s for each in world.commands if isinstance(each, Launch)] == [1.0]


class Passing:
    """Time of an agent that passes when somebody says so; it is the agent's loop, and its node."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    @property
    def loop(self) -> Passing:
        return self

    def monotonic(self) -> float:
        return self.now

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, call))

    def until(self, at: float) -> None:
        """Whatever is due until then is done, in its order."""
        while self.due and min(due for due, _ in self.due) <= at:
            self.due.sort(key=itemgetter(0))
            self.now, call = self.due.pop(0)
            call()
        self.now = at


class Left:
    """The attempts of an agent: one that runs, and rewrites its result."""

    def __init__(self, name: str, tell_s: float, path: Path) -> None:
        self.path = path
        spec = SimpleNamespace(id=name, tell_s=tell_s, result_bytes=1 << 20)
        self.live = {name: SimpleNamespace(spec=spec, process=object())}

    def result_path(self, _: str) -> str:
        return str(self.path)

    def leave(self, told: dict[str, Any]) -> None:
        """As stages do: under another name first."""
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps(told))
        draft.rename(self.path)


@pytest.mark.parametrize("seed", range(5))
def test_on_an_ephemeral_node_what_is_closed_is_asked_for_within_a_second(tmp_path: Path, seed: int) -> None:
    """The agent of an order looks every second, and the core asks in the moment in which it hears of it.

    So the five seconds in which closed segments are pulled are four for the way, by construction.
    """
    world, time, chance = apart(ephemeral=True), Passing(), random.Random(seed)
    job = world.until_running(S)
    (order,) = [each.order for each in world.commands if isinstance(each, Launch)]
    assert order.tell_s == 1.0
    left, asked, heard = Left(order.id, order.tell_s, tmp_path / "result.json"), dict[str, float](), [0.0]

    def hear(message: dict[str, Any]) -> None:
        world.tell(inputs.SoFar(attempt=message["attempt"], result=message["result"]), after_s=time.now - heard[0])
        heard[0] = time.now
        asked.update((name, time.now) for each in secures(world) for name in each.artifacts)

    Interim(time, left, hear).look()  # type: ignore[arg-type]
    closed = {}
    for count, name in enumerate(names(numbered(world, job)), start=1):
        time.until(time.now + chance.uniform(0.0, 3.0))
        left.leave(part(world, job, count))
        closed[name] = time.now
    time.until(time.now + 10.0)
    assert asked.keys() == closed.keys()
    assert max(asked[name] - closed[name] for name in closed) <= 1.0


@pytest.mark.parametrize("numbers", ["0-6", "8-15", "60-67", "7-0", "0-999999999"])
def test_numbers_that_cannot_be_are_not_believed(numbers: str) -> None:
    """Whoever went on with the order would be told of them, and could not."""
    world = apart()
    job = world.until_running(S)
    told = part(world, job, 2)
    first, second = told["segments"]
    so_far(world, job, {**told, "segments": [{**first, "numbers": numbers}, second]})
    assert not secures(world)
    assert not world.config().closing
    whole = numbered(world, job)
    world.tell(
        ended(f"{job.id}.1", result={**whole, "segments": [{**first, "numbers": numbers}, *whole["segments"][1:]]})
    )
    assert not world.config().segments
    assert world.state.jobs[job.id].state is not JobState.DONE


def test_what_was_closed_survives_a_restart_of_the_controller() -> None:
    world = apart()
    job = world.until_running(S)
    so_far(world, job, part(world, job, 2))
    world.core = replayed(world.entries)
    assert closing.at_risk(world.state) == {"n": 16}
    world.tell(inputs.Begin(version="test", epoch=2, nodes=("n",)), link_up(attempts=(f"{job.id}.1",)))
    assert [each.artifacts for each in secures(world)] == [names(part(world, job, 2))]
