"""Events of hostile inputs: each that is applied loads again; one that would not has no effect but a record of it."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from hostler.core import State
from hostler.model import events, inputs
from hostler.model.codec import dump_event, legible, load_event
from hostler.model.errors import EventRefused, HostlerError, UsageError
from hostler.model.events import Entry, Event
from hostler.model.inputs import Input
from hostler.model.readback import readback_fault
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import FailureClass, JobState, Retry
from tests.core.builders import Driver, ended, link_up, node, replayed, script, snapshot, sweep
from tests.fuzz.extremes import NO_JSON, VALUES

EXTREMES = (*VALUES, *NO_JSON)


def world() -> Driver:
    """A fleet with a running script, a stage of nothing, and a leased sweep."""
    driver = Driver()
    driver.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=node(devices=3)), link_up())
    again = Retry(max_attempts=dict.fromkeys(FailureClass, 9))
    driver.submit(script("a", retry=again), script("b", retry=again), sweep("s", params={"p": 1}))
    driver.tell(inputs.Launched(attempts=("j1.1", "j2.1")))
    driver.tell(inputs.Started(attempt="j1.1", pid=3, pid_start=4))
    return driver


def said(driver: Driver) -> list[Input]:
    """What the node of that world may say next."""
    chunk, start, _ = driver.chunk("j3")
    devices = {"n/cpu0": DeviceTelemetry(utilization=0.5)}
    return [
        inputs.NodeFound(node=node(devices=4)),
        link_up(attempts=("j1.1", "j2.1"), chunks=(chunk,)),
        inputs.LinkDown(node="n", why="gone"),
        inputs.Launched(attempts=("j1.1",)),
        inputs.Started(attempt="j2.1", pid=5, pid_start=6),
        ended("j1.1", result={"loss": 0.5}, evidence="words", error="none", cpu_s=1.0, max_rss_bytes=5),
        ended("j2.1", exit_code=1, error="broken"),
        inputs.Fetched(attempt="j1.1"),
        driver.searched(chunk),
        driver.returned(chunk, position=start, error="gone"),
        inputs.WorkerRefused(worker="w-j3", error="no module"),
        inputs.DeviceProved(device="n/cpu0", ok=False, why="wrong", seconds=1.0),
        inputs.Telemetry(node="n", at=1.0, load=0.5, memory_total_gb=8.0, memory_free_gb=4.0, devices=devices),
        inputs.NodeGoes(node="n", why="reclaimed"),
        inputs.Trouble(where="node n", what="noise"),
    ]


def leaves(value: Any) -> Iterator[tuple[str, ...]]:
    """The paths of all fields of records."""
    for field in fields(value):
        yield (field.name,)
        part = getattr(value, field.name)
        if is_dataclass(part):
            yield from ((field.name, *rest) for rest in leaves(part))


def with_leaf(value: Any, path: tuple[str, ...], leaf: Any) -> Any:
    name, *rest = path
    return replace(value, **{name: with_leaf(getattr(value, name), tuple(rest), leaf) if rest else leaf})


def facts(state: State) -> State:
    return snapshot(state)


def test_event_of_an_impossible_node_is_refused_and_the_rest_of_the_batch_is_taken() -> None:
    driver = world()
    evil = replace(node("evil"), cpus=0.0)
    told = driver.tell(inputs.NodeFound(node=evil), inputs.Started(attempt="j2.1", pid=5, pid_start=6))
    assert isinstance(driver.answers[0], EventRefused)
    assert "evil" not in driver.state.nodes
    trouble, started = told[:2]
    assert isinstance(trouble, events.TroubleRecorded)
    assert (trouble.where, "node.joined" in trouble.what, "greater than 0" in trouble.what) == ("node evil", True, True)
    assert isinstance(started, events.AttemptStarted)
    assert replayed(driver.entries).state.nodes.keys() == driver.state.nodes.keys()


def test_refused_event_leaves_the_state_as_it_was() -> None:
    driver = world()
    before = facts(driver.state).jobs["j1"]
    driver.tell(ended("j1.1", ended_at=math.nan))
    assert facts(driver.state).jobs["j1"] == before
    driver.tell(ended("j1.1"))
    assert driver.job_state("j1") is JobState.DONE


def test_text_of_a_node_with_nul_is_kept_as_an_escape() -> None:
    driver = world()
    driver.tell(ended("j1.1", exit_code=None, reason="spawn", error="broken\0pipe"))
    (told,) = driver.of(events.AttemptEnded)
    assert told.error == "broken\\x00pipe"


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_texts_of_any_type_are_made_legible(text: str) -> None:
    """The names of types say nothing: `Words` is a text."""
    told = legible(ended("j1.1", error=text, evidence=text, result={"own": text}))
    assert (told.error, told.evidence) == (legible(inputs.Trouble(where="", what=text)).what,) * 2
    assert told.error != text
    assert told.result == {"own": text}


def test_inventory_that_names_its_node_is_read_back_before_anything_follows_from_it() -> None:
    driver = world()
    wrong = replace(link_up(), incarnation=0.5)
    driver.tell(inputs.Reported(node="n", given=wrong))
    assert isinstance(driver.answers[0], EventRefused)
    (trouble,) = driver.of(events.TroubleRecorded)
    assert trouble.where == "node n"


def test_result_may_hold_nul_as_json() -> None:
    driver = world()
    driver.tell(ended("j1.1", result={"text": "a\0b"}))
    assert driver.state.jobs["j1"].result == {"text": "a\0b"}


@pytest.mark.parametrize(
    "wish",
    [
        inputs.Cancel(job="j1", reason="a\0b"),
        inputs.CordonNode(node="n", why="a\0b"),
        inputs.Asked(who="me", what="asked", given=inputs.Cancel(job="j1", reason="a\0b")),
        inputs.SilenceAlerts(rule="*", for_s=60.0, why="\0", who="me"),
        inputs.Submit(specs=(script("a\0b"),)),
        inputs.Submit(specs=(script("a", "true", "\0"),)),
        inputs.Submit(specs=(script("a", key="k\0"),)),
        inputs.Submit(specs=(script("a", after=("k\0",)),)),
    ],
    ids=lambda wish: type(wish).__name__,
)
def test_nul_in_a_request_is_refused_with_one_message(wish: Input) -> None:
    driver = world()
    driver.tell(wish)
    refusal = driver.answers[0]
    assert isinstance(refusal, UsageError)
    assert "contains a NUL character (U+0000), which no text here may have; leave it out" in str(refusal)
    assert not driver.of(events.TroubleRecorded)


def _hostile() -> Iterator[tuple[str, int, tuple[str, ...]]]:
    for number, given in enumerate(said(world())):
        for path in leaves(given):
            yield f"{type(given).__name__}-{'.'.join(path)}", number, path


LEAVES = [pytest.param(at, number, path, id=name) for at, (name, number, path) in enumerate(_hostile())]


@pytest.mark.parametrize(("at", "number", "path"), LEAVES)
def test_each_event_of_a_hostile_input_loads_again(at: int, number: int, path: tuple[str, ...]) -> None:
    """Of each leaf every ninth value, of the next leaf others; `make test-long` plays all."""
    _expect_all_whole(number, path, EXTREMES[at % 9 :: 9])


@pytest.mark.long
@pytest.mark.parametrize(("at", "number", "path"), LEAVES)
def test_each_event_of_any_hostile_input_loads_again(at: int, number: int, path: tuple[str, ...]) -> None:
    _expect_all_whole(number, path, EXTREMES)


def _expect_all_whole(number: int, path: tuple[str, ...], extremes: Sequence[Any]) -> None:
    driver = world()
    for extreme in extremes:
        given = with_leaf(said(driver)[number] if driver.state.sweeps["j3"].leases else None, path, extreme)
        _expect_whole(driver, given)
        driver = world()


def _expect_whole(driver: Driver, given: Input) -> None:
    before = copy.deepcopy(facts(driver.state))
    try:
        outcome = driver.core.handle(driver.now + 1, given)
    except HostlerError as error:
        raise AssertionError(f"{given} ended the core: {error}") from error
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
        return  # of a wrong type: models refuse it where it enters
    for entry in outcome.entries:
        assert load_event(dump_event(entry.event)) == entry.event
    if isinstance(outcome.answers[0], EventRefused):
        assert facts(driver.state).jobs == before.jobs
        assert facts(driver.state).nodes == before.nodes
    driver.core.validate()


@pytest.mark.parametrize(
    "event",
    [
        events.TroubleRecorded(where="a\0", what=""),
        events.TroubleRecorded(where="\ud800", what=""),
        events.AttemptStarted(attempt="j1.1", pid="3", pid_start=4),  # type: ignore[arg-type]
        events.JobDone(job="j1", attempt="j1.1", result={"a": math.nan}),
        events.JobDone(job="j1", attempt="j1.1", result=(1, 2)),
        events.JobDone(job="j1", attempt="j1.1", result={1: 2}),
    ],
)
def test_fault_of_an_event_is_told(event: Event) -> None:
    assert readback_fault(event)


def test_event_with_every_kind_of_text_has_no_fault() -> None:
    event = events.TroubleRecorded(where="é\u2028\\u0000 \x01", what="\\u0000")
    assert readback_fault(event) is None
    assert load_event(dump_event(event)) == Entry(seq=1, at=1.0, event=event).event
