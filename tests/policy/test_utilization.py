"""One controller per device: it reacts in time, whatever came before, and changes nothing without a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from simple_pid import PID

from hostler.model.rules import Targets
from hostler.policy.utilization import LEAN, Controller, Watch, begun, checked, idle_s, paused, step, watched

TARGETS = Targets()
SAMPLE_S = 15.0

shares = st.floats(0, 1)
targets = st.builds(
    Targets,
    gpu_min=st.floats(0.05, 0.6),
    gpu_max=st.floats(0.6, 0.95),
    pid_kp=st.floats(0, 5),
    pid_ki=st.floats(0, 1),
    pid_kd=st.floats(0, 5),
    lanes_max=st.integers(1, 16),
)


def run(controller: Controller, samples: list[float | None], targets: Targets = TARGETS) -> list[int]:
    """The lanes after each sample."""
    lanes = []
    for used in samples:
        controller, now = step(controller, used, SAMPLE_S, targets)
        lanes.append(now)
    return lanes


def after(samples: list[float], targets: Targets = TARGETS) -> Controller:
    """A controller that has seen these samples."""
    controller = Controller()
    for used in samples:
        controller, _ = step(controller, used, SAMPLE_S, targets)
    return controller


class TestBand:
    def test_below_it_there_is_more_and_above_it_less(self) -> None:
        rising = run(Controller(), [0.1] * 200)
        assert rising == sorted(rising)
        assert rising[-1] == TARGETS.lanes_max
        falling = run(begun(4, TARGETS), [1.0] * 200)
        assert falling == sorted(falling, reverse=True)
        assert falling[-1] == 1

    @settings(max_examples=30)
    @given(st.lists(st.floats(TARGETS.gpu_min, TARGETS.gpu_max), max_size=50), st.integers(1, 4))
    def test_inside_it_nothing_changes(self, samples: list[float], lanes: int) -> None:
        assert set(run(begun(lanes, TARGETS), [*samples])) <= {lanes}

    def test_a_device_that_scales_settles_in_it(self) -> None:
        controller, lanes = Controller(), 1
        seen = []
        for _ in range(400):
            controller, lanes = step(controller, min(0.25 * lanes, 1.0), SAMPLE_S, TARGETS)
            seen.append(lanes)
        assert set(seen[-200:]) == {3}

    def test_hunting_between_two_lanes_is_slow(self) -> None:
        """One job is too little and two are too much: nothing helps, so at least it is not changed all the time."""
        controller, lanes, changes = Controller(), 1, 0
        for _ in range(int(3600 / SAMPLE_S)):
            before = lanes
            controller, lanes = step(controller, 0.5 if lanes == 1 else 0.9, SAMPLE_S, TARGETS)
            changes += lanes != before
        assert 0 < changes <= 8

    def test_devices_do_not_share_a_controller(self) -> None:
        """In a fleet before this one, one object served all nodes, and each got the others' output."""
        one, other = Controller(), begun(4, TARGETS)
        for _ in range(100):
            one, _ = step(one, 0.0, SAMPLE_S, TARGETS)
            other, _ = step(other, 1.0, SAMPLE_S, TARGETS)
        assert (one.lanes, other.lanes) == (4, 1)


class TestBounds:
    @settings(max_examples=30)
    @given(st.lists(shares | st.none(), max_size=60), targets)
    def test_lanes_stay_within_what_can_be_ordered(self, samples: list[float | None], given_targets: Targets) -> None:
        assert all(1 <= lanes <= given_targets.lanes_max for lanes in run(Controller(), samples, given_targets))

    @settings(max_examples=30)
    @given(st.integers(0, 20 * 240), st.sampled_from([0.0, 0.3, 1.0]), st.floats(0.85, 1.0))
    def test_it_never_winds_up(self, samples: int, saturated: float, then: float) -> None:
        """Hours at a bound weigh no more than minutes: it reacts as soon as one that was put there just now."""
        controller = replace(after([saturated] * min(samples, 600)), last=saturated)
        fresh = begun(controller.lanes, TARGETS, last=saturated)
        farthest = 2 * LEAN + TARGETS.pid_kp
        reaction_s = farthest / (TARGETS.pid_ki * (then - TARGETS.gpu_max))
        steps = int(reaction_s / SAMPLE_S) + 2
        if controller.lanes > 1:
            assert run(controller, [then] * steps)[-1] < controller.lanes
            assert run(fresh, [then] * steps)[-1] < controller.lanes
        assert 1 <= controller.integral <= TARGETS.lanes_max

    def test_hours_of_idleness_are_forgotten_within_minutes(self) -> None:
        long, short = after([0.0] * 4000), after([0.0] * 100)
        assert long.lanes == short.lanes == TARGETS.lanes_max
        assert run(long, [1.0] * 30) == run(short, [1.0] * 30)
        assert run(long, [1.0] * 30)[-1] < TARGETS.lanes_max

    def test_a_long_gap_is_no_long_time_of_the_same(self) -> None:
        controller = after([0.3, 0.3])
        gap, lanes = step(controller, 0.3, 86_400.0, TARGETS)
        most, _ = step(controller, 0.3, TARGETS.telemetry_max_age_s, TARGETS)
        assert (gap, lanes) == (most, 1)

    @pytest.mark.parametrize("dt_s", [0.0, -5.0])
    def test_no_time_is_no_sample(self, dt_s: float) -> None:
        controller = after([0.3, 0.3])
        assert step(controller, 0.0, dt_s, TARGETS)[0] == replace(controller, last=0.0)


class TestBumpless:
    def test_unknown_changes_nothing(self) -> None:
        controller = after([0.2] * 20)
        assert step(controller, None, SAMPLE_S, TARGETS) == (controller, controller.lanes)
        assert run(Controller(), [None] * 1000)[-1] == 1

    @settings(max_examples=30)
    @given(st.lists(shares, max_size=100), shares)
    def test_switching_it_on_moves_nothing(self, samples: list[float], first: float) -> None:
        controller = paused(after(samples))
        again, lanes = step(controller, first, SAMPLE_S, TARGETS)
        assert lanes == controller.lanes
        assert again.output == again.integral == lanes

    @settings(max_examples=30)
    @given(st.lists(shares, max_size=100), shares, targets)
    def test_new_targets_move_nothing_but_into_their_bounds(
        self, samples: list[float], first: float, new: Targets
    ) -> None:
        controller = after(samples)
        changed, lanes = step(controller, first, SAMPLE_S, new)
        assert lanes == min(controller.lanes, new.lanes_max)
        assert changed.tuning != controller.tuning or new == TARGETS

    def test_what_is_taken_up_in_between_is_what_the_library_does_in_one_go(self) -> None:
        """Made anew for every sample, the controller gives what one PID object gives that lives on."""
        samples = [0.1, 0.3, 0.2, 0.95, 1.0, 0.5, 0.05, 0.0]
        lively = Targets(pid_kp=0.4, pid_ki=0.002, pid_kd=1.0, gpu_min=0.7, gpu_max=0.7, lanes_max=8)
        pid = PID(0.4, 0.002, 1.0, setpoint=0.7, sample_time=None, output_limits=(1, 8), auto_mode=False)
        pid.set_auto_mode(True, last_output=3)
        pid.tunings = (0.0, 0.0, 0.0)
        pid(samples[0], dt=1.0)
        pid.tunings = (0.4, 0.002, 1.0)
        controller = begun(3, lively, last=samples[0])
        for used in samples[1:]:
            controller, _ = step(controller, used, SAMPLE_S, lively)
            assert controller.output == pytest.approx(pid(used, dt=SAMPLE_S))


class TestIdle:
    def watch(self, samples: list[float | None], every_s: float = SAMPLE_S) -> tuple[Watch, float]:
        watch, now = Watch(), 0.0
        for used in samples:
            now += every_s
            watch = watched(watch, used, now, TARGETS)
        return watch, now

    def test_five_minutes_below_five_percent(self) -> None:
        watch, now = self.watch([0.04] * 20)
        assert idle_s(watch, now, TARGETS) is None
        watch, now = self.watch([0.04] * 21)
        assert idle_s(watch, now, TARGETS) == 300

    @pytest.mark.parametrize("other", [0.05, 0.5, None])
    def test_one_other_reading_begins_it_anew(self, other: float | None) -> None:
        watch, now = self.watch([0.0] * 20 + [other] + [0.0] * 20)
        assert idle_s(watch, now, TARGETS) is None

    def test_silence_is_not_idleness(self) -> None:
        watch, now = self.watch([0.0, 0.0, 0.0], every_s=150.0)
        assert idle_s(watch, now, TARGETS) is None

    def test_it_is_looked_at_once_a_minute_and_told_once(self) -> None:
        watch, now = self.watch([0.0] * 21)
        looked = checked(watch, now, told=False)
        assert idle_s(looked, now + 59, TARGETS) is None
        assert idle_s(looked, now + 60, TARGETS) == 360
        assert idle_s(checked(watch, now, told=True), now + 3600, TARGETS) is None
