"""Why a job waits, what would change that, when it starts; why a device does what it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.core import forecast, reasons
from hostler.core.explain import explain_job
from hostler.core.explain_device import explain_device, find_device
from hostler.model import events, inputs
from hostler.model.errors import NotFound
from hostler.model.fleet import DeviceSpec, NodeLimits, NodeSpec
from hostler.model.rules import Cost, PlacementRules, Rules
from hostler.model.views import DeviceExplanation, Explanation
from hostler.model.work import DeviceKind, JobSpec, JobState, Resources, WorkKind
from hostler.policy import duration
from tests.core.builders import START, Driver, ended, link_up, script, sweep
from tests.core.trust.test_trust import in_quarantine

KNOWN = forecast.Forecast(p50_s=100.0, p90_s=200.0, at_most_s=None, samples=9, source="measured")


def rig(name: str = "a", count: int = 1, vram_gb: float = 24.0, model: str = "RTX 4090", **fields: object) -> NodeSpec:
    devices = tuple(
        DeviceSpec(id=f"{name}/cuda{n}", node=name, kind=DeviceKind.CUDA, index=n, model=model, vram_gb=vram_gb)
        for n in range(count)
    )
    return NodeSpec(name=name, backend="test", devices=devices, **fields)  # type: ignore[arg-type]


def fleet(*nodes: NodeSpec, rules: Rules | None = None) -> Driver:
    world = Driver()
    if rules is not None:
        world.tell(inputs.Configure(rules=rules))
    for node in nodes:
        world.tell(inputs.NodeFound(node=node), link_up(node.name, agent=node.name))
    return world


def told(world: Driver, job: str) -> Explanation:
    return explain_job(world.state, world.core.index, world.state.jobs[job])


def of_device(world: Driver, name: str) -> DeviceExplanation:
    return explain_device(world.state, world.core.index, find_device(world.state, name))


def changes(world: Driver, job: str) -> list[str]:
    return [change.what for change in told(world, job).changes]


def long(name: str, seconds: float = 100.0, **spec: Any) -> JobSpec:
    """A script whose owner knows how long it takes."""
    return script(name, expected_s={"*": seconds}, **spec)


class TestDevices:
    def test_gates_are_counted_and_devices_alike_taken_together(self) -> None:
        world = fleet(rig("a", count=3), rig("b", count=2, vram_gb=80.0))
        world.submit(*[script(resources=Resources(vram_gb=48)) for _ in range(3)])
        said = told(world, "j3")
        assert said.gates == {"VRAM": 3, "taken": 2}
        assert [(group.count, group.gate) for group in said.groups] == [(3, "VRAM"), (2, "taken")]
        assert said.devices["a/cuda1"] == "does not fit: VRAM: needs 48 GB, a/cuda1 has 24 GB"
        assert "every device it fits on is taken; 0 jobs are ahead" in said.summary

    def test_nobody_says_anything_to_a_job_that_is_over(self) -> None:
        world = fleet(rig())
        world.submit(script())
        world.tell(ended("j1.1"))
        said = told(world, "j1")
        assert (said.devices, said.groups, said.start, said.changes) == ({}, (), None, ())

    def test_a_running_job_tells_why_it_was_put_there(self) -> None:
        world = fleet(rig())
        world.submit(long("a"))
        lease = world.of(events.AttemptLeased)[0]
        said = told(world, "j1")
        assert f"put there: {lease.why}" in said.reasons
        assert any(reason.startswith("expected to end in about 1m 4") for reason in said.reasons)
        assert said.gates == {}

    def test_devices_that_are_gone_say_nothing(self) -> None:
        world = fleet(rig("a"), rig("b"))
        world.tell(inputs.NodeFound(node=replace(rig("b"), devices=())))
        world.submit(script(), script())
        assert set(told(world, "j2").devices) == {"a/cuda0"}


class TestStart:
    def test_it_starts_when_what_has_its_device_ends(self) -> None:
        world = fleet(rig())
        world.submit(long("a"), long("b"))
        world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
        start = told(world, "j2").start
        assert start is not None
        assert start.at == pytest.approx(world.now + 100, rel=0.01)
        assert (start.late_at or 0) > (start.at or 0) > 0
        assert start.why == "when j1.1 ends on a/cuda0"

    def test_what_goes_before_it_comes_first(self) -> None:
        world = fleet(rig(count=2))
        world.submit(*[long(f"a{n}") for n in range(5)])
        third, fifth = told(world, "j3").start, told(world, "j5").start
        assert third is not None
        assert fifth is not None
        assert (third.ahead, fifth.ahead) == (0, 2)
        assert fifth.at == pytest.approx((third.at or 0) + 100, rel=0.01)

    def test_priority_counts_and_other_devices_do_not(self) -> None:
        world = fleet(rig("a"), rig("b", vram_gb=80.0))
        world.submit(long("a", resources=Resources(vram_gb=48)), long("b"))
        world.submit(long("c", resources=Resources(vram_gb=48)), long("d", priority=3), long("e", priority=-1))
        start = told(world, "j3").start
        assert start is not None
        assert start.ahead == 1
        assert start.why == "1 job goes before it; then b/cuda0 is free"

    def test_what_fits_nowhere_holds_nobody_up(self) -> None:
        world = fleet(rig(price_per_h=2.0), rules=Rules(cost=Cost(max_price_per_h={WorkKind.EVALUATION: 1.0})))
        world.submit(long("a"), script("dear", work_as=WorkKind.EVALUATION, config="c"), long("b"))
        start = told(world, "j3").start
        assert start is not None
        assert (start.ahead, start.why) == (0, "when j1.1 ends on a/cuda0")

    def test_unknown_is_unknown(self) -> None:
        world = fleet(rig())
        world.submit(script("who"))
        world.submit(long("b"))
        world.submit(long("c", after=("j2",)))
        first, second = told(world, "j2").start, told(world, "j3").start
        assert first is not None
        assert second is not None
        assert (first.at, second.at) == (None, None)
        assert "too few jobs like those have ended" in first.why
        assert second.why == "it comes after j2"

    def test_a_job_before_it_of_which_nobody_knows_how_long_it_takes(self) -> None:
        world = fleet(rig())
        world.submit(long("a"))
        world.submit(script("who"), long("b"))
        start = told(world, "j3").start
        assert start is not None
        assert start.at is None
        assert "how long j2, which goes before it, takes" in start.why

    def test_several_devices_are_free_when_the_last_of_them_is(self) -> None:
        world = fleet(rig(count=2))
        world.submit(long("a", 50.0), long("b", 500.0), long("g", resources=Resources(gpus=2)))
        start = told(world, "j3").start
        assert start is not None
        assert start.at == pytest.approx(world.now + 500, rel=0.01)

    def test_training_expects_self_play_to_leave(self) -> None:
        world = fleet(rig(), rules=Rules(placement=PlacementRules(preempt_after_s=60.0)))
        world.submit(long("p", 9000.0, work_as=WorkKind.SELFPLAY, config="c"))
        world.submit(long("t", work_as=WorkKind.TRAINING, config="c"))
        start = told(world, "j2").start
        assert start is not None
        assert start.at == world.now + 60 + 10

    def test_a_sweep_takes_what_it_gets(self) -> None:
        world = fleet(rig())
        world.submit(script(), sweep())
        start = told(world, "j2").start
        assert start is not None
        assert (start.at, start.why) == (None, "a sweep gets whatever devices have room, in turns with others")


class TestChanges:
    def test_a_higher_priority(self) -> None:
        world = fleet(rig())
        world.submit(*[long(f"a{n}") for n in range(4)])
        assert "a higher priority than 0: 2 jobs are ahead; `hostler job priority j4 N`" in changes(world, "j4")
        assert "j1.1 ends on a/cuda0" in changes(world, "j4")

    def test_needs_that_could_be_less(self) -> None:
        world = fleet(rig("a", count=3), rig("b", vram_gb=80.0))
        world.submit(script(), script(resources=Resources(vram_gb=200)))
        found = changes(world, "j2")
        assert "less than `--vram-gb 200`: it would fit on 4 devices more" in found
        assert "more devices with 200 GB of VRAM: 0 of the fleet have it, the largest has 80 GB" in found
        assert not any("ends on" in change for change in found), "what it does not fit on does not matter"

    def test_prices_nodes_and_dependencies(self) -> None:
        rules = Rules(cost=Cost(max_price_per_h={WorkKind.SCRIPT: 1.0}))
        world = fleet(rig("a", price_per_h=2.0), rig("b"), rules=rules)
        world.tell(inputs.LinkDown(node="b", why="gone"))
        world.submit(script())
        world.submit(script(after=("j1",)))
        found = changes(world, "j2")
        assert "a price cap of 2 per hour or more for script (it is 1): up to 1 device more" in found
        assert "b answers again (1 device that it fits on)" in found
        assert "j1 is done (pending now)" in found

    def test_quarantines_end_and_rests_are_over(self) -> None:
        world = in_quarantine()
        world.tell(*[inputs.LinkDown(node=name, why="gone") for name in "bc"])
        (job,) = world.submit(script("later", resources=Resources(device="gpu")))
        found = {change.what: change.at for change in told(world, job).changes}
        until, start = world.state.trust.doubts["a/cuda0"].until, told(world, job).start
        assert start is not None
        assert start.at == found["the quarantine of a/cuda0 ends"] == until
        assert of_device(world, "a/cuda0").device.quarantine is not None
        assert "rests" in of_device(world, "a/cuda0").summary


class TestDevice:
    def test_unknown_ones_are_not_found(self) -> None:
        with pytest.raises(NotFound, match="no device 'x/cuda0'"):
            find_device(fleet(rig()).state, "x/cuda0")

    def test_what_it_holds_and_why(self) -> None:
        world = fleet(rig())
        world.submit(long("a"), long("b"), script(resources=Resources(vram_gb=48)))
        said = of_device(world, "a/cuda0")
        (held,) = said.held
        assert (held.id, held.job, held.name) == ("j1.1", "j1", "a")
        attempt = world.state.jobs["j1"].attempt
        assert attempt is not None
        assert held.why == attempt.why != ""
        assert held.ends_at == pytest.approx(world.now + 100, rel=0.01)
        assert said.waiting == {"taken": 1, "VRAM": 1}
        assert said.summary == "a/cuda0 holds 1 script"

    def test_why_it_is_idle(self) -> None:
        world = fleet(rig(limits=NodeLimits(work=(WorkKind.SELFPLAY,))))
        assert of_device(world, "a/cuda0").summary == "a/cuda0 is idle: nothing waits"
        world.submit(script(), script(resources=Resources(vram_gb=48)), sweep())
        said = of_device(world, "a/cuda0")
        assert said.waiting == {"work kind": 3}
        assert said.summary == "a/cuda0 is idle: 3 waiting jobs are excluded (work kind 3)"

    def test_out_of_reach(self) -> None:
        world = fleet(rig())
        world.tell(inputs.LinkDown(node="a", why="no route"))
        assert "a is out of reach: no route" in of_device(world, "a/cuda0").summary

    def test_a_sweep_and_what_it_is_kept_for(self) -> None:
        world = fleet(rig())
        world.submit(sweep(stop=10**9))
        assert [held.job for held in of_device(world, "a/cuda0").held] == ["j1"] * len(world.state.sweeps["j1"].leases)
        world.core.index.reserved["a/cuda0"] = "j1"
        assert of_device(world, "a/cuda0").device.reserved_for == "j1"


class TestReasons:
    def test_who_was_chosen_among_several_kinds(self) -> None:
        world = fleet(rig())
        world.submit(script("first"))
        world.submit(script("e", work_as=WorkKind.EVALUATION, config="c"), script("s"), script("low", priority=-4))
        world.tell(ended("j1.1"))
        (lease,) = world.of(events.AttemptLeased)
        assert lease.job == "j2"
        assert lease.why.startswith(
            "priority 0 before -4; evaluation (0% of the device time, its share is 9%) before script; "
        )

    def test_reasons_are_short(self) -> None:
        world = fleet(rig(model="x" * 90))
        world.submit(script("first"))
        world.submit(*[script("a" * 200, config="b" * 200, work_as=kind) for kind in WorkKind])
        world.submit(*[long("c" + "d" * n, 9.0) for n in range(9)])
        for number in range(1, 12):
            leases = world.tell(ended(f"j{number}.1")) if world.job_state(f"j{number}") is not JobState.PENDING else []
            whys = [event.why for event in leases if isinstance(event, events.AttemptLeased)]
            assert all(0 < len(why) <= reasons.LONGEST for why in whys)


class TestForecast:
    def test_what_has_just_begun_takes_what_was_expected(self) -> None:
        half, most = forecast.left_s(KNOWN, 0.0) or (0.0, 0.0)
        assert half == pytest.approx(100)
        assert most == pytest.approx(200, rel=1e-3)

    def test_far_beyond_all_expectation_nobody_can_say(self) -> None:
        assert forecast.left_s(KNOWN, 1e6) is None

    @given(st.floats(1e-3, 1e6), st.floats(1.0, 10.0), st.floats(0, 1e7))
    def test_what_is_left_is_never_negative(self, p50_s: float, factor: float, elapsed_s: float) -> None:
        left = forecast.left_s(replace(KNOWN, p50_s=p50_s, p90_s=factor * p50_s), elapsed_s)
        assert left is None or 0 <= left[0] <= left[1]

    def test_predictions_are_judged_by_kind(self) -> None:
        world = fleet(rig())
        world.submit(long("a", 10.0), script("b", work_as=WorkKind.TRAINING, config="c"), long("z", 40.0))
        while any(job.attempt is not None for job in world.state.jobs.values()):
            (name,) = [job.attempt.id for job in world.state.jobs.values() if job.attempt is not None]
            world.tell(ended(name, started_at=START, ended_at=START + 20))
        assert set(world.state.accuracy) == {WorkKind.SCRIPT}, "nobody knew how long the training would take"
        expected = duration.judge(duration.judge(None, 10.0, 20.0), 40.0, 20.0)
        assert world.state.accuracy[WorkKind.SCRIPT] == expected
