"""Cordon, drain and resume of single devices: what they are given, when that ends, and how it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hostler.core import shown
from hostler.core.explain import explain_job
from hostler.core.explain_device import explain_device
from hostler.core.listed import fleet_view, placed_device
from hostler.core.readings import readings
from hostler.core.views import status_view
from hostler.model import commands, events, inputs
from hostler.model.errors import BrokenInvariant, NotFound
from hostler.model.views import CordonView
from hostler.model.work import JobState, Resources
from tests.core.builders import Driver, ended, fleet, link_up, replayed, script, snapshot, sweep

FIRST, SECOND = "n/cpu0", "n/cpu1"
CORDON = inputs.CordonDevice(device=FIRST, why="a game tonight", who="anna")
DRAIN = inputs.CordonDevice(device=FIRST, drain=True)
RESUME = inputs.ResumeDevice(device=FIRST, who="anna")
HOUR_S = 3600.0


def placed(world: Driver) -> list[str]:
    """The devices that work was put on by the last inputs."""
    leased = [event.device for event in world.of(events.AttemptLeased)]
    return [*leased, *(event.device for event in world.of(events.ChunkLeased))]


def cordon_of(world: Driver) -> CordonView:
    view = placed_device(world.state, world.core.index, world.state.devices[FIRST]).device.cordon
    assert view is not None
    return view


def test_a_cordoned_device_is_given_nothing_new_and_its_neighbour_is() -> None:
    world = fleet(devices=2)
    assert [event.kind for event in world.tell(CORDON)] == ["device.cordoned"]
    world.submit(script(), script(), sweep())
    assert set(placed(world)) == {SECOND}
    world.core.validate()
    assert replayed(world.entries).state == world.state


def test_what_runs_on_a_cordoned_device_runs_on() -> None:
    world = fleet(devices=1)
    world.submit(script())
    world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    world.tell(CORDON)
    assert world.commands == []
    world.submit(script())
    world.tell(ended("j1.1"))
    assert world.job_state("j1") is JobState.DONE
    assert placed(world) == []


def test_a_resumed_device_is_given_work_again() -> None:
    world = fleet()
    world.tell(CORDON)
    world.submit(script())
    assert [event.kind for event in world.tell(RESUME)][:2] == ["device.resumed", "attempt.leased"]
    (resumed,) = world.of(events.DeviceResumed)
    assert (resumed.who, resumed.expired) == ("anna", False)


def test_saying_it_twice_is_no_error_and_no_event() -> None:
    world = fleet()
    for wish in (RESUME, CORDON):
        world.tell(wish)
        assert world.tell(wish) == []
        assert world.answers == [None]
    (again,) = world.tell(inputs.CordonDevice(device=FIRST, why="it burns", who="bob"))
    assert isinstance(again, events.DeviceCordoned)
    assert (again.why, again.who, again.drain, again.until) == ("it burns", "bob", False, None)


@pytest.mark.parametrize("given", [inputs.CordonDevice(device="n/cuda7"), inputs.ResumeDevice(device="n")])
def test_an_unknown_device_is_not_found_and_the_known_ones_are_named(given: inputs.Input) -> None:
    world = fleet(devices=2)
    assert world.tell(given) == []
    assert isinstance(world.answers[0], NotFound)
    assert "it has n/cpu0, n/cpu1" in str(world.answers[0])


def test_a_cordon_expires_by_itself() -> None:
    world = fleet()
    world.tell(inputs.CordonDevice(device=FIRST, for_s=HOUR_S))
    until = cordon_of(world).until
    assert until is not None
    world.submit(script())
    assert placed(world) == []
    due = world.core.wake_at()
    assert due is not None
    assert due <= until
    world.now = until - 2.0
    world.tell(inputs.Tick())
    assert world.of(events.DeviceResumed) == []
    world.now = until
    world.tell(inputs.Tick())
    (over,) = world.of(events.DeviceResumed)
    assert (over.who, over.expired) == (None, True)
    assert placed(world) == [FIRST]


def test_a_later_end_replaces_the_former_one_and_none_keeps_it() -> None:
    world = fleet()
    world.tell(inputs.CordonDevice(device=FIRST, for_s=HOUR_S))
    first = cordon_of(world).until
    assert world.tell(inputs.CordonDevice(device=FIRST)) == [], "the end that is known stays"
    world.tell(inputs.CordonDevice(device=FIRST, for_s=3 * HOUR_S))
    second = cordon_of(world).until
    assert first is not None
    assert second is not None
    assert second > first + HOUR_S
    world.now = first + 1.0
    world.tell(inputs.Tick())
    assert world.of(events.DeviceResumed) == []
    world.now = second
    world.tell(inputs.Tick())
    assert len(world.of(events.DeviceResumed)) == 1


@pytest.mark.parametrize("is_over", [False, True])
def test_a_cordon_expires_after_a_restart(is_over: bool) -> None:
    world = fleet()
    world.tell(inputs.CordonDevice(device=FIRST, for_s=HOUR_S))
    until = cordon_of(world).until
    assert until is not None
    began = until + 60.0 if is_over else world.now
    again = Driver(replayed((), snapshot(world.state)), now=began)
    again.tell(inputs.Begin(version="test", epoch=2), link_up())
    assert len(again.of(events.DeviceResumed)) == int(is_over)
    again.now = max(until, again.now)
    again.submit(script())
    assert FIRST not in again.state.device_cordons
    assert placed(again) == [FIRST]


def test_a_drained_device_is_recorded_once() -> None:
    world = fleet(devices=2)
    world.submit(script(), script())
    assert [event.kind for event in world.tell(DRAIN)] == ["device.cordoned"]
    assert cordon_of(world).state == "draining"
    held = world.state.devices[FIRST].attempts[0]
    world.tell(ended(held))
    assert len(world.of(events.DeviceDrained)) == 1
    assert cordon_of(world).state == "drained"
    assert world.tell(inputs.Tick()) == world.tell(DRAIN) == []
    assert replayed(world.entries).state == world.state


def test_an_idle_device_is_drained_at_once() -> None:
    assert [event.kind for event in fleet().tell(DRAIN)] == ["device.cordoned", "device.drained"]


def test_chunks_behind_the_one_at_work_are_recalled() -> None:
    world = fleet()
    world.submit(sweep())
    first, behind = world.state.devices[FIRST].chunks
    world.tell(CORDON)
    assert [each.chunk for each in world.commands if isinstance(each, commands.Recall)] == [behind]
    world.tell(world.returned(behind, reason="recalled"))
    world.tell(world.searched(first))
    assert world.of(events.ChunkLeased) == []
    assert world.state.devices[FIRST].chunks == []


def test_chunks_that_a_cordoned_device_never_got_are_recalled_when_its_node_answers() -> None:
    world = fleet()
    world.submit(sweep())
    first, behind = world.state.devices[FIRST].chunks
    world.tell(inputs.LinkDown(node="n", why="cut"))
    world.tell(CORDON)
    world.tell(link_up(chunks=[first]))
    assert [each.chunk for each in world.commands if isinstance(each, commands.Recall)] == [behind]


def test_a_device_of_a_resumed_node_stays_cordoned_and_the_other_way_round() -> None:
    world = fleet()
    world.tell(CORDON, inputs.CordonNode(node="n"))
    world.submit(script())
    world.tell(inputs.ResumeNode(node="n"))
    assert placed(world) == []
    world.tell(inputs.CordonNode(node="n"))
    world.tell(RESUME)
    assert placed(world) == []
    world.tell(inputs.ResumeNode(node="n"))
    assert placed(world) == [FIRST]


def test_work_on_several_devices_waits_for_those_that_are_not_cordoned() -> None:
    world = fleet(devices=2)
    world.tell(CORDON)
    world.submit(script(resources=Resources(gpus=2)))
    assert placed(world) == []
    world.tell(RESUME)
    assert len(placed(world)) == 1


def test_a_cordon_survives_another_description_of_the_node() -> None:
    world = fleet()
    world.tell(CORDON)
    world.tell(inputs.NodeFound(node=fleet(devices=2).state.nodes["n"].spec))
    world.submit(script(), script())
    assert placed(world) == [SECOND]
    world.tell(inputs.NodeFound(node=fleet(devices=1).state.nodes["n"].spec))
    world.core.validate()


def test_a_device_that_is_in_the_fleet_no_more_can_be_resumed() -> None:
    world = fleet(devices=2)
    world.tell(inputs.CordonDevice(device=SECOND))
    world.tell(inputs.NodeFound(node=fleet(devices=1).state.nodes["n"].spec))
    assert [event.kind for event in world.tell(inputs.ResumeDevice(device=SECOND))] == ["device.resumed"]
    world.core.validate()


def test_a_cordon_of_a_device_is_shown_everywhere() -> None:
    world = fleet()
    world.tell(inputs.CordonDevice(device=FIRST, why="a game tonight", who="anna", for_s=HOUR_S))
    world.submit(script(), sweep())
    index, said = world.core.index, "n/cpu0 is cordoned by anna: a game tonight"
    view = cordon_of(world)
    (ban,) = shown.bans(world.state, index)
    assert (ban.kind, ban.what, ban.owner, ban.until) == ("cordon", FIRST, "anna", view.until)
    assert "`hostler device resume n/cpu0` ends it" in ban.why
    for name in ("j1", "j2"):
        told = explain_job(world.state, index, world.state.jobs[name])
        assert told.gates == {"cordon": 1}
        assert said in told.devices[FIRST]
        (change,) = [each for each in told.changes if "hostler device resume n/cpu0" in each.what]
        assert change.at == view.until
        assert not any("hostler node resume" in each.what for each in told.changes)
    assert said.removeprefix("n/cpu0 ") in explain_device(world.state, index, world.state.devices[FIRST]).summary
    assert fleet_view(world.state, index, world.now).totals.devices_barred == 1
    assert status_view(world.state, index, "0", "f").devices_cordoned == 1
    assert [each.cordoned for each in readings(world.state, index, world.now, "0", "f").devices] == [True]
    assert (view.state, view.who, view.why, view.now) == ("cordoned", "anna", "a game tonight", False)


def test_work_that_is_put_on_a_cordoned_device_all_the_same_is_found() -> None:
    world = fleet()
    world.submit(script())
    world.tell(CORDON)
    attempt = world.state.jobs["j1"].attempt
    assert attempt is not None
    attempt.leased_at = world.now + 1.0
    with pytest.raises(BrokenInvariant, match=r"j1\.1 was put on n/cpu0, which has been cordoned"):
        world.core.validate()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["cordon", "drain", "for", "resume", "node", "node back", "work", "end"]), st.integers(0, 2)
    ),
    max_size=25,
)


@given(STEPS)
def test_no_cordoned_device_is_given_work_whatever_happens(steps: list[tuple[str, int]]) -> None:
    world = fleet(devices=3)
    for what, at in steps:
        name = f"n/cpu{at}"
        before = {each: list(device.attempts) for each, device in world.state.devices.items()}
        if what == "end":
            world.tell(*(ended(attempt) for attempt in before[name][:1]))
        elif what == "work":
            world.submit(script(), script(resources=Resources(gpus=at + 1)))
        else:
            world.tell(given_by(what, name), after_s=400.0)
        for each, device in world.state.devices.items():
            if world.state.is_cordoned(each):
                assert set(device.attempts) <= set(before[each])
    assert replayed(world.entries).state == world.state
    for each in ("n/cpu0", "n/cpu1", "n/cpu2"):
        world.tell(inputs.ResumeDevice(device=each))
    world.tell(inputs.ResumeNode(node="n"))
    assert not any(map(world.state.is_cordoned, world.state.devices))


def given_by(what: str, name: str) -> inputs.Input:
    wishes: dict[str, inputs.Input] = {
        "cordon": inputs.CordonDevice(device=name),
        "drain": inputs.CordonDevice(device=name, drain=True),
        "for": inputs.CordonDevice(device=name, for_s=1000.0),
        "resume": inputs.ResumeDevice(device=name),
        "node": inputs.CordonNode(node="n"),
        "node back": inputs.ResumeNode(node="n"),
    }
    return wishes[what]
