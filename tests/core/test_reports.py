"""Nodes speak for themselves: a report on the work of another node changes nothing there, and holds its sender."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

import pytest
from hypothesis import given, settings, strategies as st

from hostler.core import conduct
from hostler.core.ownership import CHECKS
from hostler.core.shown import bans
from hostler.model import commands, events, inputs
from hostler.model.events import Event
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Input
from hostler.model.pools import Seen, Span
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import DeviceKind, JobState, Resources, SweepPayload
from tests.core.builders import Driver, ended, link_up, node, script, sweep
from tests.core.test_pools import pool

HONEST = ("a", "b")
ANY_SPAN = Span(seconds=60.0, longest=False, saves=False)


def by(name: str, given: Input) -> inputs.Reported:
    """What a node reports."""
    return inputs.Reported(node=name, given=given)


def linked(*names: str, kind: DeviceKind = DeviceKind.CPU) -> list[inputs.Reported]:
    found = [(name, (inputs.NodeFound(node=node(name, 2, kind)), link_up(name, name))) for name in names]
    return [by(name, each) for name, told in found for each in told]


def world() -> Driver:
    """Two honest nodes with work of which one part is at work, and a node that has nothing to do with it."""
    driver = Driver()
    driver.tell(inputs.Begin(version="test", epoch=1), *linked(*HONEST, "evil"))
    ours = Resources(device="cpu", nodes=HONEST)
    driver.submit(script(resources=ours), sweep(stop=1000, resources=ours, silence_s=1e6))
    return driver


def honest(entries: Iterable[Event]) -> list[Event]:
    """Events without those that are about the liar."""
    blaming = (events.ResultRefused, events.TroubleRecorded)
    return [
        each
        for each in entries
        if not isinstance(each, blaming) and "evil" not in (getattr(each, "node", None), getattr(each, "of", None))
    ]


def forged(driver: Driver) -> Mapping[str, Input]:
    """Lies about what others have, one of each kind."""
    chunk, start, stop = driver.chunk("j2")
    right = driver.searched(chunk)
    device = driver.state.sweeps["j2"].leases[chunk].device
    owner, queue = device.split("/")
    return {
        "ended": ended("j1.1", result={"forged": 1}),
        "failed": ended("j1.1", exit_code=1),
        "lost": inputs.Ended(attempt="j1.1", ended_at=0.0, reason="lost"),
        "started": inputs.Started(attempt="j1.1", pid=1, pid_start=1),
        "fetched": inputs.Fetched(attempt="j1.1", error="gone"),
        "so_far": inputs.SoFar(attempt="j1.1", result={}),
        "secured": inputs.Secured(attempt="j1.1", artifacts=()),
        "launched": inputs.Launched(attempts=("j1.1",)),
        "searched": right,
        "wrong_interval": driver.searched(chunk, stop=stop - 1),
        "wrong_digest": driver.searched(chunk, digest="0" * 64),
        "returned": inputs.Returned(chunk=chunk, reason="worker_died"),
        "checkpoint": driver.returned(chunk, position=start + 1),
        "progress": inputs.Progress(chunks={chunk: (stop, 0)}),
        "worker": inputs.WorkerRefused(worker=f"w-j2-{owner}-{queue}", error="no"),
        "proved": inputs.DeviceProved(device=device, ok=False, why="wrong"),
        "down": inputs.LinkDown(node=owner, why="gone"),
        "up": link_up(owner, "another"),
        "goes": inputs.NodeGoes(node=owner, why="gone"),
        "found": inputs.NodeFound(node=node(owner, 0)),
        "devices": inputs.NodeFound(node=NodeSpec(name="evil", backend="test", devices=node(owner, 1).devices)),
        "telemetry": inputs.Telemetry(node=owner, at=5.0, memory_total_gb=1.0, memory_free_gb=0.0),
        "utilization": inputs.Telemetry(node="evil", at=5.0, devices={device: DeviceTelemetry(utilization=0.0)}),
        "inventory": link_up("evil", "evil", attempts=["j1.1"]),
        "seen": inputs.PoolSeen(node=owner, seen=Seen(at=1.0, closed="down")),
        "requested": inputs.Requested(node=owner, token="t", mode="job", tasks=(), wants="all", time=ANY_SPAN),
        "cancel": inputs.Cancel(job="j1"),
        "token": inputs.CreateToken(name="t", sha256="0" * 64, scope="admin"),
    }


LIES = tuple(forged(world()))


@pytest.mark.parametrize("lie", LIES)
def test_report_on_work_of_another_node_is_refused_and_changes_nothing(lie: str) -> None:
    told, untold = world(), world()
    untold.tell(inputs.Tick())
    told.tell(by("evil", forged(told)[lie]))
    assert honest(told.events) == honest(untold.events)
    refused = told.of(events.ResultRefused)
    assert [each.node for each in refused] == ["evil"]
    assert "reported" in refused[0].why
    assert told.job_state("j1") == untold.job_state("j1")
    assert told.state.sweeps["j2"] == untold.state.sweeps["j2"]
    assert {each.node for each in told.work if not isinstance(each, commands.Fit | commands.Solve)} <= {"evil"}
    assert [each.spec for each in told.state.nodes.values()] == [each.spec for each in untold.state.nodes.values()]
    assert [each.link for each in told.state.nodes.values()] == [each.link for each in untold.state.nodes.values()]


def test_forged_result_does_not_end_the_attempt_and_the_honest_one_counts() -> None:
    driver = world()
    owner = driver.state.devices[driver.state.jobs["j1"].attempt.device].spec.node  # type: ignore[union-attr]
    driver.tell(by("evil", ended("j1.1", result={"forged": "by evil"})))
    assert driver.job_state("j1") is not JobState.DONE
    driver.tell(by(owner, ended("j1.1", result={"honest": 1})))
    assert [each.result for each in driver.of(events.JobDone)] == [{"honest": 1}]


def test_refusals_of_foreign_workers_do_not_give_a_sweep_up() -> None:
    driver = world()
    for name in HONEST:
        for slot in range(2):
            driver.tell(by("evil", inputs.WorkerRefused(worker=f"w-j2-{name}-cpu{slot}", error="no")))
    assert driver.state.sweeps["j2"].barred == {}
    assert driver.state.sweeps["j2"].given_up is None


def test_forged_chunks_do_not_complete_a_sweep() -> None:
    driver = world()
    for _ in range(30):
        for chunk in list(driver.state.sweeps["j2"].leases):
            driver.tell(by("evil", driver.searched(chunk)))
    assert driver.job_state("j2") is JobState.RUNNING
    assert (
        driver.state.sweeps["j2"].ledger.free_items
        + sum(stop - start for start, stop in driver.state.sweeps["j2"].ledger.leased.values())
        == 1000
    )


def test_own_part_of_a_report_is_taken_beside_a_foreign_one() -> None:
    driver = world()
    driver.submit(sweep("own", resources=Resources(device="cpu", nodes=("evil",)), silence_s=1e6))
    (own, start, _), (others, other_start, _) = driver.chunk("j3"), driver.chunk("j2")
    driver.tell(by("evil", inputs.Progress(chunks={own: (start + 1, 0), others: (other_start + 1, 0)})))
    assert driver.state.sweeps["j3"].leases[own].position == start + 1
    assert driver.state.sweeps["j2"].leases[others].position is None
    attempt = driver.submit(script(resources=Resources(device="cpu", nodes=("evil",))))[0]
    driver.tell(by("evil", inputs.Launched(attempts=("j1.1", f"{attempt}.1"))))
    assert [each.attempt for each in driver.of(events.AttemptLaunching)] == [f"{attempt}.1"]


def test_attempt_of_several_devices_is_reported_by_its_node() -> None:
    driver = Driver()
    driver.tell(inputs.Begin(version="test", epoch=1), *linked("a", kind=DeviceKind.CUDA), *linked("evil"))
    name = driver.submit(script(resources=Resources(device="gpu", gpus=2)))[0]
    assert len(driver.state.jobs[name].attempt.devices) == 2  # type: ignore[union-attr]
    driver.tell(by("evil", ended(f"{name}.1")))
    assert driver.job_state(name) is not JobState.DONE
    driver.tell(by("a", ended(f"{name}.1")))
    assert driver.job_state(name) is JobState.DONE


def test_pool_reports_on_all_that_its_agents_run() -> None:
    driver = Driver()
    spec = pool(devices=3)
    driver.tell(inputs.Begin(version="test", epoch=1), by("n", inputs.NodeFound(node=spec)), by("n", link_up()))
    names = driver.submit(script(), script(), script())
    driver.tell(by("n", inputs.Requested(node="n", token="t", mode="job", tasks=(), wants="all", time=ANY_SPAN)))
    driver.tell(by("n", inputs.Submitted(node="n", token="t", job="823")))
    driver.tell(*(by("n", inputs.Started(attempt=f"{name}.1", pid=1, pid_start=1)) for name in names))
    driver.tell(*(by("n", ended(f"{name}.1")) for name in names), by("n", inputs.Closed(node="n", token="t", why="")))
    assert [driver.job_state(name) for name in names] == [JobState.DONE] * 3
    assert driver.state.refused == 0
    assert driver.state.batches == {}


def test_batch_of_another_pool_is_not_closed() -> None:
    driver = world()
    driver.tell(by("a", inputs.Requested(node="a", token="t", mode="job", tasks=(), wants="all", time=ANY_SPAN)))
    driver.tell(by("evil", inputs.Submitted(node="evil", token="t", job="1")))
    driver.tell(by("evil", inputs.Closed(node="evil", token="t", why="over")))
    assert driver.state.batches["t"].job is None


def test_attempt_that_another_node_has_is_stopped_where_it_does_not_belong() -> None:
    """After a roll-back of the journal an id may have been given twice."""
    driver = world()
    driver.tell(by("evil", link_up("evil", "evil", attempts=["j1.1"], chunks=[driver.chunk("j2")[0]])))
    stops = [each for each in driver.work if isinstance(each, commands.Stop | commands.Recall)]
    assert [each.node for each in stops] == ["evil", "evil"]


# Repeated rejections.


def test_repeated_foreign_reports_hold_the_node_and_the_hold_is_listed() -> None:
    driver = world()
    for _ in range(conduct.FOREIGN_MOST - 1):
        driver.tell(by("evil", ended("j1.1")))
    assert driver.state.cordons == {}
    driver.tell(by("evil", ended("j1.1")))
    (hold,) = [each for each in bans(driver.state, driver.core.index) if each.what == "evil"]
    assert hold.owner == "hostler"
    assert "work of other nodes" in hold.why
    assert "hostler node resume evil" in hold.why
    name = driver.submit(script(resources=Resources(device="cpu", nodes=("evil",))))[0]
    assert driver.job_state(name) is JobState.PENDING
    driver.tell(inputs.ResumeNode(node="evil"))
    assert driver.job_state(name) is not JobState.PENDING


def test_late_reports_on_own_former_work_hold_nothing() -> None:
    driver = world()
    owner = driver.state.devices[driver.state.jobs["j1"].attempt.device].spec.node  # type: ignore[union-attr]
    driver.tell(by(owner, ended("j1.1")))
    for _ in range(20):
        driver.tell(by(owner, ended("j1.1")))
    assert driver.state.cordons == {}


def test_node_that_goes_cannot_end_its_hold_by_another_start() -> None:
    driver = world()
    driver.tell(by("evil", inputs.NodeGoes(node="evil", why="preempted")))
    driver.tell(*(by("evil", ended("j1.1")) for _ in range(conduct.FOREIGN_MOST)))
    driver.tell(by("evil", link_up("evil", "new", incarnation=9)))
    assert driver.state.cordons["evil"].who == "hostler"


def test_faults_of_one_node_are_recorded_at_a_bounded_rate_and_the_rest_is_counted() -> None:
    driver = world()
    driver.tell(*(by("evil", ended(f"j9.{at}")) for at in range(1000)))
    driver.tell(*(by("evil", inputs.Trouble(where="node evil", what="?")) for _ in range(1000)))
    recorded = [each.event for each in driver.entries if isinstance(each.event, events.ResultRefused)]
    assert len(recorded) == conduct.FAULTS_MOST
    driver.tell(by("evil", ended("j9.1")), after_s=conduct.WINDOW_S)
    assert [each.what.split()[0] for each in driver.of(events.TroubleRecorded)] == ["1980"]
    owner = driver.state.devices[driver.state.jobs["j1"].attempt.device].spec.node  # type: ignore[union-attr]
    driver.tell(by(owner, inputs.Trouble(where=owner, what="mine")))
    assert [each.what for each in driver.of(events.TroubleRecorded)] == ["mine"]


def test_faults_of_a_node_have_a_minute_each() -> None:
    """Twenty per minute, as `docs/guides/security.md` promises."""
    own = conduct.Conduct()
    assert [own.records(100.0) for _ in range(22)] == [True] * 20 + [False] * 2
    assert not own.records(159.9)
    assert own.take_counted() == 3
    assert [own.records(160.0) for _ in range(21)] == [True] * 20 + [False]


def test_inventory_that_cannot_be_kept_is_refused_whole_though_it_names_work_of_others() -> None:
    driver = world()
    for _ in range(30):
        driver.tell(by("evil", ended("j9.1")))
    broken: Any = link_up("evil", "evil", attempts=["j1.1"], incarnation=float("nan"))  # type: ignore[arg-type]
    driver.tell(by("evil", broken), after_s=conduct.WINDOW_S)
    assert driver.of(events.NodeLinked) == []
    assert [each.where for each in driver.of(events.TroubleRecorded)] == ["node evil"]


def test_counted_faults_are_recorded_when_the_link_ends() -> None:
    driver = world()
    driver.tell(*(by("evil", ended(f"j9.{at}")) for at in range(100)))
    driver.tell(by("evil", inputs.LinkDown(node="evil", why="gone")))
    assert [each.what.split()[0] for each in driver.of(events.TroubleRecorded)] == ["80"]


def test_names_of_the_node_s_own_choice_are_cut_in_events() -> None:
    driver = world()
    driver.tell(by("evil", ended("j" * 100_000)), by("evil", inputs.LinkDown(node="x" * 100_000, why="")))
    assert max(len(each.of) for each in driver.of(events.ResultRefused)) <= 200
    assert max(len(each.why) for each in driver.of(events.ResultRefused)) <= 1000


NOT_OF_NODES = frozenset({
    "Begin", "Restored", "Submit", "SubmitGroup", "Cancel", "CancelGroup", "Retry", "RetryGroup", "SetPriority",
    "RlTelemetry", "Declare", "Fitted", "RollBack", "PauseConfig", "ResumeConfig", "Spawn", "Configure", "Planned",
    "Drain", "CordonNode", "ResumeNode", "CordonDevice", "ResumeDevice", "SilenceAlerts", "UnsilenceAlerts",
    "AcknowledgeAlert", "ProbeAlert", "CreateToken", "RevokeToken", "NoteSecret", "Asked", "Knowing", "Reported",
    "CopiesTold", "GivePlaceUp", "ReadCopies", "FilesTold", "DropTold", "CleanDisk", "UndoDisk", "EndHour", "Tick",
})  # fmt: skip


def test_every_input_has_a_check_or_comes_from_no_node() -> None:
    checked = {each.__name__ for each in CHECKS}
    assert {each.__name__ for each in get_args(inputs.Input)} == checked | NOT_OF_NODES
    assert not checked & NOT_OF_NODES


# The events of honest devices, with and without lies.


class Town(Driver):
    """Nodes that do what they are given at once, in order, and report it a step later."""

    def __init__(self) -> None:
        super().__init__()
        self._due: list[inputs.Reported] = []

    def step(self, lies: Sequence[Callable[[Town], Input]] = ()) -> None:
        """One step: the reports that are due, and lies before, between and behind them."""
        due, self._due = self._due, []
        extra = [by("evil", lie(self)) for lie in lies]
        middle = len(extra) // 2
        self.tell(*extra[:middle], *due, *extra[middle:])
        for command in self.commands:
            self._due += self._answers(command)

    def _answers(self, command: Any) -> Iterable[inputs.Reported]:
        if isinstance(command, commands.Launch):
            name = command.order.id
            started = inputs.Started(attempt=name, pid=1, pid_start=1)
            attempt = self.state.jobs[name.split(".")[0]].attempt
            assert attempt is not None
            owner = self.state.devices[attempt.device].spec.node
            return (by(owner, started), by(owner, ended(name, result={"of": name})))
        if isinstance(command, commands.Lend):
            chunk, worker = command.chunk, command.worker
            done = inputs.Searched(
                chunk=chunk.id, digest=worker.digest, start=chunk.start, stop=chunk.stop, hits=(), elapsed_s=1.0
            )
            return (by(command.node, done),)
        return ()


def lies_about(town: Town) -> list[Input]:
    """Everything that can be said of what others have now."""
    found: list[Input] = [inputs.LinkDown(node="a", why="gone"), inputs.NodeFound(node=node("b", 0))]
    for job in town.state.jobs.values():
        if job.attempt is not None:
            name = job.attempt.id
            found += [ended(name, result="forged"), ended(name, exit_code=1), inputs.Fetched(attempt=name, error="?")]
            found += [inputs.Started(attempt=name, pid=9, pid_start=9), inputs.Launched(attempts=(name,))]
    for sweep_ in town.state.sweeps.values():
        payload = town.state.jobs[sweep_.job].spec.payload
        assert isinstance(payload, SweepPayload)
        for chunk, lease in sweep_.leases.items():
            start, stop = sweep_.ledger.leased[chunk]
            owner, queue = lease.device.split("/")
            found += [town.searched(chunk), town.searched(chunk, stop=start), town.searched(chunk, [{"at": start}])]
            found += [town.returned(chunk, position=stop), inputs.Progress(chunks={chunk: (stop, 9)})]
            found.append(inputs.WorkerRefused(worker=f"w-{sweep_.job}-{owner}-{queue}", error="no"))
    return found


def lived(lies: Sequence[Sequence[int]], steps: int = 14) -> list[Event]:
    """The honest events of a town in which some lies are told."""
    town = Town()
    town.tell(inputs.Begin(version="test", epoch=1), *linked(*HONEST, "evil"))
    ours = Resources(device="cpu", nodes=HONEST)
    town.tell(inputs.Submit(specs=(*(script(f"s{at}", resources=ours) for at in range(5)), sweep(resources=ours))))
    for command in town.commands:
        town._due += town._answers(command)
    for at in range(steps):
        chosen = lies[at] if at < len(lies) else ()
        town.step([lambda own, nth=nth: lies_about(own)[nth % len(lies_about(own))] for nth in chosen])
    assert all(job.state is JobState.DONE for job in town.state.jobs.values())
    return honest(each.event for each in town.entries)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 1000), max_size=6), max_size=14))
def test_events_of_honest_devices_are_the_same_with_and_without_lies(lies: list[list[int]]) -> None:
    assert lived(lies) == lived([])
