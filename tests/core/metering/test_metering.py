"""What devices had, hour by hour: split at the hours, summed to what was, and the same again from the journal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.core import Core
from hostler.core.apply import apply
from hostler.core.metering.rows import MOST_HOURS, present
from hostler.model import inputs
from hostler.model.events import ConcurrencySet, Entry, HourEnded
from hostler.model.fleet import NodeSpec
from hostler.model.pools import Pool
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.usage import HourRow
from hostler.model.work import DeviceKind, FailureClass, Resources, Retry, WorkKind
from tests.core.builders import Driver, ended, fleet, link_up, node, script, snapshot, sweep, through_json

HOUR_S = 3600.0
ONCE = Retry(max_attempts={FailureClass.EXIT: 1})


def by_replay(entries: Sequence[Entry], core: Core | None = None) -> list[HourRow]:
    """The rows that folding these entries hands out."""
    core = core or Core()
    for entry in through_json(entries):
        apply(core.state, core.index, entry)
    return core.index.metered.rows


def now_rows(driver: Driver) -> list[HourRow]:
    return present(driver.state, driver.core.index, driver.now)[1]


def every_row(driver: Driver) -> list[HourRow]:
    return [*driver.hours, *now_rows(driver)]


def table(rows: Iterable[HourRow]) -> dict[tuple[int, str, str], tuple[float, float]]:
    """Device seconds, and those of them that the node was linked, by hour, device and work."""
    return {(row.hour, row.device, row.work or "idle"): (row.device_s, row.up_s) for row in rows}


def test_what_is_held_over_the_end_of_an_hour_is_split_there() -> None:
    driver = fleet()  # it begins at 1001
    driver.submit(script("a"))  # at 1002
    driver.tell(inputs.EndHour(), after_s=3 * HOUR_S)
    driver.tell(ended("j1.1"))  # at 11803
    driver.tell(inputs.Tick(), after_s=97.0)
    assert table(every_row(driver)) == {
        (0, "n/cpu0", "idle"): (1.0, 1.0),
        (0, "n/cpu0", "script"): (2598.0, 2598.0),
        (1, "n/cpu0", "script"): (3600.0, 3600.0),
        (2, "n/cpu0", "script"): (3600.0, 3600.0),
        (3, "n/cpu0", "script"): (1003.0, 1003.0),
        (3, "n/cpu0", "idle"): (97.0, 97.0),
    }
    assert [row.hour for row in driver.hours] == [0, 0, 1, 2]
    assert [(row.hour, row.done) for row in every_row(driver) if row.done] == [(3, 1)]
    assert driver.state.metering.seq == next(each.seq for each in driver.entries if isinstance(each.event, HourEnded))


def test_rows_leave_with_the_first_event_after_the_hour_whatever_it_is() -> None:
    driver = fleet()
    driver.tell(inputs.Tick(), after_s=2 * HOUR_S)
    assert driver.hours == [], "nothing was written that they could be written beside"
    assert {row.hour for row in now_rows(driver)} == {0, 1, 2}, "they are shown all the same"
    driver.submit(script("a"))
    assert [row.hour for row in driver.hours] == [0, 1]


def test_failures_and_kinds_of_work_are_told_apart() -> None:
    driver = fleet(devices=2)
    driver.submit(script("a", retry=ONCE), script("b", work_as=WorkKind.RL))
    driver.tell(ended("j1.1", exit_code=1), ended("j2.1"), after_s=10.0)
    counts = {row.work: (row.done, row.failed, row.device_s) for row in now_rows(driver) if row.work}
    assert counts == {WorkKind.SCRIPT: (0, 1, 10.0), WorkKind.RL: (1, 0, 10.0)}


def test_chunks_are_counted_and_their_device_is_held_as_long_as_it_has_any() -> None:
    driver = fleet()
    driver.submit(sweep(stop=10**6))
    driver.tell(driver.searched(driver.chunk("j1")[0]), after_s=7.0)
    driver.tell(driver.returned(driver.chunk("j1")[0]), after_s=3.0)
    (row,) = (each for each in now_rows(driver) if each.work is WorkKind.SWEEP)
    assert (row.device_s, row.done, row.failed) == (10.0, 1, 1)


def test_those_that_share_a_device_have_a_part_of_it_each() -> None:
    driver = Driver()
    gpu = node(kind=DeviceKind.CUDA, vram_gb=80.0)
    driver.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=gpu), link_up())
    lanes = ConcurrencySet(device="n/cuda0", lanes=2, was=1, utilization=0.1, why="it idles")
    apply(driver.state, driver.core.index, Entry(seq=driver.state.seq + 1, at=driver.now, event=lanes))
    plays = [
        script(name, work_as=WorkKind.SELFPLAY, resources=Resources(device="gpu", vram_gb=10.0, shared=True))
        for name in "ab"
    ]
    driver.submit(*plays)
    assert len(driver.state.devices["n/cuda0"].attempts) == 2
    driver.tell(ended("j1.1"), after_s=30.0)
    driver.tell(inputs.Tick(), after_s=5.0)
    (held,) = (row for row in now_rows(driver) if row.work)
    assert (held.work, held.device_s, held.done) == (WorkKind.SELFPLAY, 35.0, 1)


def test_out_of_reach_it_is_held_and_not_up_and_nothing_is_idle() -> None:
    driver = fleet(devices=2)
    driver.submit(script("a"))
    driver.tell(inputs.LinkDown(node="n", why="gone"), after_s=10.0)
    driver.tell(inputs.Tick(), after_s=20.0)
    assert table(now_rows(driver)) == {
        (0, "n/cpu0", "idle"): (1.0, 1.0),
        (0, "n/cpu0", "script"): (30.0, 10.0),
        (0, "n/cpu1", "idle"): (11.0, 11.0),
    }


def test_while_no_controller_lived_nobody_knows_what_was_up() -> None:
    driver = fleet(devices=2)
    driver.submit(script("a"))  # at 1002
    driver.tell(inputs.EndHour(), after_s=8.0)  # the last word, at 1010
    again = Driver(Core(snapshot(driver.state)), driver.now)
    again.tell(inputs.Begin(version="test", epoch=2), after_s=HOUR_S)
    assert table(again.hours) == {
        (0, "n/cpu0", "idle"): (1.0, 1.0),
        (0, "n/cpu0", "script"): (2598.0, 8.0),
        (0, "n/cpu1", "idle"): (9.0, 9.0),
    }
    assert table(now_rows(again)) == {(1, "n/cpu0", "script"): (1010.0, 0.0)}


def test_of_very_long_silence_there_are_no_rows() -> None:
    driver = fleet()
    driver.submit(script("a"))
    driver.tell(inputs.EndHour(), after_s=1000 * HOUR_S)
    assert [row.hour for row in driver.hours if row.work] == list(range(MOST_HOURS))
    assert {row.hour for row in now_rows(driver)} == {1000}


def test_a_device_that_is_new_begins_then_and_one_that_is_gone_ends() -> None:
    driver = fleet()
    driver.tell(inputs.NodeFound(node=node(devices=2)), after_s=100.0)
    driver.tell(inputs.Tick(), after_s=50.0)
    assert table(now_rows(driver)) == {(0, "n/cpu0", "idle"): (150.0, 150.0), (0, "n/cpu1", "idle"): (50.0, 50.0)}
    driver.tell(inputs.NodeFound(node=node(devices=1)))
    driver.tell(inputs.Tick(), after_s=50.0)
    assert table(now_rows(driver))[0, "n/cpu1", "idle"] == (51.0, 51.0)


def test_slots_of_a_cluster_count_from_when_their_work_begins_and_are_never_idle() -> None:
    driver = Driver()
    plain = node(devices=2)
    pool = NodeSpec(
        name="n", backend="test", devices=plain.devices, pool=Pool(partition="p", max_pending=4), price_per_h=4.0
    )
    driver.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=pool), link_up())
    driver.submit(script("a"), script("b"))
    attempts = [job.attempt.id for job in driver.state.jobs.values() if job.attempt is not None]
    assert len(attempts) == 2
    driver.tell(inputs.Started(attempt=attempts[0], pid=1, pid_start=1), after_s=100.0)
    driver.tell(ended(attempts[0], started_at=1.0, ended_at=2.0), after_s=50.0)
    # The other one began and ended between two looks.
    driver.tell(ended(attempts[1], started_at=1.0, ended_at=31.0), after_s=50.0)
    driver.tell(inputs.Tick(), after_s=500.0)
    rows = {row.device: row for row in now_rows(driver)}
    assert {name: row.device_s for name, row in rows.items()} == {"n/cpu0": 50.0, "n/cpu1": 30.0}
    assert all((row.work, row.pool, row.price_per_h) == (WorkKind.SCRIPT, "n", 2.0) for row in rows.values())


def test_what_drivers_tell_is_a_mean_over_the_time_it_was_told_of() -> None:
    driver = fleet(devices=2)
    driver.submit(script("a"))

    def tell(share: float | None, after_s: float) -> None:
        devices = {"n/cpu0": DeviceTelemetry(utilization=share)}
        driver.tell(inputs.Telemetry(node="n", at=driver.now + after_s, devices=devices), after_s=after_s)

    tell(0.5, 10.0)  # the first word: of what time it is, nobody knows
    tell(1.0, 10.0)
    tell(0.25, 10.0)
    tell(None, 10.0)
    tell(1.0, 10_000.0)  # most of these have been silent; and the hour is another one, of which nobody has heard yet
    driver.tell(inputs.EndHour())
    first = [row for row in driver.hours if row.hour == 0]
    assert {(row.device, row.measured_s, row.busy_s) for row in first if row.work} == {("n/cpu0", 20.0, 12.5)}
    assert all(row.measured_s == 0.0 for row in [*driver.hours, *now_rows(driver)] if row not in first)


class Naive(Driver):
    """A driver that counts for itself what devices hold between two steps."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, float] = defaultdict(float)
        self.linked: dict[str, float] = defaultdict(float)

    def tell(self, *given: Any, after_s: float = 1.0) -> Any:
        for name, device in self.state.devices.items():
            self.held[name] += after_s * bool(device.attempts or device.chunks)
            self.linked[name] += after_s * (self.state.nodes["n"].link == "up")
        return super().tell(*given, after_s=after_s)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["script", "sweep", "end", "fail", "search", "return", "down", "up", "rest", "hour", "cancel"]),
        st.floats(min_value=0.0, max_value=9000.0, allow_nan=False),
    ),
    max_size=25,
)


def step(driver: Driver, what: str, after_s: float) -> None:
    held = [job.attempt.id for job in driver.state.jobs.values() if job.attempt is not None]
    chunks = [name for each in driver.state.sweeps.values() for name in each.leases]
    waits: list[Any] = [inputs.Tick()]
    match what:
        case "script":
            waits = [inputs.Submit(specs=(script("a"),))]
        case "sweep":
            waits = [inputs.Submit(specs=(sweep("s", stop=1000),))]
        case "end" | "fail" if held:
            waits = [ended(held[0], exit_code=int(what == "fail"))]
        case "search" if chunks:
            waits = [driver.searched(chunks[0])]
        case "return" if chunks:
            waits = [driver.returned(chunks[0])]
        case "down":
            waits = [inputs.LinkDown(node="n", why="gone")]
        case "up":
            waits = [link_up(attempts=held, chunks=chunks)]
        case "hour":
            waits = [inputs.EndHour()]
        case "cancel" if driver.state.jobs:
            waits = [inputs.Cancel(job=next(iter(driver.state.jobs)), reason="why not")]
    driver.tell(*waits, after_s=after_s)


def walked(steps: Sequence[tuple[str, float]]) -> Naive:
    driver = Naive()
    driver.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=node(devices=2)), link_up())
    for what, after_s in steps:
        step(driver, what, after_s)
    return driver


@settings(deadline=None, max_examples=40)
@given(STEPS)
def test_hours_add_up_to_what_was_and_none_is_longer_than_an_hour(steps: list[tuple[str, float]]) -> None:
    driver = walked(steps)
    held: dict[str, float] = defaultdict(float)
    linked: dict[str, float] = defaultdict(float)
    whole: dict[tuple[int, str], float] = defaultdict(float)
    for row in every_row(driver):
        held[row.device] += row.device_s if row.work else 0.0
        linked[row.device] += row.up_s
        whole[row.hour, row.device] += row.device_s
        assert 0 <= row.up_s <= row.device_s + 1e-6
    for name in driver.state.devices:
        assert held[name] == pytest.approx(driver.held[name], abs=1e-3)
        assert linked[name] == pytest.approx(driver.linked[name], abs=1e-3)
    assert all(seconds <= HOUR_S + 1e-6 for seconds in whole.values())
    keys = [(row.hour, row.device, row.work) for row in every_row(driver)]
    assert len(keys) == len(set(keys)), "no hour is told twice"


@settings(deadline=None, max_examples=40)
@given(STEPS, st.data())
def test_the_journal_gives_the_same_rows_from_its_begin_and_from_any_snapshot(
    steps: list[tuple[str, float]], data: st.DataObject
) -> None:
    driver = walked(steps)
    assert by_replay(driver.entries) == driver.hours
    at = data.draw(st.integers(0, len(driver.entries)))
    first = Core()
    first.replay(through_json(driver.entries[:at]))
    assert first.index.metered.rows == [], "a replay keeps none of them"
    earlier = by_replay(driver.entries[:at])
    assert earlier + by_replay(driver.entries[at:], Core(snapshot(first.state))) == driver.hours
