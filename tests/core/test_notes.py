"""Notes at submission: what no device can take now, and what strict refuses."""

from __future__ import annotations

import pytest

from hostler.core.notes import NOTES_MOST, notes_of
from hostler.core.slices import finished
from hostler.model.errors import SpecError
from hostler.model.groups import GroupSpec, SubmitGroup
from hostler.model.inputs import CordonNode, LinkDown, NodeFound, Submit
from hostler.model.views import SubmitNote
from hostler.model.work import DeviceKind, FailureClass, JobSpec, Resources, Retry
from tests.core.builders import Driver, ended, fleet, link_up, node, script, sweep

GPU = Resources(device="gpu")


def notes(driver: Driver, *specs: JobSpec) -> list[SubmitNote]:
    """The notes on jobs that are submitted now."""
    ids = driver.submit(*specs)
    return list(finished(notes_of(driver.state, driver.core.index, [driver.state.jobs[name] for name in ids])))


def test_a_job_that_fits_has_no_note_even_where_all_is_taken() -> None:
    driver = fleet(devices=1)
    assert notes(driver, *(script() for _ in range(5)), sweep()) == []


def test_a_gpu_where_there_is_none_is_told_in_plain_words() -> None:
    (found,) = notes(fleet(devices=2), script("a", resources=GPU), script("b"), script("c", resources=GPU))
    assert found == SubmitNote(job="j1", count=2, fits=False, why="needs a GPU, and node n has none (2 CPU slots)")


def test_a_vram_need_names_the_devices_and_what_they_have() -> None:
    driver = fleet(devices=2, kind=DeviceKind.CUDA, vram_gb=24.0)
    (found,) = notes(driver, script(resources=Resources(device="gpu", vram_gb=80)))
    assert (found.fits, found.why) == (False, "needs 80 GB, n/cuda0 has 24 GB (VRAM, 2 devices)")


def test_a_fleet_without_devices_is_told() -> None:
    (found,) = notes(Driver(), script())
    assert (found.fits, found.why) == (False, "the fleet has no devices yet")


def test_nodes_that_are_held_or_away_are_told_unless_one_is_open() -> None:
    driver = fleet(devices=1)
    driver.tell(CordonNode(node="n", why="a new fan", who="ann"))
    (found,) = notes(driver, script())
    assert (found.fits, found.why) == (True, "n is cordoned by ann: a new fan (cordon, 1 device)")
    driver.tell(NodeFound(node=node("m")), link_up("m"))
    assert notes(driver, script()) == []
    driver.tell(LinkDown(node="m", why="no route"))
    (found,) = notes(driver, script())
    assert (
        found.why == "n is cordoned by ann: a new fan (cordon, 1 device); m is out of reach: no route (link, 1 device)"
    )


def test_notes_are_bounded() -> None:
    many = [script(resources=Resources(device="gpu", vram_gb=size + 1)) for size in range(NOTES_MOST + 30)]
    driver = fleet(devices=1, kind=DeviceKind.CUDA, vram_gb=0.5)
    assert len(notes(driver, *many)) == NOTES_MOST


def test_strict_submits_all_or_nothing() -> None:
    driver = fleet(devices=1)
    seq = driver.state.seq
    driver.tell(Submit(specs=(script("fine"), script("train", resources=GPU)), strict=True))
    (refused,) = driver.answers
    assert isinstance(refused, SpecError)
    assert str(refused) == (
        "job 'train' cannot run on any device: needs a GPU, and node n has none (1 CPU slot). "
        "Nothing was submitted, as strict asks"
    )
    assert (driver.state.jobs, driver.state.seq, driver.state.next_job) == ({}, seq, 1)
    driver.tell(Submit(specs=(script("fine"),), strict=True))
    assert driver.answers == [("j1",)]


def test_strict_takes_a_job_that_is_known_for_what_it_is() -> None:
    driver = fleet(devices=1)
    driver.submit(script("train", key="t", resources=GPU))
    driver.tell(Submit(specs=(script("train", key="t", resources=GPU),), strict=True))
    assert driver.answers == [("j1",)]


def test_a_need_that_is_met_later_has_no_note_any_more() -> None:
    driver = fleet(devices=1)
    assert notes(driver, script(resources=GPU))
    driver.tell(NodeFound(node=node("g", kind=DeviceKind.CUDA, vram_gb=24.0)), link_up("g"))
    assert notes(driver, script(resources=GPU)) == []


def test_a_node_that_is_not_in_the_fleet_is_named() -> None:
    (found,) = notes(fleet(devices=2), script(resources=Resources(nodes=("m",))))
    assert (found.fits, found.why) == (False, "there is no node m in the fleet; it has n")


def test_job_after_a_group_that_has_failed_is_noted_and_refused_by_strict() -> None:
    world = fleet(devices=2)
    once = Retry(max_attempts={FailureClass.EXIT: 1})
    world.tell(SubmitGroup(spec=GroupSpec(name="g"), jobs=(script("a", retry=once),)))
    world.tell(ended("j1.1", exit_code=1))
    world.submit(script("b", after=("g1",)), script("c", after=("j1",)))
    found = finished(notes_of(world.state, world.core.index, [world.state.jobs[name] for name in ("j2", "j3")]))
    begins = ["it comes after g1, which will not be done", "it comes after j1, which will not be done"]
    assert [note.why[: len(begin)] for note, begin in zip(found, begins, strict=True)] == begins
    world.tell(Submit(specs=(script("d", key="d"), script("e", after=("d", "g1"))), strict=True))
    with pytest.raises(SpecError, match="'e' cannot start: it comes after g1, which will not be done"):
        raise world.answers[0]
    assert "j4" not in world.state.jobs
