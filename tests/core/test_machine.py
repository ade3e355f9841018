"""The whole core under anything the world may say, in any order: nothing breaks, replay agrees, and all work ends."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hostler.core import Core, State
from hostler.core.state import Device
from hostler.model import events, inputs
from hostler.model.errors import HostlerError, IllegalTransition
from hostler.model.events import Entry
from hostler.model.fleet import Link
from hostler.model.work import FailureClass, JobState, Resources, Retry
from tests.core.builders import Driver, ended, fleet, link_up, node, replayed, script, snapshot, sweep

NODES = ("n", "m")
WHICH = st.integers(0, 30)
FEW = Retry(max_attempts=dict.fromkeys(FailureClass, 2), backoff_s=4)
RESULTS = [
    {},
    {"exit_code": 1},
    {"signal": 9},
    {"reason": "stopped", "signal": 15},
    {"reason": "lost"},
    {"result": [1]},
]
RETURNS = ["recalled", "worker_died", "agent_restarted", "failed", "closed"]


def facts(state: State) -> State:
    """The state without what is volatile."""
    copy = snapshot(state)
    for each in copy.sweeps.values():
        for lease in each.leases.values():
            lease.position, lease.hits, lease.found, lease.heard_at, lease.pace_per_s = None, 0, None, None, None
    return copy


class CoreMachine(RuleBasedStateMachine):
    """Inputs in any order; `driver` validates after each, and remembers the entries."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.middle: tuple[int, State] = (0, State())
        self.driver.tell(inputs.Begin(version="test", epoch=1))
        for name in NODES:
            self.driver.tell(inputs.NodeFound(node=node(name, devices=2)))

    @rule(count=st.integers(1, 4), priority=st.integers(-1, 1), after=st.lists(WHICH, max_size=2), need=st.booleans())
    def submit_scripts(self, count: int, priority: int, after: list[int], need: bool) -> None:
        resources = Resources(device="cpu") if need else Resources()
        names = tuple(name for which in after if (name := self.pick(self.state.jobs, which)))
        specs = [script(f"s{n}", priority=priority, after=names, retry=FEW, resources=resources) for n in range(count)]
        self.tell(inputs.Submit(specs=tuple(specs)))

    @rule(
        size=st.integers(1, 200), most=st.integers(1, 50), after=st.lists(WHICH, max_size=1), max_hits=st.integers(0, 2)
    )
    def submit_sweep(self, size: int, most: int, after: list[int], max_hits: int) -> None:
        names = tuple(name for which in after if (name := self.pick(self.state.jobs, which)))
        spec = sweep(start=2**70, stop=2**70 + size, max_chunk=most, max_hits=max_hits, retry=FEW, after=names)
        self.tell(inputs.Submit(specs=(spec,)))

    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        self.tell(inputs.Cancel(job=self.pick(self.state.jobs, which) or "j1"))

    @rule(which=WHICH)
    def retry(self, which: int) -> None:
        over = [name for name, job in self.state.jobs.items() if job.state in (JobState.FAILED, JobState.CANCELLED)]
        over += [name for name, each in self.state.sweeps.items() if each.barred]
        self.tell(inputs.Retry(job=self.pick(over, which) or "j1"))

    @rule(which=WHICH, priority=st.integers(-2, 2))
    def rank(self, which: int, priority: int) -> None:
        self.tell(inputs.SetPriority(job=self.pick(self.state.jobs, which) or "j1", priority=priority))

    @rule(name=st.sampled_from(NODES), devices=st.integers(1, 3))
    def found(self, name: str, devices: int) -> None:
        self.tell(inputs.NodeFound(node=node(name, devices=devices)))

    @rule(name=st.sampled_from(NODES), agent=st.sampled_from("aaab"), keep=st.lists(st.booleans(), max_size=8))
    def up(self, name: str, agent: str, keep: list[bool]) -> None:
        held = [each for device in self.devices(name) for each in (*device.attempts, *device.chunks)]
        mask = [*keep, *[True] * len(held)]
        told = ["j99.1", *(each for each, kept in zip(held, mask, strict=False) if kept)]
        self.tell(link_up(name, agent=agent, attempts=told, chunks=told))

    @rule(name=st.sampled_from(NODES))
    def down(self, name: str) -> None:
        self.tell(inputs.LinkDown(node=name, why="cut"))

    @rule(which=WHICH, result=st.sampled_from(RESULTS), steps=st.integers(0, 2), twice=st.booleans())
    def attempt(self, which: int, result: dict[str, Any], steps: int, twice: bool) -> None:
        name = self.pick(self.attempts(), which) or "j1.1"
        before: list[inputs.Input] = [
            inputs.Launched(attempts=(name,)),
            inputs.Started(attempt=name, pid=1, pid_start=1),
        ]
        self.tell(*before[:steps])
        if steps != 1:
            self.tell(*[ended(name, **result)] * (2 if twice else 1))

    @rule(which=WHICH, hits=st.integers(0, 2), wrong=st.sampled_from([{}, {}, {"digest": "0" * 64}, {"stop": 1}]))
    def search(self, which: int, hits: int, wrong: dict[str, Any]) -> None:
        chunk = self.pick(self.chunks(), which)
        if chunk is None:
            return
        start, stop = self.state.sweeps[chunk.partition(".")[0]].ledger.leased[chunk]
        found = tuple({"at": at} for at in range(start, min(stop, start + hits)))
        given = self.driver.searched(chunk, **{"hits": found, **wrong})
        self.tell(given)
        self.tell(given)

    @rule(which=WHICH, step=st.none() | st.integers(-1, 60), reason=st.sampled_from(RETURNS))
    def give_back(self, which: int, step: int | None, reason: str) -> None:
        chunk = self.pick(self.chunks(), which)
        if chunk is None:
            return
        start, _ = self.state.sweeps[chunk.partition(".")[0]].ledger.leased[chunk]
        self.tell(self.driver.returned(chunk, reason, position=None if step is None else start + step))

    @rule(which=WHICH, node=st.sampled_from(NODES))
    def refuse(self, which: int, node: str) -> None:
        name = self.pick(self.state.jobs, which) or "j1"
        self.tell(inputs.WorkerRefused(worker=f"w-{name}-{node}-cpu0", error="?"))

    @rule(which=WHICH, position=st.integers(0, 10))
    def progress(self, which: int, position: int) -> None:
        self.tell(inputs.Progress(chunks={self.pick(self.chunks(), which) or "j1.1": (position, 1)}))

    @rule(seconds=st.sampled_from([0.0, 1.0, 5.0, 1000.0, -3.0, -5000.0]))
    def clock(self, seconds: float) -> None:
        self.driver.tell(inputs.Tick(), after_s=seconds)

    @rule()
    def restart(self) -> None:
        core = replayed(self.driver.entries)
        assert core.state == facts(self.state)
        self.driver.core = core
        self.tell(inputs.Begin(version="test", epoch=self.state.epoch + 1))

    @rule()
    def remember(self) -> None:
        self.middle = len(self.driver.entries), snapshot(self.state)

    @precondition(lambda self: len(self.driver.entries) > self.middle[0])
    @rule()
    def replay_agrees(self) -> None:
        count, state = self.middle
        assert facts(replayed(self.driver.entries).state) == facts(self.state)
        assert facts(replayed(self.driver.entries[count:], snapshot(state)).state) == facts(self.state)

    @invariant()
    def one_result_per_job(self) -> None:
        accepted = Counter(each.event.job for each in self.driver.entries if isinstance(each.event, events.JobDone))
        assert not accepted or max(accepted.values()) == 1
        assert set(accepted) == {job.id for job in self.state.jobs.values() if job.state is JobState.DONE}

    @invariant()
    def time_never_falls(self) -> None:
        last = self.driver.entries[-2:]
        assert all(left.at <= right.at for left, right in itertools.pairwise(last))

    def teardown(self) -> None:
        """From wherever the world was left, all work ends once every node answers and every process does."""
        self.replay_agrees()
        for name in NODES:
            self.tell(inputs.NodeFound(node=node(name, devices=1)))
            held = [each for device in self.devices(name) for each in (*device.attempts, *device.chunks)]
            self.tell(link_up(name, agent="z", attempts=held, chunks=held))
        for _ in range(2000):
            if not self.attempts() and not self.chunks() and self.driver.core.wake_at() is None:
                break
            self.tell(*(ended(name, ended_at=9.0) for name in self.attempts()))
            self.tell(*(self.driver.searched(chunk) for chunk in self.chunks()))
            self.driver.tell(inputs.Tick(), after_s=1000)
        unfinished = {name: job.state for name, job in self.state.jobs.items() if not job.state.final}
        assert not unfinished
        self.replay_agrees()

    @property
    def state(self) -> State:
        return self.driver.state

    def tell(self, *given: inputs.Input) -> None:
        self.driver.tell(*given)
        assert all(answer is None or isinstance(answer, (tuple, HostlerError)) for answer in self.driver.answers)

    def pick(self, names: Iterable[str], which: int) -> str | None:
        known = list(names)
        return known[which % len(known)] if known else None

    def attempts(self) -> list[str]:
        return [job.attempt.id for job in self.state.jobs.values() if job.attempt]

    def chunks(self) -> list[str]:
        return [chunk for each in self.state.sweeps.values() for chunk in each.leases]

    def devices(self, name: str) -> list[Device]:
        return [device for device in self.state.devices.values() if device.spec.node == name]


class TestCore(CoreMachine.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=10, stateful_step_count=40, suppress_health_check=list(HealthCheck))


@pytest.mark.long
class TestCoreAgainAndAgain(CoreMachine.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=300, stateful_step_count=40, suppress_health_check=list(HealthCheck))


class TestStory:
    def test_an_event_that_does_not_fit_carries_the_story_of_its_job(self) -> None:
        world = fleet()
        world.submit(script("the-one"), script("another"))
        world.tell(ended("j1.1"))
        misfit = Entry(seq=world.state.seq + 1, at=world.now, event=events.JobCancelled(job="j1"))
        with pytest.raises(IllegalTransition) as caught:
            world.core.replay([misfit])
        text = str(caught.value)
        assert "the job is done" in text
        assert "the-one" in text
        assert "attempt.ended" in text
        assert "another" not in text

    @pytest.mark.parametrize(
        "event",
        [
            events.AttemptStarted(attempt="j1.2", pid=1, pid_start=1),
            events.ChunkDone(chunk="j2.99", hits=(), elapsed_s=1.0),
            events.ChunkLeased(job="j2", chunk="j2.50", device="n/cpu0", start=0, stop=1, expected_s=None),
            events.JobRetried(job="j1"),
            events.JobDone(job="j1", attempt="j1.9"),
            events.AttemptLeased(job="j1", attempt="j1.2", device="n/cpu0", why=""),
            events.JobCancelled(job="j77"),
            events.JobSubmitted(job="j1", spec=script()),
        ],
    )
    def test_events_that_do_not_fit(self, event: events.Event) -> None:
        world = fleet(devices=2)
        world.submit(script(), sweep())
        with pytest.raises(IllegalTransition):
            world.core.replay([Entry(seq=world.state.seq + 1, at=world.now, event=event)])

    def test_entries_come_in_order(self) -> None:
        with pytest.raises(IllegalTransition, match="entry 2 does not follow entry 0"):
            Core().replay([Entry(seq=2, at=0.0, event=events.ControllerStarted(version="", epoch=1))])


def test_a_refused_input_leaves_the_others_in_the_same_step_alone() -> None:
    world = fleet()
    world.tell(inputs.Submit(specs=(script(),)), inputs.Cancel(job="j9"), inputs.Submit(specs=(script(),)))
    first, refusal, second = world.answers
    assert (first, second) == (("j1",), ("j2",))
    assert isinstance(refusal, HostlerError)
    assert world.state.nodes["n"].link is Link.UP
