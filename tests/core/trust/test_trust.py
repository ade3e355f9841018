"""Devices in quarantine and jobs that keep away: decided on evidence, shown with their reasons, over in time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from hostler.core.trust import decide as trust
from hostler.core.trust.views import bans
from hostler.model import events, inputs
from hostler.model.codec import load_event
from hostler.model.commands import Launch
from hostler.model.work import DEFAULT_BUDGETS, DeviceKind, FailureClass, JobState, Resources
from hostler.policy.fit import Gate

from ..builders import Driver, ended, link_up, node, replayed, script, snapshot

GPU = Resources(device="gpu")
BROKEN = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
MISSING = "ModuleNotFoundError: No module named 'einops'"
ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"
EVERY = frozenset(f"{name}/cuda0" for name in "abcd")
FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def world(nodes: Collection[str] = "abc", vram_gb: float = 24.0) -> Driver:
    """Nodes of one GPU each."""
    driver = Driver()
    driver.tell(inputs.Begin(version="test", epoch=1))
    for name in nodes:
        found = inputs.NodeFound(node=node(name, kind=DeviceKind.CUDA, vram_gb=vram_gb))
        driver.tell(found, link_up(name, agent=name))
    return driver


def running(driver: Driver) -> dict[str, str]:
    """The attempts that hold a device, and which."""
    return {job.attempt.id: job.attempt.device for job in driver.state.jobs.values() if job.attempt is not None}


def failed(attempt: str, evidence: str = BROKEN, **fields: Any) -> inputs.Ended:
    return ended(attempt, **{"exit_code": 1, "evidence": evidence, **fields})


def work_off(driver: Driver, bad: Collection[str] = (), evidence: str = BROKEN, rounds: int = 200) -> None:
    """Let everything end that runs: badly on bad devices, well on others; as long as something runs."""
    for _ in range(rounds):
        held = running(driver)
        if not held:
            return
        for attempt, device in held.items():
            driver.tell(failed(attempt, evidence) if device in bad else ended(attempt))


def launched(driver: Driver) -> dict[str, Any]:
    """Environments of what was launched in the last step, by attempt."""
    return {each.order.id: each.order.env for each in driver.commands if isinstance(each, Launch)}


def wait(driver: Driver, seconds: float) -> None:
    driver.tell(inputs.Tick(), after_s=seconds)


def made(driver: Driver, shape: type[Any]) -> list[Any]:
    return [entry.event for entry in driver.entries if isinstance(entry.event, shape)]


def quarantined(driver: Driver) -> set[str]:
    return {event.device for event in made(driver, events.DeviceQuarantined)}


def in_quarantine() -> Driver:
    """A world whose device a/cuda0 has just been quarantined; all jobs are done."""
    driver = world()
    driver.submit(*(script(f"render {n}", resources=GPU) for n in range(20)))
    work_off(driver, bad={"a/cuda0"})
    return driver


class TestQuarantine:
    def test_a_device_that_keeps_failing_rests_and_nobody_loses_a_job(self) -> None:
        driver = in_quarantine()
        (banned,) = made(driver, events.DeviceQuarantined)
        assert (banned.device, banned.strikes) == ("a/cuda0", 1)
        assert "3 failures in a row (device) of 3 jobs; script" in banned.why
        assert {job.state for job in driver.state.jobs.values()} == {JobState.DONE}
        assert len([event for event in made(driver, events.AttemptLeased) if event.device == "a/cuda0"]) == 3
        at = driver.state.trust.doubts["a/cuda0"].since
        assert at is not None
        assert banned.until == at + driver.state.rules.quarantine.rest_s

    def test_its_gate_says_why_and_for_how_long(self) -> None:
        driver = in_quarantine()
        refused = trust.gate(driver.state, "a/cuda0", driver.state.trust.doubts["a/cuda0"].until - 60.0)  # type: ignore[operator]
        assert refused is not None
        assert refused.gate is Gate.QUARANTINE
        assert refused.why.startswith("a/cuda0 rests 60 s more: 3 failures in a row")
        assert trust.gate(driver.state, "b/cuda0", driver.now) is None

    def test_once_it_has_rested_one_job_tries_and_its_success_is_enough(self) -> None:
        driver = in_quarantine()
        driver.submit(*(script(f"bake {n}", resources=GPU) for n in range(9)))
        assert "a/cuda0" not in running(driver).values()
        wait(driver, 600.0)
        (probe,) = (name for name, device in running(driver).items() if device == "a/cuda0")
        assert trust.gate(driver.state, "a/cuda0", driver.now) is not None, "one at a time"
        driver.tell(ended(probe))
        (trusted,) = driver.of(events.DeviceTrusted)
        assert (trusted.device, trusted.why) == ("a/cuda0", f"{probe} succeeded on it")
        assert "a/cuda0" in running(driver).values()
        assert driver.state.trust.doubts == {}

    def test_it_is_looked_at_again_without_anything_happening(self) -> None:
        driver = in_quarantine()
        due = driver.core.wake_at()
        assert due is not None
        assert due <= driver.state.trust.doubts["a/cuda0"].until  # type: ignore[operator]

    def test_each_failed_probe_doubles_the_rest_up_to_the_longest(self) -> None:
        driver = in_quarantine()
        driver.submit(*(script(f"render {n}", resources=GPU) for n in range(20, 60)))
        for _ in range(7):
            for attempt, device in running(driver).items():
                if device != "a/cuda0":
                    driver.tell(ended(attempt))
            wait(driver, 7 * 3600.0)
            (probe,) = (name for name, device in running(driver).items() if device == "a/cuda0")
            driver.tell(failed(probe))
        told = made(driver, events.DeviceQuarantined)
        rests = [
            entry.event.until - entry.at
            for entry in driver.entries
            if isinstance(entry.event, events.DeviceQuarantined)
        ]
        assert rests == [600, 1200, 2400, 4800, 9600, 19200, 21600, 21600]
        assert [event.strikes for event in told] == [1, 2, 3, 4, 5, 6, 7, 8]

    def test_a_job_that_fails_everywhere_puts_nobody_there(self) -> None:
        driver = world()
        driver.submit(script("render 1", resources=GPU))
        work_off(driver)
        driver.submit(*(script(f"render {n}", resources=GPU) for n in range(2, 40)))
        work_off(driver, bad={"a/cuda0", "b/cuda0", "c/cuda0"}, rounds=2000)
        assert {job.state for job in driver.state.jobs.values()} == {JobState.DONE, JobState.FAILED}
        assert made(driver, events.DeviceQuarantined) == []

    def test_nor_do_two_kinds_of_work_that_never_did_well(self) -> None:
        driver = world("a")
        driver.submit(*(script(name, resources=GPU) for name in ("bake", "cook") * 5))
        work_off(driver, bad={"a/cuda0"}, rounds=2000)
        assert made(driver, events.DeviceQuarantined) == []

    def test_the_last_device_is_judged_by_several_kinds_of_work(self) -> None:
        driver = world("a")
        driver.submit(*(script(name, resources=GPU) for name in ("bake", "cook")))
        work_off(driver)
        driver.submit(*(script("bake", resources=GPU) for _ in range(3)))
        work_off(driver, bad={"a/cuda0"})
        assert made(driver, events.DeviceQuarantined) == []
        driver.submit(*(script(name, resources=GPU) for name in ("bake", "cook") * 2))
        work_off(driver, bad={"a/cuda0"})
        assert len(made(driver, events.DeviceQuarantined)) == 1

    def test_a_probe_that_fails_everywhere_says_nothing(self) -> None:
        driver = in_quarantine()
        wait(driver, 700.0)
        driver.submit(*(script("flop", resources=GPU) for _ in range(3)))
        assert set(running(driver).values()) == {"a/cuda0", "b/cuda0", "c/cuda0"}
        driver.tell(*(failed(attempt) for attempt in running(driver)))
        assert len(made(driver, events.DeviceQuarantined)) == 1
        assert trust.gate(driver.state, "a/cuda0", driver.now) is None or "a/cuda0" in running(driver).values()

    def test_a_machine_that_was_started_again_is_tried_at_once(self) -> None:
        driver = in_quarantine()
        again = inputs.LinkUp(node="a", agent="a", incarnation=2, boot="another", attempts=(), chunks=())
        driver.tell(again)
        assert trust.gate(driver.state, "a/cuda0", driver.now) is None
        driver.submit(*(script(f"render {n}", resources=GPU) for n in range(30, 40)))
        assert "a/cuda0" in running(driver).values()

    def test_resting_it_takes_no_place_among_those_that_are_free(self) -> None:
        driver = in_quarantine()
        assert "a/cuda0" not in driver.core.index.open
        driver.tell(inputs.LinkDown(node="a", why="gone"))
        driver.tell(link_up("a", agent="a"))
        assert "a/cuda0" not in driver.core.index.open
        driver.submit(*(script(f"render {n}", resources=GPU) for n in range(20, 30)))
        wait(driver, 700.0)
        assert "a/cuda0" in running(driver).values()
        assert "a/cuda0" not in driver.core.index.open

    def test_failures_of_the_jobs_own_are_not_held_against_devices(self) -> None:
        driver = world()
        driver.submit(*(script(f"render {n}", resources=GPU) for n in range(20)))
        work_off(driver, bad={"a/cuda0"}, evidence="ValueError: no such scene", rounds=2000)
        assert driver.state.trust.doubts == {}

    def test_a_job_of_a_broken_kernel_is_given_up_after_one_more_device(self) -> None:
        driver = world("abcd")
        driver.submit(script(resources=GPU))
        work_off(driver)
        (job,) = driver.submit(script(resources=GPU))
        work_off(driver, bad=EVERY, evidence=ILLEGAL)
        wait(driver, 5.0)
        work_off(driver, bad=EVERY, evidence=ILLEGAL)
        assert driver.job_state(job) is JobState.FAILED
        assert driver.state.jobs[job].failures == {FailureClass.EXIT: 2}
        assert len(driver.state.trust.doubts) == 2, "it was on two devices"
        assert not quarantined(driver)

    def test_however_many_such_jobs_there_are_no_device_is_lost(self) -> None:
        driver = world("abcd")
        driver.submit(script(resources=GPU))
        work_off(driver)
        for _ in range(8):
            driver.submit(script(resources=GPU))
            for _ in range(3):
                work_off(driver, bad=EVERY, evidence=ILLEGAL)
                wait(driver, 5.0)
        assert not quarantined(driver)

    def test_a_device_on_which_alone_memory_goes_wrong_rests(self) -> None:
        driver = world("ab")
        for _ in range(12):
            driver.submit(script(resources=GPU))
            for _ in range(3):
                work_off(driver, bad={"a/cuda0"}, evidence=ILLEGAL)
                wait(driver, 5.0)
        assert quarantined(driver) == {"a/cuda0"}
        assert all(job.state is JobState.DONE for job in driver.state.jobs.values())

    def test_a_success_in_between_forgives(self) -> None:
        driver = world()
        driver.submit(*(script(f"render {n}", resources=GPU) for n in range(30)))
        for turn in range(60):
            for attempt, device in running(driver).items():
                is_bad = device == "a/cuda0" and turn % 3 != 2
                driver.tell(failed(attempt) if is_bad else ended(attempt))
        assert made(driver, events.DeviceQuarantined) == []

    def test_what_was_lost_with_its_node_is_not_held_against_its_device(self) -> None:
        driver = world("ab")
        driver.submit(*(script(f"render {n}", resources=GPU) for n in range(2)))
        work_off(driver)
        for _ in range(5):
            driver.submit(script("render", resources=GPU), script("render", resources=GPU))
            (attempt,) = (name for name, device in running(driver).items() if device == "a/cuda0")
            driver.tell(inputs.LinkDown(node="a", why="gone"))
            driver.tell(link_up("a", agent="a", attempts=(attempt,)))
            driver.tell(ended(attempt, exit_code=None, reason="lost"))
            work_off(driver)
        assert driver.state.trust.doubts == {}

    def test_it_all_survives_a_restart(self) -> None:
        driver = in_quarantine()
        assert replayed(driver.entries).state == driver.state
        copy = replayed([], snapshot(driver.state))
        copy.handle(driver.now + 601.0, inputs.Begin(version="test", epoch=2), link_up("a", agent="a"))
        assert trust.gate(copy.state, "a/cuda0", driver.now + 601.0) is None
        assert "a/cuda0" in copy.index.open


class TestElsewhere:
    def test_a_missing_library_is_looked_for_on_another_node(self) -> None:
        driver = world("ab")
        driver.submit(script("train", resources=GPU))
        ((attempt, device),) = running(driver).items()
        driver.tell(failed(attempt, MISSING))
        (requeued,) = driver.of(events.JobRequeued)
        assert (requeued.failure, requeued.avoid) == (FailureClass.IMPORT, device.partition("/")[0])
        assert requeued.against == ()
        wait(driver, 5.0)
        ((_, other),) = running(driver).items()
        assert other != device

    def test_but_not_if_there_is_none(self) -> None:
        driver = world("a")
        driver.submit(script("train", resources=GPU))
        driver.tell(failed("j1.1", MISSING))
        (requeued,) = driver.of(events.JobRequeued)
        assert (requeued.avoid, requeued.avoid_until) == (None, 0.0)
        wait(driver, 5.0)
        assert running(driver) == {"j1.2": "a/cuda0"}

    def test_nor_if_it_cannot_be_reached(self) -> None:
        driver = world("ab")
        driver.tell(inputs.LinkDown(node="b", why="gone"))
        driver.submit(script("train", resources=GPU))
        driver.tell(failed("j1.1", MISSING))
        wait(driver, 5.0)
        assert running(driver) == {"j1.2": "a/cuda0"}

    def test_it_does_not_wait_for_the_other_place_for_ever(self) -> None:
        driver = world("ab")
        driver.submit(script("train", resources=GPU))
        ((attempt, device),) = running(driver).items()
        other = "b" if device.startswith("a") else "a"
        driver.tell(failed(attempt, MISSING), inputs.LinkDown(node=other, why="gone"))
        wait(driver, 60.0)
        assert running(driver) == {}
        refused = trust.retry_gate(driver.state.jobs["j1"], driver.core.index.sites[device], driver.now)
        assert refused is not None
        assert refused.gate is Gate.FAILED
        due = driver.core.wake_at()
        assert due is not None
        driver.tell(inputs.Tick(), after_s=due - driver.now)
        while not running(driver) and (due := driver.core.wake_at()) is not None:
            driver.tell(inputs.Tick(), after_s=due - driver.now)
        assert running(driver) == {"j1.2": device}
        assert driver.now < 1000.0 + 1900.0

    def test_a_free_device_it_keeps_away_from_does_not_hide_the_others(self) -> None:
        driver = world()
        driver.submit(script("train", resources=GPU))
        ((attempt, device),) = running(driver).items()
        driver.tell(failed(attempt, MISSING))
        for each in sorted(driver.state.devices, key=lambda each: each != device):
            driver.core.index.closed(each)
            driver.core.index.opened(driver.state, each)
        assert next(iter(driver.core.index.open)) == device
        wait(driver, 0.0)
        wait(driver, 2.0)
        ((_, other),) = running(driver).items()
        assert other != device

    def test_a_device_that_failed_is_left_at_once(self) -> None:
        driver = world("ab")
        driver.submit(script("train", resources=GPU))
        ((attempt, device),) = running(driver).items()
        driver.tell(failed(attempt))
        ((_, other),) = running(driver).items()
        assert other != device

    def test_every_class_of_failure_comes_to_an_end(self) -> None:
        for evidence in (BROKEN, MISSING, FULL, "ValueError"):
            driver = world("ab")
            driver.submit(script("train", resources=GPU))
            for _ in range(60):
                driver.tell(*(failed(attempt, evidence) for attempt in running(driver)))
                wait(driver, 2000.0)
            job = driver.state.jobs["j1"]
            assert job.state is JobState.FAILED
            assert job.failure is not None
            assert job.attempts == DEFAULT_BUDGETS[job.failure]


class TestMemory:
    def test_a_bigger_device_gets_the_whole_batch_and_others_a_smaller_one(self) -> None:
        driver = world("a", vram_gb=24.0)
        driver.submit(script("train", resources=GPU))
        driver.tell(inputs.NodeFound(node=node("b", kind=DeviceKind.CUDA, vram_gb=80.0)), link_up("b", agent="b"))
        driver.tell(failed("j1.1", FULL))
        (requeued,) = driver.of(events.JobRequeued)
        assert (requeued.failure, requeued.vram_above, requeued.batch_scale) == (FailureClass.MEMORY, 24.0, 0.5)
        wait(driver, 5.0)
        assert running(driver) == {"j1.2": "b/cuda0"}
        assert "HOSTLER_BATCH_SCALE" not in launched(driver)["j1.2"]
        job, devices = driver.state.jobs["j1"], driver.state.devices
        assert trust.environment(job, devices["b/cuda0"].spec) == {}
        assert trust.environment(job, devices["a/cuda0"].spec) == {"HOSTLER_BATCH_SCALE": "0.5"}

    def test_where_there_is_none_the_batch_is_halved_again_and_again(self) -> None:
        driver = world("ab")
        driver.submit(script("train", resources=GPU))
        told = []
        for _ in range(2):
            driver.tell(*(failed(attempt, FULL) for attempt in running(driver)))
            wait(driver, 5.0)
            (env,) = launched(driver).values()
            told.append(env["HOSTLER_BATCH_SCALE"])
        assert told == ["0.5", "0.25"]

    def test_a_fresh_try_begins_anew(self) -> None:
        driver = world("ab")
        driver.submit(script("train", resources=GPU))
        for _ in range(3):
            driver.tell(*(failed(attempt, FULL) for attempt in running(driver)), after_s=10.0)
            wait(driver, 10.0)
        assert driver.job_state("j1") is JobState.FAILED
        driver.tell(inputs.Retry(job="j1"))
        job = driver.state.jobs["j1"]
        assert (job.avoid, job.vram_above, job.batch_scale) == ({}, None, 1.0)

    def test_a_small_job_that_finds_a_device_full_speaks_against_it(self) -> None:
        driver = world()
        small = Resources(device="gpu", vram_gb=8.0)
        driver.submit(*(script(f"render {n}", resources=small) for n in range(30)))
        work_off(driver, bad={"a/cuda0"}, evidence=FULL)
        assert [event.device for event in made(driver, events.DeviceQuarantined)] == ["a/cuda0"]

    def test_a_large_one_does_not(self) -> None:
        driver = world()
        large = Resources(device="gpu", vram_gb=16.0)
        driver.submit(*(script(f"render {n}", resources=large) for n in range(30)))
        work_off(driver, bad={"a/cuda0"}, evidence=FULL)
        assert driver.state.trust.doubts == {}


class TestBans:
    def test_everything_that_is_held_back_is_listed_with_reason_and_expiry(self) -> None:
        driver = in_quarantine()
        driver.submit(script("train", resources=GPU))
        ((attempt, device),) = running(driver).items()
        driver.tell(failed(attempt, MISSING))
        quarantined, avoided = bans(driver.state, driver.now)
        assert (quarantined.kind, quarantined.what, quarantined.of) == ("quarantine", "a/cuda0", None)
        assert quarantined.until == driver.state.trust.doubts["a/cuda0"].until
        assert "failures in a row" in quarantined.why
        assert (avoided.kind, avoided.what, avoided.of) == ("avoidance", device.partition("/")[0], "j21")
        assert "einops" in avoided.why
        assert avoided.until == driver.now + 1800.0
        assert [ban.kind for ban in bans(driver.state, driver.now + 1801.0)] == ["quarantine"]
        assert "probation" in bans(driver.state, driver.now + 1801.0)[0].why


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"job.requeued","job":"j1","failure":"exit","not_before":5.0,"why":"exit status 1"}',
        '{"kind":"job.failed","job":"j1","failure":"exit","why":"exit status 1"}',
        '{"kind":"attempt.ended","attempt":"j1.1","started_at":1.0,"ended_at":2.0,"exit_code":1,"signal":null,'
        '"reason":null,"error":null,"cpu_s":null,"max_rss_bytes":null}',
    ],
)
def test_journals_of_before_are_read(text: str) -> None:
    event = load_event(text)
    assert getattr(event, "against", ()) == ()
    assert getattr(event, "evidence", None) is None
