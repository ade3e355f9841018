"""A node whose machine is about to go is given nothing more, let go when it is empty, and used when it is back."""

from __future__ import annotations

from hostler.model import events, inputs
from hostler.model.commands import LetGo
from hostler.model.work import JobState
from tests.core.builders import Driver, ended, fleet, link_up, script

WHY = "its machine is about to go"


def going(world: Driver) -> None:
    world.tell(inputs.NodeGoes(node="n", why=WHY))


def let_go(world: Driver) -> list[str]:
    return [each.node for each in world.commands if isinstance(each, LetGo)]


def test_it_is_emptied_and_let_go_once_nothing_is_left_on_it() -> None:
    world = fleet(devices=1)
    runs, waits = world.submit(script("a"), script("b"))
    going(world)
    assert let_go(world) == []
    world.tell(ended(f"{runs}.1", reason="stopped", exit_code=None))
    assert let_go(world) == ["n"]
    assert (world.job_state(runs), world.job_state(waits)) == (JobState.PENDING, JobState.PENDING)
    assert not world.state.jobs[runs].failures


def test_one_that_has_nothing_is_let_go_at_once() -> None:
    world = fleet(devices=1)
    going(world)
    assert let_go(world) == ["n"]
    going(world)
    assert not world.events


def test_back_again_it_takes_work_again() -> None:
    world = fleet(devices=1)
    going(world)
    (waits,) = world.submit(script("a"))
    world.tell(link_up(incarnation=1))
    assert not world.of(events.NodeResumed), "the same agent is still about to go"
    world.tell(link_up(incarnation=2))
    assert [each.node for each in world.of(events.NodeResumed)] == ["n"]
    assert world.job_state(waits) is not JobState.PENDING


def test_what_somebody_said_of_it_stays() -> None:
    world = fleet(devices=1)
    world.tell(inputs.CordonNode(node="n", who="ada", why="new fan"))
    going(world)
    assert (world.state.cordons["n"].who, let_go(world)) == ("ada", [])
    world.tell(link_up(incarnation=2))
    assert world.state.cordons["n"].who == "ada"


def test_of_a_node_that_nobody_knows_nothing_follows() -> None:
    world = fleet(devices=1)
    world.tell(inputs.NodeGoes(node="elsewhere", why=WHY))
    assert not world.events
