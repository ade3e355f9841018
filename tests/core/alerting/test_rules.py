"""Every rule on a small world: when it fires, when it does not, when it is over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hostler.model import events, inputs
from hostler.model.alerts import USUAL_ALERTS, AlertRule
from hostler.model.rules import USUAL, Targets
from hostler.model.work import DeviceKind, WorkKind
from tests.core.builders import Driver, ended, fleet, link_up, node, replayed, script, snapshot, sweep
from tests.core.care.builders import EVERY_S, Ward, told, work
from tests.core.loop.builders import NAME, Loop, loop, rated, small
from tests.core.trust.test_trust import GPU, in_quarantine, running

DAY_S = 86_400.0


def rules(*names: str, **changes: Any) -> tuple[AlertRule, ...]:
    """These of the usual rules, with changes."""
    return tuple(replace(rule, **changes) for rule in USUAL_ALERTS if rule.name in names)


def watched(driver: Driver, *names: str, **changes: Any) -> Driver:
    """The driver with these rules in force."""
    driver.tell(inputs.Configure(rules=replace(driver.state.rules, alerts=rules(*names, **changes))))
    return driver


def ward(*names: str, gpus: int = 2, **changes: Any) -> Ward:
    """A node with GPUs whose telemetry is told by hand, and these rules."""
    driver = Ward()
    found = inputs.NodeFound(node=node(devices=gpus, kind=DeviceKind.CUDA, vram_gb=24.0))
    driver.tell(inputs.Begin(version="test", epoch=1), found, link_up())
    set_rules = replace(USUAL, targets=Targets(disk_free_gb=5.0), alerts=rules(*names, **changes))
    driver.tell(inputs.Configure(rules=set_rules))
    return driver


def live(driver: Driver, seconds: float, heard: inputs.Telemetry | None = None) -> list[tuple[float, Any]]:
    """Time passes, with a tick whenever the core asks for one, and telemetry if there is some; alerts with times."""
    seen: list[tuple[float, Any]] = []
    until, next_heard = driver.now + seconds, driver.now
    while driver.now < until:
        due = driver.core.wake_at()
        at = min(until, next_heard if heard is not None else until, until if due is None else max(due, driver.now))
        given: list[inputs.Input] = [inputs.Tick()]
        if heard is not None and at >= next_heard:
            given, next_heard = [replace(heard, at=at)], at + EVERY_S
        driver.tell(*given, after_s=max(at - driver.now, 1e-6))
        seen += [(driver.now, each) for each in driver.events if each.kind.startswith("alert.")]
    return seen


def kinds(seen: list[tuple[float, Any]]) -> list[tuple[str, str]]:
    return [(each.kind, each.subject) for _, each in seen]


class TestUtilization:
    def test_idle_gpus_fire_after_half_an_hour_and_busy_ones_end_it(self) -> None:
        world = ward("gpu_idle", "fleet_idle")
        world.start(*world.submit(work(WorkKind.TRAINING)))
        begun = world.now
        seen = live(world, 1799.0, told(busy=0.2))
        assert seen == []
        seen = live(world, 120.0, told(busy=0.2))
        assert sorted(kinds(seen)) == [("alert.fired", "fleet"), ("alert.fired", "n")]
        at, fired = seen[0]
        assert 1800.0 <= at - begun <= 1800.0 + 2 * 30.0
        assert (fired.value, fired.threshold, fired.comparison) == (pytest.approx(0.2), 0.5, "below")
        # Only the GPU that holds something is meant to work: the other has nothing that waits for it.
        assert "1 of 1 GPUs" in fired.why
        busy = live(world, 900.0, told(busy=0.9))
        assert sorted(kinds(busy)) == [("alert.ended", "fleet"), ("alert.ended", "n")]
        assert busy[0][1].value >= 0.6

    def test_gpus_without_anything_to_do_idle_in_peace(self) -> None:
        world = ward("gpu_idle", "fleet_idle")
        assert live(world, 7200.0, told(busy=0.0)) == []
        assert world.core.index.watching.readings["gpu_idle"] == {}

    def test_what_is_not_heard_of_is_not_idle(self) -> None:
        world = ward("gpu_idle")
        world.start(*world.submit(work(WorkKind.TRAINING)))
        assert live(world, 7200.0, told(busy=None)) == []
        assert world.core.index.watching.readings["gpu_idle"]["n"].value is None

    def test_silence_of_a_node_neither_fires_nor_ends(self) -> None:
        world = ward("gpu_idle")
        world.start(*world.submit(work(WorkKind.TRAINING)))
        assert kinds(live(world, 2400.0, told(busy=0.1))) == [("alert.fired", "n")]
        assert live(world, 3600.0) == []
        assert kinds(live(world, 1200.0, told(busy=0.9))) == [("alert.ended", "n")]

    def test_a_cordoned_node_has_no_work_to_wait_for(self) -> None:
        world = ward("gpu_idle")
        world.tell(inputs.CordonNode(node="n"))
        world.submit(work(WorkKind.TRAINING))
        assert live(world, 7200.0, told(busy=0.0)) == []

    def test_a_lost_link_neither_ends_what_fires_nor_lets_it_begin_anew(self) -> None:
        world = ward("gpu_idle", "fleet_idle")
        world.start(*world.submit(work(WorkKind.TRAINING)))
        live(world, 1200.0, told(busy=0.1))
        lost(world)
        assert world.core.index.watching.readings["gpu_idle"]["n"].value is None
        seen = live(world, 900.0, told(busy=0.1))
        assert sorted(kinds(seen)) == [("alert.fired", "fleet"), ("alert.fired", "n")], "the time before counts"
        lost(world)
        assert sorted(kinds(live(world, 900.0, told(busy=0.9)))) == [("alert.ended", "fleet"), ("alert.ended", "n")]

    def test_of_a_cordoned_node_out_of_reach_nothing_is_expected(self) -> None:
        world = ward("gpu_idle", unknown_s=600.0)
        world.tell(inputs.CordonNode(node="n"))
        world.tell(inputs.LinkDown(node="n", why="no route"))
        assert live(world, 7200.0) == []


class TestNodes:
    def test_a_node_out_of_reach_fires_and_its_return_ends_it(self) -> None:
        world = watched(fleet(), "node_unreachable")
        world.tell(inputs.LinkDown(node="n", why="no route"))
        seen = live(world, 600.0)
        assert kinds(seen) == [("alert.fired", "n")]
        assert "no route" in seen[0][1].why
        assert seen[0][1].severity == "critical"
        world.tell(link_up())
        assert kinds(live(world, 60.0)) == [("alert.ended", "n")]

    def test_nodes_of_another_fleet_are_missed_by_nobody(self) -> None:
        world = watched(fleet(), "node_unreachable")
        world.tell(inputs.Begin(version="test", epoch=2, nodes=("m",)))
        assert live(world, 7200.0) == []
        world.tell(inputs.Begin(version="test", epoch=3, nodes=("n",)))
        assert kinds(live(world, 7200.0)) == [("alert.fired", "n")]

    def test_a_node_that_was_emptied_is_missed_by_nobody(self) -> None:
        world = watched(fleet(), "node_unreachable")
        world.tell(inputs.CordonNode(node="n", drain=True))
        world.tell(inputs.LinkDown(node="n", why="switched off"))
        assert live(world, 7200.0) == []

    def test_a_disk_that_fills_up(self) -> None:
        world = ward("disk_full_soon")
        seen: list[Any] = []
        free_gb = 800.0
        for _ in range(120):
            free_gb -= 0.8  # 800 GB in 4 hours
            seen += live(world, EVERY_S, told(disk_free_gb=free_gb))
        assert kinds(seen) == [("alert.fired", "n")]
        assert seen[0][1].value == pytest.approx(4 * 3600, rel=0.15)
        assert kinds(live(world, 3600.0, told(disk_free_gb=free_gb))) == [("alert.ended", "n")]

    def test_a_full_disk_fills_up_no_more_and_is_full(self) -> None:
        world = ward("disk_full_soon")
        assert kinds(live(world, 1200.0, told(disk_free_gb=0.5))) == [("alert.fired", "n")]

    def test_a_full_disk_out_of_reach_is_not_known_to_have_room(self) -> None:
        world = ward("disk_full_soon")
        live(world, 1200.0, told(disk_free_gb=0.5))
        lost(world)
        assert live(world, 1200.0, told(disk_free_gb=0.5)) == []
        world.tell(inputs.CordonNode(node="n", drain=True), inputs.LinkDown(node="n", why="switched off"))
        assert kinds(live(world, 60.0)) == [("alert.ended", "n")]

    def test_a_distrusted_device_that_left_the_fleet_is_missed_by_nobody(self) -> None:
        world = watched(in_quarantine(), "device_distrusted")
        live(world, 60.0)
        world.tell(inputs.Begin(version="test", epoch=2, nodes=("b",)))
        assert kinds(live(world, 60.0)) == [("alert.ended", "a/cuda0")]

    def test_a_device_in_quarantine_until_it_is_trusted_again(self) -> None:
        world = watched(in_quarantine(), "device_distrusted")
        assert kinds(live(world, 60.0)) == [("alert.fired", "a/cuda0")]
        world.submit(*(script(f"bake {number}", resources=GPU) for number in range(9)))
        live(world, world.state.rules.quarantine.rest_s)
        (probe,) = (name for name, device in running(world).items() if device == "a/cuda0")
        world.tell(ended(probe))
        assert kinds(live(world, 60.0)) == [("alert.ended", "a/cuda0")]


def lost(world: Driver, seconds: float = 300.0) -> None:
    """The link to the node is gone for a while; by the rules in force there is nothing to tell of it."""
    world.tell(inputs.LinkDown(node="n", why="no route"))
    assert live(world, seconds) == []
    world.tell(link_up(attempts=[job.attempt.id for job in world.state.jobs.values() if job.attempt is not None]))


class TestWork:
    def test_a_sweep_that_stands_still(self) -> None:
        world = watched(fleet(), "ledger_stalled")
        (name,) = world.submit(sweep(stop=10**9))
        seen = live(world, 2400.0)
        assert kinds(seen) == [("alert.fired", name)]
        assert 1800.0 <= seen[0][1].value <= 1900.0
        chunk, _, _ = world.chunk(name)
        world.tell(world.searched(chunk))
        assert kinds(live(world, 60.0)) == [("alert.ended", name)]

    def test_a_sweep_that_moves_is_left_alone_and_one_that_ends_is_measured_no_more(self) -> None:
        world = watched(fleet(), "ledger_stalled")
        (name,) = world.submit(sweep(stop=10**40))
        for _ in range(10):
            assert live(world, 600.0) == []
            world.tell(world.searched(world.chunk(name)[0]))
        assert kinds(live(world, 3600.0)) == [("alert.fired", name)]
        world.tell(inputs.Cancel(job=name))
        seen = live(world, 60.0)
        assert kinds(seen) == [("alert.ended", name)]
        assert seen[0][1].value is None

    def test_a_sweep_that_waits_for_another_job_has_no_reason_to_move(self) -> None:
        world = watched(fleet(), "ledger_stalled")
        first, _ = world.submit(script("a", key="a"), sweep(after=("a",)))
        assert live(world, 7200.0) == []
        attempt = world.state.jobs[first].attempt
        assert attempt is not None
        world.tell(inputs.Ended(attempt=attempt.id, ended_at=world.now, exit_code=0))
        assert live(world, 1700.0) == []
        assert len(live(world, 200.0)) == 1

    def test_trainings_that_pile_up(self) -> None:
        world = watched(fleet(), "training_queue_long")
        ids = world.submit(*(script(f"t{n}", work_as=WorkKind.TRAINING) for n in range(22)))
        seen = live(world, 700.0)
        assert kinds(seen) == [("alert.fired", "fleet")]
        assert seen[0][1].value == 21.0
        world.tell(*(inputs.Cancel(job=name) for name in ids[-12:]))
        assert kinds(live(world, 60.0)) == [("alert.ended", "fleet")]


def playing() -> Loop:
    """One device, and a job of self-play that has begun on it."""
    world = loop(small(selfplay__games=5), devices=1)
    watched(world, "selfplay_slow")
    world.step()
    while world.running(WorkKind.SELFPLAY) == []:
        world.step()
    (job,) = world.running(WorkKind.SELFPLAY)
    assert job.attempt is not None
    world.tell(inputs.Started(attempt=job.attempt.id, pid=1, pid_start=1))
    return world


class TestLoops:
    def test_a_loop_that_makes_nothing(self) -> None:
        world = loop(devices=2)
        watched(world, "loop_stalled")
        seen = live(world, 7400.0)
        assert kinds(seen) == [("alert.fired", NAME)]
        assert "nothing yet" in seen[0][1].why
        world.step()
        world.step()
        assert kinds(live(world, 120.0)) == [("alert.ended", NAME)]

    def test_self_play_that_is_slow(self) -> None:
        world = playing()
        begun = world.now
        seen = live(world, 3 * 3600.0)
        assert kinds(seen) == [("alert.fired", "n")]
        assert seen[0][0] - begun >= 1800.0
        assert seen[0][1].value < 20.0

    def test_games_of_a_node_out_of_reach_may_wait_there(self) -> None:
        world = playing()
        world.tell(inputs.LinkDown(node="n", why="no route"))
        assert live(world, 6 * 3600.0) == []
        assert world.core.index.watching.readings["selfplay_slow"]["n"].value is None

    def test_between_two_jobs_a_node_is_at_self_play_still(self) -> None:
        world = playing()
        assert live(world, 4000.0) == []
        since = world.core.index.watching.watches["selfplay_slow"]["n"].since
        world.end(*world.running(WorkKind.SELFPLAY))
        (job,) = world.running(WorkKind.SELFPLAY)
        assert job.attempt is not None
        assert job.attempt.started_at is None
        assert live(world, 60.0) == []
        assert world.core.index.watching.watches["selfplay_slow"]["n"].since == since is not None

    def test_a_rating_that_does_not_move(self) -> None:
        """For three days the same model is the best: nothing was gained, and that is certain."""
        world = loop()
        while world.config().current is None:
            world.step()
        watched(world, "elo_stalled")
        world.tell(inputs.Tick(), after_s=3 * DAY_S - 120.0)
        assert live(world, 60.0) == []
        world.tell(inputs.Tick(), after_s=120.0)
        (fired,) = world.of(events.AlertFired)
        assert (fired.subject, fired.value, fired.high) == (NAME, 0.0, 0.0)

    @pytest.mark.parametrize(("gain", "half", "fires"), [(-40.0, 10.0, True), (-40.0, 90.0, False), (30.0, 5.0, False)])
    def test_a_velocity_fires_by_the_upper_end_of_its_interval(self, gain: float, half: float, fires: bool) -> None:
        world = loop()
        while world.config().current is None:
            world.step()
        first = world.config().current
        assert first is not None
        world.tell(inputs.Tick(), after_s=3 * DAY_S)
        second = world.decide(a_wins=True)
        assert world.config().current == second
        for model, elo in ((first, 0.0), (second, gain)):
            world.config().ratings[world.config().evaluated_as(model)] = rated(elo, half)
        watched(world, "elo_stalled")
        seen = live(world, 60.0)
        assert kinds(seen) == ([("alert.fired", NAME)] if fires else [])
        if fires:
            assert seen[0][1].low < seen[0][1].value < seen[0][1].high < 1.0


def restarted(world: Driver, after_s: float = 1.0) -> Driver:
    """The next controller on the journal; its node is out of reach as yet."""
    again = Driver(replayed(world.entries), world.now + after_s)
    again.tell(inputs.Begin(version="test", epoch=2))
    return again


class TestJournal:
    def test_what_fires_survives_a_restart_and_fires_once(self) -> None:
        world = watched(fleet(), "node_unreachable")
        world.tell(inputs.LinkDown(node="n", why="no route"))
        live(world, 600.0)
        assert snapshot(world.state) == world.state
        core = replayed(world.entries)
        assert core.state.alerts == world.state.alerts
        again = Driver(core, world.now)
        again.tell(inputs.Begin(version="test", epoch=2))
        assert kinds(live(again, 3600.0)) == []
        again.tell(link_up())
        assert kinds(live(again, 60.0)) == [("alert.ended", "n")]

    def test_a_restart_is_no_progress(self) -> None:
        """What stands still was not moved by a new controller; only what moves ends it, and nobody is told twice."""
        world = watched(fleet(), "ledger_stalled")
        (name,) = world.submit(sweep(stop=10**9))
        world.tell(world.searched(world.chunk(name)[0]))
        live(world, 2400.0)
        again = restarted(world)
        assert live(again, 7200.0) == []
        again.tell(link_up())
        again.tell(again.searched(again.chunk(name)[0]))
        assert kinds(live(again, 60.0)) == [("alert.ended", name)]

    def test_nor_is_it_one_for_a_loop(self) -> None:
        world = loop(devices=2)
        watched(world, "loop_stalled")
        assert kinds(live(world, 7400.0)) == [("alert.fired", NAME)]
        again = restarted(world)
        assert live(again, 10_000.0) == []

    def test_what_went_on_while_there_was_no_controller_fires_nothing(self) -> None:
        world = watched(fleet(), "ledger_stalled", "loop_stalled", "node_unreachable")
        (name,) = world.submit(sweep(stop=10**9))
        world.tell(inputs.LinkDown(node="n", why="no route"))
        live(world, 100.0)
        again = restarted(world, after_s=DAY_S)
        assert live(again, 290.0) == []
        assert again.core.index.watching.readings["node_unreachable"]["n"].value is None
        assert kinds(live(again, 60.0)) == [("alert.fired", "n")]
        assert kinds(live(again, 1800.0)) == [("alert.fired", name)]

    def test_a_rule_that_is_turned_off_ends_what_it_had(self) -> None:
        world = watched(fleet(), "node_unreachable")
        world.tell(inputs.LinkDown(node="n", why="no route"))
        live(world, 600.0)
        watched(world, "node_unreachable", enabled=False)
        seen = live(world, 60.0)
        assert [each.why for _, each in seen] == ["its rule is not in force any more"]
        watched(world)
        assert world.core.wake_at() is None or live(world, 3600.0) == []

    def test_nothing_is_looked_at_where_there_are_no_rules(self) -> None:
        world = fleet()
        assert world.core.wake_at() is None
