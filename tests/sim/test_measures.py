"""What is measured of a run, from journals written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hostler.model import events
from hostler.model.events import Entry, Event
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.learning import SegmentRef
from hostler.model.rules import Quota, Rules
from hostler.model.simulated import Measures
from hostler.model.work import DeviceKind, FailureClass, JobSpec, WorkKind
from hostler.sim import Script, script_job
from hostler.sim.measures import Setting, measures

SPAN_S = 1000.0


def gpu(name: str, count: int = 1, price_per_h: float | None = 3.6) -> NodeSpec:
    devices = tuple(
        DeviceSpec(id=f"{name}/cuda{at}", node=name, kind=DeviceKind.CUDA, index=at, model="A100", vram_gb=80.0)
        for at in range(count)
    )
    return NodeSpec(name=name, backend="virtual", devices=devices, price_per_h=price_per_h)


def job(kind: WorkKind = WorkKind.TRAINING, config: str | None = "c") -> JobSpec:
    return script_job("t", Script(seconds=1.0), work_as=kind, config=config)


class Journal:
    """Entries in order, with the ids of one job after another."""

    def __init__(self, *nodes: NodeSpec) -> None:
        self.nodes = nodes or (gpu("n"),)
        self.entries: list[Entry] = []
        for node in self.nodes:
            self.add(0.0, linked(node.name, "a"))

    def add(self, at: float, event: Event) -> None:
        self.entries.append(Entry(seq=len(self.entries) + 1, at=at, event=event))

    def submit(self, at: float, name: str, spec: JobSpec) -> None:
        self.add(at, events.JobSubmitted(job=name, spec=spec))

    def run(self, name: str, begin: float, end: float | None, device: str = "n/cuda0", **fields: Any) -> None:
        """An attempt from begin to end, and its job done unless something else is said."""
        others, number = fields.pop("others", ()), fields.pop("number", 1)
        attempt = f"{name}.{number}"
        self.add(begin, events.AttemptLeased(job=name, attempt=attempt, device=device, why="", others=others))
        self.add(begin, events.AttemptStarted(attempt=attempt, pid=1, pid_start=1))
        if end is not None:
            self.add(end, ended(attempt, begin, end, **fields))
            if not fields:
                self.add(end, events.JobDone(job=name, attempt=attempt))

    def measured(self, **setting: Any) -> Measures:
        power = {device.id: 100.0 for node in self.nodes for device in node.devices}
        usual: dict[str, Any] = {"fleet": "f", "seed": 0, "nodes": self.nodes, "power": power, "span_s": SPAN_S}
        entries = sorted(self.entries, key=lambda entry: entry.at)
        return measures(entries, Setting(**{**usual, "start_s": 10.0, **setting}), {"link cut": 1})


def linked(node: str, agent: str) -> events.NodeLinked:
    return events.NodeLinked(node=node, agent=agent, incarnation=1, boot="b", attempts=(), chunks=())


def ended(attempt: str, begin: float, end: float, reason: str | None = None, exit_code: int = 0) -> events.AttemptEnded:
    return events.AttemptEnded(
        attempt=attempt,
        started_at=begin,
        ended_at=end,
        exit_code=None if reason else exit_code,
        signal=None,
        reason=reason,
        error=None,
        cpu_s=None,
        max_rss_bytes=None,
    )


def test_time_at_work_less_start_up_is_useful() -> None:
    journal = Journal()
    journal.submit(0.0, "j1", job())
    journal.run("j1", 100.0, 600.0)
    found = journal.measured()
    (device,) = found.devices
    assert (device.up_s, device.busy_s, device.useful_s, device.tier) == (SPAN_S, 500.0, 490.0, 1)
    assert (found.busy, found.useful_share) == (0.5, 0.49)
    assert found.start_s == 10.0
    assert found.jobs == {"done": 1}
    assert found.cost == 1.0
    assert found.cost_per_unit == pytest.approx(100 / (490.0 * 100 / 3600))
    assert found.kinds == {WorkKind.TRAINING: 500.0}


def test_work_that_is_lost_is_not_useful() -> None:
    journal = Journal()
    for number, (kind, reason) in enumerate(
        [(WorkKind.SELFPLAY, "lost"), (WorkKind.TRAINING, "stopped"), (WorkKind.EVALUATION, "stopped")]
    ):
        journal.submit(0.0, f"j{number}", job(kind))
        journal.run(f"j{number}", 200.0 * number, 200.0 * number + 110.0, reason=reason)
    found = journal.measured()
    assert found.lost_s == {WorkKind.SELFPLAY: 40.0, WorkKind.TRAINING: 0.0, WorkKind.EVALUATION: 100.0}
    assert found.devices[0].useful_s == 60.0 + 100.0


def test_a_node_that_another_agent_stands_in_for_was_away() -> None:
    journal = Journal()
    journal.submit(0.0, "j1", job(WorkKind.SELFPLAY))
    journal.run("j1", 0.0, None)
    journal.add(400.0, events.NodeUnreachable(node="n", why=""))
    journal.add(700.0, events.AttemptLost(attempt="j1.1", evidence=""))
    journal.add(700.0, events.JobRequeued(job="j1", failure=FailureClass.LOST, not_before=700.0, why=""))
    journal.add(700.0, linked("n", "b"))
    found = journal.measured()
    (node,) = found.nodes
    assert (node.up_s, node.deaths, node.there) == (700.0, 1, ((0.0, 400.0), (700.0, 1000.0)))
    assert node.cut == ((400.0, 700.0),)
    assert (found.devices[0].busy_s, found.devices[0].useful_s) == (400.0, 360.0)
    assert found.spans[0].fate == "lost"


def test_a_node_behind_a_cut_link_was_there() -> None:
    journal = Journal()
    journal.submit(0.0, "j1", job())
    journal.run("j1", 0.0, 500.0)
    journal.add(100.0, events.NodeUnreachable(node="n", why=""))
    journal.add(400.0, linked("n", "a"))
    found = journal.measured()
    assert (found.nodes[0].up_s, found.devices[0].busy_s) == (1000.0, 500.0)


def test_waits_are_from_readiness_to_device_and_of_what_waits_still() -> None:
    journal = Journal()
    for name, at in (("j1", 0.0), ("j2", 100.0), ("j3", 900.0)):
        journal.submit(at, name, job())
    journal.run("j1", 50.0, 100.0, exit_code=1)
    journal.add(100.0, events.JobRequeued(job="j1", failure=FailureClass.EXIT, not_before=150.0, why=""))
    journal.run("j1", 160.0, 200.0, number=2)
    journal.run("j2", 200.0, 300.0)
    found = journal.measured().waits_of(WorkKind.TRAINING)
    assert found is not None
    assert (found.count, found.waiting, found.max_s) == (4, 1, 100.0)
    assert found.mean_s == pytest.approx((50.0 + 10.0 + 100.0 + 100.0) / 4)
    assert (found.p50_s, found.p95_s) == (50.0, 100.0)
    assert journal.measured().waits_of(WorkKind.EVALUATION) is None


def test_lanes_share_a_device_and_gangs_count_on_each() -> None:
    journal = Journal(gpu("n", 2))
    for name in ("j1", "j2", "j3"):
        journal.submit(0.0, name, job(WorkKind.SELFPLAY))
    journal.run("j1", 0.0, 200.0)
    journal.run("j2", 100.0, 200.0)
    journal.run("j3", 300.0, 400.0, others=("n/cuda1",))
    found = journal.measured(start_s=0.0)
    first, second = found.devices
    assert (first.busy_s, first.useful_s) == (300.0, pytest.approx(300.0))
    assert (second.busy_s, second.useful_s) == (100.0, 100.0)


def test_what_shares_a_device_adds_up_to_no_more_than_it_had() -> None:
    journal = Journal()
    for name, config, end in (("j1", "a", 200.0), ("j2", "b", 100.0)):
        journal.submit(0.0, name, job(WorkKind.SELFPLAY, config))
        journal.run(name, 0.0, end)
    quotas = (Quota(pattern="a", share=0.5), Quota(pattern="b", share=0.5))
    found = journal.measured(rules=Rules(quotas=quotas))
    assert found.kinds == {WorkKind.SELFPLAY: pytest.approx(200.0)}
    assert {config.config: config.device_s for config in found.configs} == pytest.approx({"a": 150.0, "b": 50.0})
    assert [quota.achieved for quota in found.quotas] == pytest.approx([0.75, 0.25])
    assert {span.job: span.weight for span in found.spans} == pytest.approx({"j1": 0.75, "j2": 0.5})
    (device,) = found.devices
    lost_s = sum(found.lost_s.values())
    assert device.useful_s + found.start_s + lost_s == pytest.approx(device.busy_s)


def test_what_comes_after_others_is_ready_when_the_last_of_them_is_done() -> None:
    journal = Journal()
    journal.submit(0.0, "j1", job())
    journal.submit(0.0, "j2", job())
    journal.add(0.0, events.JobSubmitted(job="j3", spec=job(WorkKind.EVALUATION), after=("j1", "j2")))
    journal.run("j1", 0.0, 100.0)
    journal.run("j2", 100.0, 300.0)
    journal.run("j3", 340.0, 400.0)
    journal.add(500.0, events.JobSubmitted(job="j4", spec=job(WorkKind.EVALUATION), after=("j1",)))
    journal.add(500.0, events.JobSubmitted(job="j5", spec=job(WorkKind.SCRIPT), after=("j4",)))
    journal.run("j4", 520.0, 600.0, exit_code=1)
    found = journal.measured()
    waits = found.waits_of(WorkKind.EVALUATION)
    assert waits is not None
    assert (waits.count, waits.max_s, waits.mean_s) == (2, 40.0, 30.0)
    assert found.waits_of(WorkKind.SCRIPT) is None


def test_quotas_are_shares_of_what_configs_had_on_their_tier() -> None:
    journal = Journal()
    for name, config, begin, end in (
        ("j1", "a_2p", 0.0, 300.0),
        ("j2", "b_2p", 300.0, 400.0),
        ("j3", None, 400.0, 900.0),
    ):
        journal.submit(0.0, name, job(config=config))
        journal.run(name, begin, end)
    found = journal.measured(rules=Rules(quotas=(Quota(pattern="a_*", share=0.5),)))
    assert {quota.pattern: (quota.target, quota.achieved) for quota in found.quotas} == {
        "a_*": (0.5, 0.75),
        "(others)": (0.5, 0.25),
    }
    assert found.quota_error == {1: pytest.approx(25.0)}


def test_configs_games_and_the_longest_time_without_work() -> None:
    journal = Journal()
    journal.submit(0.0, "j1", job(WorkKind.SELFPLAY))
    journal.run("j1", 100.0, 300.0)
    segments = (SegmentRef(sha256="0" * 64, bytes=1, games=5, positions=50),)
    journal.add(300.0, events.SegmentsMade(config="c", job="j1", player="p", segments=segments, cpu_s=None))
    journal.submit(300.0, "j2", job())
    journal.run("j2", 350.0, 400.0)
    found = journal.measured()
    (config,) = found.configs
    assert (config.games, config.trainings, config.device_s) == (5, 1, 250.0)
    assert (config.longest_without_s, config.longest_training_s) == (600.0, 50.0)
    assert found.games_per_h == 18.0


def test_what_runs_when_the_time_is_over_counts_so_far() -> None:
    journal = Journal()
    journal.submit(0.0, "j1", job())
    journal.run("j1", 900.0, None)
    journal.add(2000.0, ended("j1.1", 900.0, 2000.0))
    found = journal.measured()
    assert (found.devices[0].busy_s, found.spans[0].fate) == (100.0, "open")


def test_unknown_prices_stay_unknown() -> None:
    journal = Journal(gpu("n", price_per_h=None), gpu("m"))
    found = journal.measured()
    assert [node.cost for node in found.nodes] == [None, 1.0]
    assert found.cost == 1.0
    assert replace(found, devices=()).busy is None


def test_what_costs_nobody_knows_is_not_free() -> None:
    journal = Journal(gpu("n", price_per_h=None))
    journal.submit(0.0, "j1", job())
    journal.run("j1", 100.0, 600.0)
    found = journal.measured()
    assert found.useful > 0
    assert (found.cost, found.cost_per_unit) == (None, None)
    assert (found.totals()["cost"], found.totals()["cost_per_unit"]) == (None, None)


def test_a_unit_costs_what_it_does_where_prices_are_known() -> None:
    journal = Journal(gpu("n", price_per_h=None), gpu("m"))
    for number, name in enumerate("nm"):
        journal.submit(0.0, f"j{number}", job())
        journal.run(f"j{number}", 100.0, 600.0, device=f"{name}/cuda0")
    found = journal.measured()
    assert (found.priced_nodes, found.totals()["priced_nodes"], len(found.nodes)) == (1, 1, 2)
    assert found.useful == pytest.approx(2 * 490.0 * 100 / 3600)
    assert found.cost == 1.0
    assert found.cost_per_unit == pytest.approx(100 / (490.0 * 100 / 3600)), "work on the other is not free"


def test_where_the_priced_did_nothing_nobody_knows_what_a_unit_costs() -> None:
    journal = Journal(gpu("n", price_per_h=None), gpu("m"))
    journal.submit(0.0, "j1", job())
    journal.run("j1", 100.0, 600.0)
    found = journal.measured()
    assert (found.cost, found.cost_per_unit) == (1.0, None)


def test_what_is_free_costs_nothing() -> None:
    journal = Journal(gpu("n", price_per_h=0.0))
    journal.submit(0.0, "j1", job())
    journal.run("j1", 100.0, 600.0)
    found = journal.measured()
    assert (found.cost, found.cost_per_unit) == (0.0, 0.0)
