"""Which jobs the loops queue, and who gets the devices: by weight, without starvation, and nothing of no use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hostler.core.loop.stages import steps_for, untrained_positions, window
from hostler.core.loop.views import config_view
from hostler.model import inputs
from hostler.model.work import DeviceKind, JobState, Resources, StagePayload, WorkKind
from hostler.policy.population import EXPLORATION_GAP_S
from tests.core.builders import link_up, node, replayed, script, sweep
from tests.core.loop.builders import Loop, loop, order_of, small

S, X, T, E = WorkKind.SELFPLAY, WorkKind.EXPORT, WorkKind.TRAINING, WorkKind.EVALUATION
STAGES = (S, X, T, E)


class TestReady:
    def test_as_many_wait_as_devices_are_open_and_one_at_least(self) -> None:
        world = loop(devices=6)
        world.until(lambda: world.running(S))
        held = [device for device in world.state.devices.values() if device.attempts]
        assert len(held) == 6
        assert len(world.waiting(S)) == 1

    def test_a_device_that_comes_gets_work_at_once(self) -> None:
        world = loop(devices=1)
        world.until(lambda: world.running(S))
        world.tell(inputs.NodeFound(node=node("m", devices=4)), link_up("m"))
        assert all(device.attempts for device in world.state.devices.values())

    def test_a_config_whose_work_fits_nowhere_does_not_block_the_others(self) -> None:
        stage = replace(small().selfplay.stage, resources=Resources(device="gpu"))
        world = loop(small("gpu_2p", selfplay__stage=stage), small("cpu_2p"), devices=3)
        world.until(lambda: world.running(S, "cpu_2p"))
        for _ in range(40):
            world.step()
            assert all(device.attempts for device in world.state.devices.values()), "a device has nothing to do"
        assert not world.config("gpu_2p").segments
        assert len(world.config("cpu_2p").segments) > 16

    def test_a_motley_fleet_is_busy_wherever_it_fits(self) -> None:
        gpu = replace(small().selfplay.stage, resources=Resources(device="gpu"))
        cpu = replace(small().selfplay.stage, resources=Resources(device="cpu"))
        world = Loop()
        found = [
            inputs.NodeFound(node=node("c", devices=3)),
            inputs.NodeFound(node=node("g", devices=2, kind=DeviceKind.CUDA)),
        ]
        world.tell(inputs.Begin(version="test", epoch=1), *found, link_up("c"), link_up("g"))
        specs = (small("gpu_2p", selfplay__stage=gpu), small("cpu_2p", selfplay__stage=cpu))
        world.tell(inputs.Declare(configs=specs))
        world.until(lambda: world.config("gpu_2p").segments and world.config("cpu_2p").segments)
        for _ in range(30):
            world.step()
            assert all(device.attempts for device in world.state.devices.values())

    def test_a_config_whose_selfplay_fails_does_not_block_the_others(self) -> None:
        """Its jobs rest between two tries; meanwhile the devices are the others'."""
        slow = replace(small().selfplay.stage.retry, backoff_s=300.0)
        stage = replace(small().selfplay.stage, retry=slow)
        world = loop(small("bad_2p", selfplay__stage=stage), small("good_2p"), devices=2)
        for _ in range(60):
            failing = world.running(S, "bad_2p")
            if failing:
                world.end(failing[0], exit_code=3)
            else:
                world.step()
            assert all(device.attempts for device in world.state.devices.values())
        resting = [job for job in world.waiting(S, "bad_2p") if job.not_before > world.now]
        assert len(resting) <= 4, "what fails is not queued again and again"
        assert len(world.config("good_2p").segments) > 40


class TestShares:
    def test_configs_share_by_weight(self) -> None:
        weights = {"a": 1.0, "b": 2.0, "c": 3.0}
        world = loop(*(small(name, weight=weight) for name, weight in weights.items()), devices=6)
        world.step_s = 60.0
        world.until(lambda: all(world.config(name).segments for name in weights))
        held: Counter[str] = Counter()
        for _ in range(120):
            world.step()
            held.update({name: sum(len(world.running(stage, name)) for stage in STAGES) for name in weights})
        total = sum(held.values())
        shares = {name: held[name] / total for name in weights}
        assert shares == pytest.approx({"a": 1 / 6, "b": 2 / 6, "c": 3 / 6}, abs=0.05)

    def test_configs_share_by_weight_on_one_device(self) -> None:
        world = loop(small("a"), small("b", weight=3.0))
        world.step_s = 60.0
        held: Counter[str] = Counter()
        for _ in range(125):
            world.step()
            held.update({name: sum(len(world.running(stage, name)) for stage in STAGES) for name in "ab"})
        assert held["b"] / held["a"] == pytest.approx(3.0, rel=0.25)

    @pytest.mark.parametrize("devices", [1, 2])
    @pytest.mark.parametrize(
        ("configs", "steps"),
        [(4, 120), *(pytest.param(*sizes, marks=pytest.mark.long) for sizes in ((8, 300), (12, 600)))],
        ids=["four", "eight", "twelve"],
    )
    def test_many_configs_on_few_devices_all_get_their_turn(self, devices: int, configs: int, steps: int) -> None:
        names = [f"c{number:02}" for number in range(configs)]
        world = loop(*(small(name) for name in names), devices=devices)
        world.step_s = 60.0
        for _ in range(steps):
            world.step()
        games = {name: sum(each.games for each in world.config(name).segments.values()) for name in names}
        assert min(games.values()) >= 0.4 * max(games.values()), games
        assert all(world.config(name).current for name in names)

    def test_the_choice_is_written_down_with_its_factors(self) -> None:
        world = loop(small("a"), small("b"), devices=2)
        world.until(lambda: world.running(S, "a") and world.running(S, "b"))
        whys = [job.wanted or "" for name in "ab" for job in world.running(S, name)]
        assert all("curriculum" in why and "starvation" in why and "velocity ?" in why for why in whys)


def shared(devices: int, sweeps: int = 1, until_s: float = 2400.0) -> dict[str, float]:
    """Seconds that self-play (300 s a job) and sweeps (10 s a chunk) of one priority had devices, once both go."""
    world = loop(small(selfplay__games=32, training__reuse=(1e-9, 8.0)), devices=devices)
    world.until(lambda: world.running(S))
    specs = [sweep(f"w{number}", 0, 10**9, target_s=10.0) for number in range(sweeps)]
    world.submit(*specs)
    due: dict[str, float] = {}
    had: Counter[str] = Counter()
    end = world.now + until_s
    while world.now < end:
        for _, name, seconds in at_work(world):
            due.setdefault(name, world.now + seconds)
        held = {name for _, name, _ in at_work(world)}
        name = min(held, key=lambda each: (due[each], each))
        step = max(due[name] - world.now, 0.0)
        for _, device, _ in at_work(world):
            had[kind_of(world, device)] += step
        finish(world, name, step)
    return {kind: had[kind] / (had["selfplay"] + had["sweep"]) for kind in ("selfplay", "sweep")}


def kind_of(world: Loop, name: str) -> str:
    job = world.state.jobs[name.rpartition(".")[0]]
    return job.spec.work.value


def at_work(world: Loop) -> Iterator[tuple[str, str, float]]:
    """Of each device: what its agent is at. Chunks at work end before attempts begin; both end in their time."""
    for name, device in world.state.devices.items():
        if device.chunks:
            yield name, device.chunks[0], 10.0
        elif device.attempts:
            job = world.state.jobs[device.attempts[0].rpartition(".")[0]]
            assert isinstance(job.spec.payload, StagePayload)
            yield name, device.attempts[0], 300.0 if job.spec.work is S else 10.0


def finish(world: Loop, name: str, after_s: float) -> None:
    """What a device is at ends; chunks that were called back come back."""
    job = world.state.jobs[name.rpartition(".")[0]]
    if job.attempt is not None:
        status, result = world.lab.report(order_of(job))
        told: list[inputs.Input] = [
            inputs.Ended(attempt=name, started_at=world.now + after_s - 300.0, ended_at=world.now + after_s,
                         exit_code=status, result=result)
        ]  # fmt: skip
    else:
        told = [world.searched(name, elapsed_s=10.0)]
    world.tell(*told, after_s=after_s)
    while recalled := [each for each in world.commands if each.__class__.__name__ == "Recall"]:
        told = [world.returned(each.chunk, reason="recalled") for each in recalled]  # type: ignore[union-attr]
        world.tell(*told, after_s=0.0)
    world.answer_fits()


@pytest.mark.parametrize(
    ("devices", "sweeps", "least"),
    [
        (1, 1, 0.2),
        (1, 2, 0.2),
        (2, 1, 0.4),
        *(pytest.param(*case, marks=pytest.mark.long) for case in ((2, 2, 0.4), (5, 1, 0.3), (5, 3, 0.3))),
    ],
)
def test_selfplay_and_sweeps_of_one_priority_share(devices: int, sweeps: int, least: float) -> None:
    """Other stages go before both, and come between chunks rather than between games: sweeps pay for them."""
    shares = shared(devices, sweeps)
    assert min(shares.values()) >= least, shares


def test_a_sweep_of_lower_priority_gets_what_selfplay_leaves() -> None:
    world = loop(small(priority=1), devices=2)
    world.until(lambda: len(world.running(S)) + len(world.running(E)) == 2)
    world.submit(sweep("low", 0, 10**9))
    for _ in range(20):
        world.step()
        assert not any(device.chunks for device in world.state.devices.values())


def test_a_script_of_the_same_priority_is_done_amid_selfplay_and_sweeps() -> None:
    world = loop(devices=2)
    world.until(lambda: world.running(S))
    world.submit(sweep("w", 0, 10**9, target_s=10.0))
    (name,) = world.submit(script("mine"))
    for _ in range(12):
        if world.job_state(name) is not JobState.PENDING:
            break
        for _, each, _ in list(at_work(world)):
            if each.rpartition(".")[0] in world.state.jobs:
                finish(world, each, 30.0)
    assert world.job_state(name) is not JobState.PENDING


class TestPace:
    SPEC = {"training__max_steps": 60, "training__reuse": (1.0, 8.0)}

    def test_selfplay_pauses_when_it_is_ahead_and_resumes(self) -> None:
        """One training of 60 steps of 64 uses 3840 positions at the least; more than two jobs' worth is too much."""
        world = loop(small(**self.SPEC), devices=3)
        trained = False
        for _ in range(400):
            ahead = config_view(world.config(), world.now).next
            trained = trained or "self-play is ahead" in ahead
            total = sum(untrained_positions(world.config()))
            assert total <= 3840 + 8 * 32 * 60, "what ran when it paused, and no more"
            world.step()
            if world.config().candidates == 3:
                break
        assert world.config().candidates == 3

    def test_while_it_is_ahead_nothing_of_selfplay_is_queued(self) -> None:
        world = loop(small(**self.SPEC), devices=4)
        training = world.until_running(T)
        while world.running(S):
            world.end(world.running(S)[0])
        assert not world.waiting(S)
        assert sum(untrained_positions(world.config())) > 3840
        world.end(training)
        world.decide(a_wins=False)
        world.until(lambda: world.running(S) or world.waiting(S))

    def test_it_does_not_wait_for_a_training_that_needs_more_games(self) -> None:
        """More positions than one training must use, yet fewer games than a dataset needs: only games help."""
        world = loop(small(training__max_steps=10, training__reuse=(1.0, 8.0), export__fresh_games=300))
        world.until_running(X)
        assert sum(untrained_positions(world.config())) > 10 * 64


class TestWindow:
    def test_steps_use_every_position_and_stay_within_the_pace(self) -> None:
        """Where the window is larger than new games allow steps for, it is cut to what can be used."""
        spec = small(training__reuse=(0.25, 2.0), export__window_games=400)
        world = loop(spec, devices=2)
        sizes = []
        for _ in range(5):
            world.until_running(T)
            (job,) = world.running(T)
            dataset = order_of(job)["dataset"]
            new, _ = untrained_positions(world.config())
            assert order_of(job)["steps"] * 64 >= dataset["positions"]
            assert order_of(job)["steps"] * 64 <= 2.0 * new
            sizes.append(dataset["games"])
            world.end(job)
            world.decide(a_wins=False)
        assert max(sizes) < 400

    def test_games_that_came_while_an_export_ran_are_new_to_the_next_training(self) -> None:
        world = loop(devices=2)
        export = world.until_running(X)
        before = {each["sha256"] for each in order_of(export)["segments"]}
        while len(world.config().segments) < len(before) + 8:
            world.end(world.until_running(S))
        late = set(world.config().segments) - before
        world.end(export)
        training = world.until_running(T)
        if order_of(training)["dataset"] is not None:
            world.end(training)
        assert world.config().candidates == 1
        unseen = sum(each.positions for name, each in world.config().segments.items() if name not in before)
        assert untrained_positions(world.config()) == (0, unseen)
        assert late

    def test_a_dataset_of_too_few_new_games_waits_for_a_better_one(self) -> None:
        """Were it to be trained on, or nothing else to be made before it is, the loop would stand still."""
        world = loop(small(training__reuse=(0.1, 1.0)))
        export = world.until_running(X)
        said = world.report(export)
        for verdict in said["segments"][1:]:
            verdict |= {"accepted": verdict["games"] - 1, "rejected": {"duplicate": 1}}
        said["dataset"] = {**said["dataset"], "games": sum(each["accepted"] for each in said["segments"])}
        said["dataset"]["positions"] = 10 * said["dataset"]["games"] * 60
        world.end(export, said, exit_code=0)
        assert steps_for(world.config()) == 0
        assert not world.running(T)
        world.until(lambda: len(world.config().datasets) == 2)

    def test_refused_segments_are_left_out_and_the_rest_is_in_order(self) -> None:
        world = loop()
        world.until(lambda: len(world.config().segments) >= 8)
        names = list(world.config().segments)
        world.config().segments[names[3]].refused = "bad"
        assert [each.sha256 for each in window(world.config())] == [name for name in names if name != names[3]]


def test_a_loop_replays_to_the_same_state_wherever_it_stands() -> None:
    world = loop(small("a"), small("b", players=3), devices=3)
    for _ in range(60):
        world.step()
    assert replayed(world.entries).state == world.state
    kinds = {entry.event.kind for entry in world.entries}
    assert {"config.segments", "config.judged", "config.dataset", "config.model", "config.played"} <= kinds


class TestTarget:
    def test_a_config_that_is_strong_enough_goes_on_as_a_trickle(self) -> None:
        world = loop(small(target_elo=-5000.0), devices=2)
        world.step_s = 60.0
        world.until(lambda: any(rating is not None for rating in world.config().ratings.values()))
        world.until(lambda: not any(world.running(stage) for stage in (S, X, T)))
        games = sum(each.games for each in world.config().segments.values())
        ordered, then = world.config().ordered, world.now
        for _ in range(60):
            world.step()
        gaps = (world.now - then) / EXPLORATION_GAP_S
        # Of what is explored, a training brings evaluations.
        assert world.config().ordered - ordered <= 4 * gaps + 4
        assert sum(each.games for each in world.config().segments.values()) > games, "but it goes on"

    def test_a_config_that_is_not_yet_goes_on_as_ever(self) -> None:
        world = loop(small(target_elo=9000.0), devices=2)
        world.until(lambda: len(world.config().segments) > 20)
