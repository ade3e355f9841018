"""Values that a journal cannot hold, or not give back, must not get into it: the controller could never start again."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model import commands, inputs
from hostler.model.codec import load_specs
from hostler.model.errors import SpecError
from hostler.model.work import FailureClass, JobState, Resources, Retry
from tests.core.builders import ended, fleet, replayed, script, sweep

LONE = "\ud800"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("result", [LONE, {LONE: 1}, math.nan, [math.inf], nested(65), nested(98), nested(2000)])
def test_a_result_that_cannot_be_journalled_is_unusable(result: Any) -> None:
    world = fleet()
    world.submit(script(retry=Retry(max_attempts={FailureClass.RESULT: 1})))
    world.tell(ended("j1.1", result=result))
    assert world.job_state("j1") is JobState.FAILED
    assert world.state.jobs["j1"].failure is FailureClass.RESULT
    assert replayed(world.entries).state == world.state


@pytest.mark.parametrize("extra", [LONE, math.nan, nested(210)])
def test_hits_that_cannot_be_journalled_are_refused(extra: Any) -> None:
    world = fleet()
    world.submit(sweep())
    chunk, start, _ = world.chunk("j1")
    world.tell(world.searched(chunk, hits=({"at": start, "extra": extra},)))
    assert world.state.refused == 1
    assert world.state.sweeps["j1"].hits == 0
    assert replayed(world.entries).state == world.state


def test_a_checkpoint_with_such_hits_is_not_believed() -> None:
    world = fleet()
    world.submit(sweep(stop=100_000))
    chunk, start, _ = world.chunk("j1")
    world.tell(world.returned(chunk, position=start + 1, hits=({"at": start, "extra": LONE},)))
    assert world.state.sweeps["j1"].ledger.done_items == 0
    assert replayed(world.entries).state == world.state


@settings(max_examples=30)
@given(st.text(st.characters(), min_size=1))
def test_texts_of_the_operating_system_are_made_legible(text: str) -> None:
    world = fleet(devices=2)
    world.submit(script(), sweep())
    chunk, _, _ = world.chunk("j2")
    world.tell(
        ended("j1.1", exit_code=1, error=text, result_error=text),
        world.returned(chunk, error=text),
        inputs.Trouble(where=text, what=text),
        inputs.WorkerRefused(worker="w-j2-n-cpu0", error=text),
        inputs.LinkDown(node="n", why=text),
    )
    assert replayed(world.entries).state == world.state


@pytest.mark.parametrize(
    "spec",
    [
        script("a", "echo", LONE),
        script("a", key=LONE),
        sweep(params={"deep": nested(60)}),
        sweep(params={"deep": nested(210)}),
        sweep(params={"lone": LONE}),
        script(retry=Retry(backoff_s=math.inf)),
        script(walltime_s=math.inf),
        script(resources=Resources(memory_gb=1e300)),
        script(priority=2**63),
    ],
)
def test_a_spec_that_cannot_be_journalled_is_refused(spec: Any) -> None:
    world = fleet()
    with pytest.raises(SpecError, match="job"):
        world.submit(spec)
    assert world.state.jobs == {}


def test_a_number_that_overflows_to_infinity_is_refused_at_the_door() -> None:
    bad = [{"name": "a", "payload": {"kind": "script", "schema": 1, "argv": ["x"]}, "retry": {"backoff_s": math.inf}}]
    with pytest.raises(SpecError, match="backoff_s"):
        load_specs(bad)


@pytest.mark.parametrize("field", ["stop", "min_chunk", "max_chunk"])
def test_a_number_beyond_floating_point_is_refused(field: str) -> None:
    world = fleet()
    bad: dict[str, Any] = {field: 10**400}
    with pytest.raises(SpecError, match="2\\^512"):
        world.submit(sweep(**bad))


def test_ranges_beyond_64_bits_are_fine() -> None:
    world = fleet()
    world.submit(sweep(start=-(2**200), stop=2**200))
    for _ in range(20):
        world.tell(world.searched(world.chunk("j1")[0]))
    assert replayed(world.entries).state == world.state


@pytest.mark.parametrize("priority", [2**31, 2**63, -(2**31) - 1])
def test_a_rank_that_no_table_can_hold_is_refused(priority: int) -> None:
    world = fleet()
    world.submit(script(), script())
    assert world.tell(inputs.SetPriority(job="j2", priority=priority)) == []
    assert isinstance(world.answers[0], SpecError)
    assert world.state.jobs["j2"].priority == 0


def test_what_is_as_deep_as_may_be_goes_through() -> None:
    world = fleet(devices=2)
    world.submit(script(key="a"), script(after=("a",)), sweep(params={"deep": nested(59)}))
    world.tell(ended("j1.1", result=nested(64)))
    assert world.job_state("j1") is JobState.DONE
    (launch,) = (each for each in world.commands if isinstance(each, commands.Launch))
    assert launch.order.inputs == {"a": nested(64), "j1": nested(64)}


@pytest.mark.parametrize("empty", [script("a", ""), sweep("a", worker=("", "b"))])
def test_a_command_whose_first_word_is_empty_is_refused(empty: Any) -> None:
    with pytest.raises(SpecError, match="first word"):
        fleet().submit(empty)
