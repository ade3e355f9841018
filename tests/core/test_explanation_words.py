"""Texts of explanations: counts with their filters, no hashes, no doubled or missing name, nothing unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hostler.core.explain import explain_job
from hostler.core.explain_device import explain_device, find_device
from hostler.core.notes import notes_of
from hostler.core.slices import finished
from hostler.core.views import queue_rows
from hostler.model import events, inputs
from hostler.model.fleet import NodeLimits, NodeSpec
from hostler.model.views import Explanation
from hostler.model.work import Resources, WorkKind
from hostler.policy import fit
from tests.core.builders import Driver, ended, script, sweep
from tests.core.test_explain import fleet, long, rig

BIG = Resources(vram_gb=240)
HASH = re.compile(r"#[0-9a-f]{6}\b")
LIMITED = NodeLimits(stagger_s=1.0)
"""What a class's name does not have in words: it has a hash."""


def told(world: Driver, job: str = "j1") -> Explanation:
    return explain_job(world.state, world.core.index, world.state.jobs[job])


def device_texts(world: Driver, name: str) -> list[str]:
    said = explain_device(world.state, world.core.index, find_device(world.state, name))
    return [said.summary, *said.reasons, *(held.why for held in said.held)]


def job_texts(world: Driver, job: str) -> list[str]:
    said = told(world, job)
    return [
        said.summary,
        *said.reasons,
        *said.devices.values(),
        *(group.cls for group in said.groups),
        *(change.what for change in said.changes),
    ]


def all_texts(world: Driver) -> Iterator[str]:
    """Everything that people read about the jobs and devices of a fleet."""
    for name in world.state.devices:
        yield from device_texts(world, name)
    for job in world.state.jobs.values():
        yield from job_texts(world, job.id)
        yield from (note.why for note in finished(notes_of(world.state, world.core.index, [job])))
    yield from (row.waits_for or "" for row in queue_rows(world.state, world.core.index, 100))
    yield from (lease.why for lease in world.of(events.AttemptLeased))


def test_class_is_shown_without_its_hash() -> None:
    odd = rig("a", count=2, vram_gb=24564 / 1024, limits=LIMITED)
    assert HASH.search(fit.device_class(fit.site(odd, odd.devices[0])))
    world = fleet(odd, rig("b", vram_gb=16.0, limits=LIMITED))
    world.submit(script("a"), script("b"), script(resources=BIG), sweep(stop=10**6))
    shown = list(all_texts(world))
    assert not [text for text in shown if HASH.search(text)]
    assert "class RTX 4090 24GB t2 x2, tier 2" in shown
    assert [group.cls for group in told(world, "j3").groups] == ["RTX 4090 24GB t2 x2", "RTX 4090 16GB t3"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("RTX 4090 23.9883GB t2 x2 #d6d3d4", "RTX 4090 24GB t2 x2"),
        ("H100 79.6475GB t1 x8 @lambda 2.49/h #012abc", "H100 79.6GB t1 x8 @lambda 2.49/h"),
        ("cpu #3f9a21", "cpu"),
        ("RTX #1 ?GB", "RTX #1 ?GB"),
        ("cpu", "cpu"),
    ],
)
def test_label_of_a_class_has_its_words(name: str, shown: str) -> None:
    assert fit.class_label(name) == shown


@pytest.mark.parametrize(
    "nodes",
    [
        (rig("a", vram_gb=24564 / 1024),),
        (rig("a"), rig("b", count=3, vram_gb=16.0)),
        (rig("a", price_per_h=3.0), rig("b", provider="vast")),
    ],
    ids=["odd size", "two classes", "priced"],
)
def test_texts_name_the_device_that_they_are_about(nodes: tuple[NodeSpec, ...]) -> None:
    gone = rig("gone")
    world = fleet(gone, *nodes)
    world.tell(inputs.NodeFound(node=replace(gone, devices=())))
    world.submit(script(resources=BIG), script(resources=Resources(vram_gb=240, shards=True)), script(), script())
    world.submit(script(resources=Resources(vram_gb=240, gpus=2)), script(resources=Resources(device="cpu")))
    for text in all_texts(world):
        assert "  " not in text, "a name is missing"
        assert not re.search(r"(^|[ :])(of|has|is|on) *($|[,;:.])| of is| of has", text), text
        assert "gone/" not in text or "not in the fleet" in text or "no more" in text, text
        assert not re.search(r"\d\.\d{2,} GB", text), "sizes of memory have one decimal"


def test_counts_of_excluded_devices_are_sentences() -> None:
    world = fleet(rig("a", count=2), rig("b", vram_gb=16.0), rig("c", price_per_h=9.0, limits=NodeLimits(work=())))
    world.tell(inputs.CordonDevice(device="a/cuda1"))
    world.submit(script("a"), script("b"), script("c"), script("big", resources=Resources(vram_gb=20)))
    world.submit(script(resources=BIG))
    assert "of 2 devices it fits on, 1 is taken, 1 is cordoned; " in told(world, "j4").summary
    assert "it fits on no device of the fleet: 3 have too little VRAM, 1 takes other work" in told(world, "j5").summary
    (idle,) = [text for text in device_texts(world, "c/cuda0") if "is idle" in text]
    assert idle == "c/cuda0 is idle: 3 waiting jobs are excluded (work kind 3)"
    for text in all_texts(world):
        assert not re.search(r"\d says? |\d by ", text), text


@pytest.mark.parametrize("told_of", ["nothing", "queued", "alive"])
def test_state_of_a_process_is_that_of_the_last_report_while_its_node_is_unreachable(told_of: str) -> None:
    world = fleet(rig())
    world.submit(long("a"))
    if told_of != "nothing":
        world.tell(inputs.Launched(attempts=("j1.1",)))
    if told_of == "alive":
        world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    linked = " ".join(told(world).reasons)
    assert "a is connected" in linked
    world.tell(inputs.LinkDown(node="a", why="no route"), after_s=5.0)
    world.now += 60.0
    (said,) = [text for text in told(world).reasons if "process" in text]
    assert not re.search(r"process is (alive|queued)", said)
    assert "a is unreachable" in said
    if told_of == "alive":
        assert said == "its process was alive at the last report of a; a is unreachable"


@pytest.mark.parametrize(
    "why",
    [
        "rig cannot be reached: Connection refused; see whether it is on, and its SSH server runs",
        "node rig cannot be reached: Connection refused; see whether it is on, and its SSH server runs",
        "rig: cannot be reached: Connection refused; see whether it is on, and its SSH server runs",
        "cannot be reached: Connection refused; see whether it is on, and its SSH server runs",
    ],
)
def test_trouble_of_a_node_does_not_begin_with_its_name(why: str) -> None:
    world = fleet(rig("rig"))
    world.submit(script("a"), script("b"))
    world.tell(inputs.LinkDown(node="rig", why=why))
    (event,) = world.of(events.NodeUnreachable)
    assert event.why == "cannot be reached: Connection refused; see whether it is on, and its SSH server runs"
    for text in all_texts(world):
        assert not re.search(r"\brig( is out of reach)?[:(] ?(node )?rig\b", text), text
    assert world.tell(inputs.LinkDown(node="rig", why=why)) == [], "the same trouble is one event"


@pytest.mark.parametrize("why", ["rig", "", "rigs are away", "rig-2 does not answer", "node rigid"])
def test_trouble_that_only_looks_like_a_name_is_kept(why: str) -> None:
    world = fleet(rig("rig"))
    world.tell(inputs.LinkDown(node="rig", why=why))
    assert world.of(events.NodeUnreachable)[0].why == why


def test_shares_of_kinds_are_told_in_full() -> None:
    world = fleet(rig())
    world.submit(script("first"))
    world.submit(script("e", work_as=WorkKind.EVALUATION, config="c"), script("s"))
    world.tell(ended("j1.1"))
    (lease,) = world.of(events.AttemptLeased)
    assert lease.why.startswith("evaluation (0% of the device time, its share is 9%) before script; ")


def test_summary_of_a_job_that_is_over_is_a_sentence() -> None:
    world = fleet(rig("a"))
    world.submit(script("a"))
    world.submit(script("b", after=("j1",)))
    world.tell(inputs.Cancel(job="j1"), ended("j1.1", signal=15))
    assert told(world).summary.startswith("j1 was cancelled")
    assert told(world, "j2").summary.startswith("j2 failed: ")


def test_options_of_submit_are_named_where_they_would_help() -> None:
    world = fleet(rig("a"))
    world.submit(script("a", resources=Resources(device="cpu")))
    said = told(world)
    assert said.summary == "j1 waits: it fits on no device of the fleet: 1 is of another kind"
    assert said.changes[0].what == "`--device any` instead of `--device cpu`: it would fit on 1 device more"


def test_process_on_a_node_out_of_reach_is_not_called_ended_before_the_node_answers() -> None:
    world = fleet(rig("a"))
    world.submit(script())
    world.tell(inputs.LinkDown(node="a", why="no route"))
    world.tell(inputs.Cancel(job="j1", reason="wrong data"))
    assert "its process is ended once a answers" in told(world).summary
    assert "is being ended" not in told(world).summary


def test_higher_priority_is_a_hint_where_other_work_holds_the_device() -> None:
    world = fleet(rig("a"))
    world.submit(script("a"), script("b"), script("c"))
    assert any("a higher priority" in change.what for change in told(world, "j3").changes)
    world.tell(ended("j1.1"), inputs.CordonDevice(device="a/cuda0"))
    world.tell(inputs.Cancel(job="j2"))
    world.submit(script("d"))
    assert not any("a higher priority" in change.what for change in told(world, "j4").changes)
