"""A drill for each loop that steers the fleet: the real input goes in through the one door, the real choice comes out.

Those of `core.care` are beside it; here are the slow loop's prices, the boost of who starves, and Elo velocity. The
tiers' quotas, which take days, are in `test_drills_quotas`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import inf
from random import Random

import pytest

from hostler.core.loop.claims import FRESH_S
from hostler.core.shown import bans
from hostler.core.state import Job
from hostler.model import commands, events, inputs
from hostler.model.events import Event
from hostler.model.fleet import Link, NodeLimits
from hostler.model.learning import ConfigSpec
from hostler.model.rules import PlacementRules, Rules, Targets
from hostler.model.work import JobSpec, Resources, ScriptPayload, WorkKind
from hostler.policy import programme
from tests.core.builders import Driver, ended, link_up, script
from tests.core.loop.builders import Loop, loop, order_of, rated, small
from tests.core.test_placing import fleet, places, rig

HOUR_S, DAY_S = 3600.0, 86_400.0
SELFPLAY_S, OTHERS_S = 0.5 * HOUR_S, 60.0
RULES = Rules(targets=Targets(), placement=PlacementRules(preempt=False))
FAR = "far/cuda0"
PAIR = ("one_2p", "two_2p")
FOREVER = 16_000
"""Games of 2,000 jobs of self-play: a config with such a threshold does nothing but play itself."""


def endless(name: str, vram_gb: float, *, shards: bool = False) -> ConfigSpec:
    """A config that plays itself for ever; one training makes its first model, and nobody rates that."""
    never = {f"export__{each}": FOREVER for each in ("min_games", "fresh_games", "window_games")}
    plain = small(name, game__anchors={}, selfplay__games=8, **never)
    stage = replace(plain.selfplay.stage, resources=Resources(device="gpu", vram_gb=vram_gb, shards=shards))
    return replace(plain, selfplay=replace(plain.selfplay, stage=stage))


class Days(Loop):
    """A loop in virtual time: self-play lasts half an hour, a script until somebody ends it, other work a minute.

    With `noise` self-play lasts up to that part of it longer or shorter, each job by chance.
    """

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.noise = noise
        self.told: list[tuple[float, Event]] = []
        """All events, with when they were."""

    def tell(self, *given: inputs.Input, after_s: float = 1.0) -> list[Event]:
        """As ever, and nothing is refused; remembers events with their times."""
        told = super().tell(*given, after_s=after_s)
        assert not any(isinstance(each, Exception) for each in self.answers), self.answers
        self.told += [(self.now, event) for event in told]
        return told

    def live(self, seconds: float) -> None:
        """Let so much time pass: what ends in it ends, and the core is woken whenever it wants to be."""
        until = self.now + seconds
        while (at := self.next_at()) <= until:
            ending = [name for name, end in self.ends().items() if end <= at]
            if not ending:
                self.tell(inputs.Tick(), after_s=max(at - self.now, 0.001))
            for name in ending:
                self.step_s = max(at - self.now, 0.0)
                job = self.state.jobs[name]
                assert job.attempt is not None
                times = {"started_at": job.attempt.leased_at, "ended_at": job.attempt.leased_at + self.lasts_s(job)}
                status, result = self.lab.report(order_of(job))
                self.end(job, result, exit_code=status, **times)
        self.tell(inputs.Tick(), after_s=max(until - self.now, 0.0))

    def next_at(self) -> float:
        """When the next stage ends, or the core wants to look."""
        wake = self.core.wake_at()
        return min([*self.ends().values(), *([] if wake is None else [wake])], default=inf)

    def ends(self) -> dict[str, float]:
        """When each stage that runs ends; not on nodes out of reach, of which nobody hears."""
        found = {}
        for device in self.state.devices.values():
            for job in (self.state.jobs[each.rpartition(".")[0]] for each in device.attempts):
                if job.attempt is None or isinstance(job.spec.payload, ScriptPayload):
                    continue
                if self.state.nodes[device.spec.node].link is Link.UP:
                    found[job.id] = job.attempt.leased_at + self.lasts_s(job)
        return found

    def lasts_s(self, job: Job) -> float:
        """How long an attempt of a stage lasts."""
        if job.spec.work is not WorkKind.SELFPLAY:
            return OTHERS_S
        return SELFPLAY_S * (1 + Random(job.id).uniform(-self.noise, self.noise))

    def first_on(self, device: str, since: float) -> tuple[str | None, str]:
        """Which config was the first to get the device since then, and why."""
        for at, event in self.told:
            if at >= since and isinstance(event, events.AttemptLeased) and event.device == device:
                return self.state.jobs[event.job].spec.serves, event.why
        raise AssertionError(f"nobody got {device}")


def factor(name: str, why: str) -> float:
    """What a factor of the priority adds to the score, as the reason of a lease tells it."""
    found = re.search(rf"{name} (\d\.\d+)", why)
    assert found is not None, why
    return float(found[1])


class TestPrices:
    """Two families want the one fast device: `even` came first, and is nearly as fast on the others; `keen` is not."""

    rules = Rules(placement=PlacementRules(preempt=False))
    seconds = {"even": {"H100": 1000.0, "RTX 3090": 1250.0}, "keen": {"H100": 1000.0, "RTX 3090": 8000.0}}

    def family(self, name: str, count: int = 6) -> list[JobSpec]:
        return [script(name, name, expected_s=self.seconds[name]) for _ in range(count)]

    def crowded(self) -> tuple[Driver, list[commands.Solve]]:
        """Every device is busy, four times as many jobs as devices wait; and what the slow loop was asked."""
        world = fleet(rig("h", "H100", vram_gb=80.0), *(rig(f"r{n}", "RTX 3090") for n in range(2)), rules=self.rules)
        world.submit(*[script("hold", priority=5) for _ in range(3)])
        world.submit(*self.family("even"), *self.family("keen"))
        assert len(world.core.index.open) == 0
        world.tell(inputs.Tick(), after_s=self.rules.placement.plan_every_s)
        return world, [each for each in world.commands if isinstance(each, commands.Solve)]

    def given(self, world: Driver, device: str) -> tuple[str, str]:
        """The family that gets the device when it comes free, and why."""
        (holder,) = world.state.devices[device].attempts
        world.tell(ended(holder))
        (leased,) = world.of(events.AttemptLeased)
        assert leased.device == device
        return world.state.jobs[leased.job].spec.name, leased.why

    def test_without_a_plan_who_came_first_gets_the_fast_device(self) -> None:
        world, _ = self.crowded()
        family, why = self.given(world, "h/cuda0")
        assert family == "even"
        assert "speed for the price 1 ^ 4" in why, "no price says anything against it"

    def test_the_solvers_prices_give_it_to_whom_nothing_else_serves(self) -> None:
        pytest.importorskip("highspy")
        world, (asked, *more) = self.crowded()
        assert not more
        plan = programme.Solver().solve(asked.instance)
        assert plan.status == "optimal"
        world.tell(inputs.Planned(plan=plan))
        assert self.given(world, "h/cuda0")[0] == "keen"
        assert self.given(world, "r0/cuda0")[0] == "even", "and who can do without it does"

    def test_so_do_the_rough_prices_without_the_solver(self) -> None:
        world, (asked,) = self.crowded()
        plan = programme.plan_without_solver(asked.instance)
        assert plan is not None
        world.tell(inputs.Planned(plan=plan))
        assert self.given(world, "h/cuda0")[0] == "keen"

    def test_where_there_is_no_queue_prices_count_for_nothing(self) -> None:
        pytest.importorskip("highspy")
        world, (asked,) = self.crowded()
        world.tell(inputs.Planned(plan=programme.Solver().solve(asked.instance)))
        for name in [job.id for job in world.state.jobs.values() if job.attempt is None]:
            world.tell(inputs.Cancel(job=name))
        world.tell(*[ended(device.attempts[0]) for device in world.state.devices.values()])
        (alone,) = world.submit(*self.family("even", 1))
        assert places(world) == {alone: ("h/cuda0",)}


class TestStarvation:
    """`big` has had the one large GPU for a day, so a newcomer is owed all of it; unless `big` starves by then.

    The newcomer plays on a small GPU meanwhile, so it does not starve itself.
    """

    big, newcomer = endless("big_2p", 40.0), endless("new_2p", 8.0)

    def world(self) -> Days:
        world = Days()
        far, near = rig("far", "A100", vram_gb=80.0), rig("near", "RTX 3090")
        world.tell(inputs.Begin(version="test", epoch=1), inputs.Configure(rules=RULES))
        world.tell(inputs.NodeFound(node=far), link_up("far", agent="far"))
        world.tell(inputs.Declare(configs=(self.big,)))
        world.live(DAY_S)
        world.tell(inputs.NodeFound(node=near), link_up("near", agent="near"))
        world.tell(inputs.Declare(configs=(self.big, self.newcomer)))
        return world

    def kept_off_by_the_settings(self, world: Days, seconds: float) -> Callable[[], object]:
        """The node is for trainings alone for a while; what runs there ends."""
        node = world.state.nodes["far"].spec
        only = replace(node, limits=NodeLimits(work=(WorkKind.TRAINING,)))
        world.tell(inputs.NodeFound(node=only))
        world.live(SELFPLAY_S + seconds)
        return lambda: world.tell(inputs.NodeFound(node=node))

    def kept_off_by_a_node_that_is_away(self, world: Days, seconds: float) -> Callable[[], object]:
        """The node goes away with a script on it, and is heard of again; then the script ends."""
        (name,) = world.submit(script("s", priority=5, resources=Resources(vram_gb=40)))
        world.live(SELFPLAY_S)
        attempt = world.state.jobs[name].attempt
        assert attempt is not None
        assert attempt.device == FAR
        world.tell(inputs.LinkDown(node="far", why="gone"))
        world.live(seconds)
        world.tell(link_up("far", agent="far", attempts=[attempt.id]))
        return lambda: world.tell(ended(attempt.id))

    def paused(self, world: Days, seconds: float) -> Callable[[], object]:
        """Its owner takes the config out of the settings for a while; what runs there ends, and others go on."""
        world.tell(inputs.Declare(configs=(self.newcomer,)))
        world.live(SELFPLAY_S + seconds)
        world.tell(inputs.Declare(configs=(self.big, self.newcomer)))
        return lambda: world.live(SELFPLAY_S)

    @pytest.mark.parametrize(
        ("keep_off", "hours", "first"),
        [
            (kept_off_by_the_settings, 3.0, "new_2p"),
            (kept_off_by_a_node_that_is_away, 4.1, "big_2p"),
            (paused, 4.1, "big_2p"),
            pytest.param(kept_off_by_the_settings, 4.1, "big_2p", marks=pytest.mark.long),
            pytest.param(kept_off_by_a_node_that_is_away, 3.0, "new_2p", marks=pytest.mark.long),
            pytest.param(paused, 3.0, "new_2p", marks=pytest.mark.long),
        ],
    )
    def test_who_starves_is_first_when_a_device_frees(
        self, keep_off: Callable[[TestStarvation, Days, float], Callable[[], object]], hours: float, first: str
    ) -> None:
        world = self.world()
        assert world.first_on(FAR, world.now - SELFPLAY_S)[0] == "big_2p"
        free = keep_off(self, world, hours * HOUR_S)
        boosts = [(each.what, each.why) for each in bans(world.state, world.core.index) if each.kind == "boost"]
        since = world.now
        free()
        name, why = world.first_on(FAR, since)
        assert name == first, why
        boosted = first == "big_2p"
        assert (factor("starvation", why) > 0) is boosted, why
        assert [name for name, _ in boosts] == (["big_2p"] if boosted else [])
        assert all(re.fullmatch(r"no self-play for 4\.\d h, goes first until it gets some", why) for _, why in boosts)
        assert "boost" not in {each.kind for each in bans(world.state, world.core.index)}, "and then it is over"


class TestVelocity:
    """Two configs alike, each promoted twice, a day apart; only what their models are rated at tells them apart."""

    def world(self) -> Loop:
        """Ratings that are asked for do not come; both devices are busy."""
        world = loop(*(small(name) for name in PAIR), devices=2)
        world.answer_fits = lambda: None  # type: ignore[method-assign]
        for name in PAIR:
            world.decide(a_wins=True, name=name)
        world.tell(inputs.Tick(), after_s=DAY_S)
        for name in PAIR:
            world.decide(a_wins=True, name=name)
        return world

    def rate(self, world: Loop, name: str, gain: float) -> None:
        """The fit comes back: so much was won by the newest model, and nothing before."""
        config = world.config(name)
        *before, newest = (config.evaluated_as(switch.model) for switch in config.switches)
        ratings = {**{player: rated(0.0, 50.0) for player in before}, newest: rated(gain, 50.0)}
        world.tell(inputs.Fitted(config=name, matches=len(config.matches), ratings=ratings))
        assert world.of(events.ConfigRated)

    def first_of_equals(self, world: Loop) -> tuple[str, str]:
        """Which config gets a device of a tier that neither has had any time of, and why."""
        world.tell(inputs.Tick(), after_s=2 * FRESH_S)
        only = NodeLimits(work=(WorkKind.SELFPLAY,))
        world.tell(inputs.NodeFound(node=rig("g", limits=only)), link_up("g", agent="g"))
        (leased,) = world.of(events.AttemptLeased)
        return world.state.jobs[leased.job].spec.serves or "", leased.why

    def score_of_newest(self, world: Loop, name: str) -> str:
        """The score with which the config's newest self-play was queued, in words."""
        jobs = [job for job in world.state.jobs.values() if job.spec.work is WorkKind.SELFPLAY]
        return [job.wanted or "" for job in jobs if job.spec.serves == name][-1]

    def test_it_is_unknown_before_anything_is_rated(self) -> None:
        world = self.world()
        first, why = self.first_of_equals(world)
        assert "velocity ?·0.15" in self.score_of_newest(world, first)
        assert factor("velocity", why) == pytest.approx(0.5 * 0.15, abs=0.006), "what is unknown counts as the middle"

    @pytest.mark.parametrize(("fast", "slow"), [PAIR, PAIR[::-1]])
    def test_among_equals_the_faster_wins(self, fast: str, slow: str) -> None:
        world = self.world()
        self.rate(world, fast, 300.0)
        self.rate(world, slow, 0.0)
        first, why = self.first_of_equals(world)
        assert first == fast, why
        assert factor("velocity", why) > 0.14
        assert re.search(r"velocity (0\.9\d|1\.00)·0\.15", self.score_of_newest(world, fast))


@pytest.mark.parametrize("gpus", [2, 3, 4])
class TestGangs:
    """Four GPUs of one node come free one by one, and self-play on one device is always there to take them."""

    def world(self) -> Days:
        world = Days(noise=0.1)
        world.tell(inputs.Begin(version="test", epoch=1), inputs.Configure(rules=RULES))
        world.tell(inputs.NodeFound(node=rig("a", count=4)), link_up("a", agent="a"))
        world.tell(inputs.Declare(configs=(endless("narrow_2p", 8.0),)))
        world.live(3 * HOUR_S)
        return world

    def test_a_script_that_ranks_higher_waits_for_one_turn_of_each(self, gpus: int) -> None:
        world = self.world()
        (name,) = world.submit(script("wide", priority=1, resources=Resources(gpus=gpus)))
        world.live(4 * SELFPLAY_S)
        assert len(places(world).get(name, ())) == gpus

    def test_a_script_of_the_same_rank_goes_before_self_play(self, gpus: int) -> None:
        world = self.world()
        (name,) = world.submit(script("wide", resources=Resources(gpus=gpus)))
        world.live(RULES.placement.starve_after_s + 4 * SELFPLAY_S)
        leased = [event.job for _, event in world.told if isinstance(event, events.AttemptLeased)]
        assert name in leased

    def test_selfplay_of_a_config_that_never_had_any_does_once_it_starves(self, gpus: int) -> None:
        world = self.world()
        wide = endless("wide_2p", 24.0 * gpus - 10.0, shards=True)
        world.tell(inputs.Declare(configs=(endless("narrow_2p", 8.0), wide)))
        world.live(RULES.placement.starve_after_s + 4 * SELFPLAY_S)
        leased = [event for _, event in world.told if isinstance(event, events.AttemptLeased)]
        assert gpus in {1 + len(event.others) for event in leased}
