"""Placement by constraints, and the GPU that a script without a stated device waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hostler.core.explain import explain_job
from hostler.core.notes import gpu_by_default, notes_of
from hostler.core.slices import finished
from hostler.core.stuck import is_stuck
from hostler.model.events import AttemptLeased, ChunkLeased
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Begin, CordonDevice, LinkDown, NodeFound
from hostler.model.work import DeviceKind, JobSpec, JobState, Resources, ScriptPayload, WorkKind
from tests.core.builders import Driver, ended, link_up, node, replayed, script, sweep

CPU = Resources(device="cpu")


def fleet_of(*nodes: NodeSpec) -> Driver:
    driver = Driver()
    found = [NodeFound(node=each) for each in nodes]
    driver.tell(Begin(version="test", epoch=1, nodes=tuple(each.name for each in nodes)), *found)
    driver.tell(*(link_up(each.name) for each in nodes))
    return driver


def card(name: str, model: str = "NVIDIA GeForce RTX 4090", **fields: object) -> NodeSpec:
    made = node(name, kind=DeviceKind.CUDA, vram_gb=24.0)
    devices = tuple(replace(each, model=model) for each in made.devices)
    return replace(made, devices=devices, **fields)  # type: ignore[arg-type]


def mixed(name: str) -> NodeSpec:
    """A node with one GPU and one CPU slot."""
    return replace(node(name), devices=(*card(name).devices, *node(name).devices))


def places(driver: Driver) -> dict[str, str]:
    return {job.id: job.attempt.device for job in driver.state.jobs.values() if job.attempt is not None}


@pytest.mark.parametrize(
    ("need", "device"),
    [
        (Resources(nodes=("b",)), "b/cuda0"),
        (Resources(exclude_nodes=("a", "c")), "b/cuda0"),
        (Resources(gpu_models=("A100",)), "c/cuda0"),
        (Resources(exclude_gpu_models=("4090",)), "c/cuda0"),
        (Resources(providers=("vast",)), "b/cuda0"),
        (Resources(labels=("zone=z",)), "c/cuda0"),
        (Resources(labels=("zone=z",), nodes=("a", "c")), "c/cuda0"),
    ],
)
def test_constrained_job_is_placed_where_its_constraints_hold(need: Resources, device: str) -> None:
    driver = fleet_of(
        card("a"), card("b", provider="vast"), card("c", "NVIDIA A100-SXM4-80GB", labels={"zone": "z"}, provider="own")
    )
    driver.submit(*(script(f"s{number}", resources=need) for number in range(3)))
    assert places(driver) == {"j1": device}
    assert replayed(driver.entries).state == driver.state


def test_nodes_of_one_class_are_told_apart_by_their_names() -> None:
    driver = fleet_of(*(card(f"rig{number}") for number in range(9)))
    driver.submit(*(script(f"s{number}", resources=Resources(nodes=(f"rig{8 - number}",))) for number in range(9)))
    assert places(driver) == {f"j{number + 1}": f"rig{8 - number}/cuda0" for number in range(9)}


def test_constrained_job_waits_behind_one_on_its_node_while_others_are_free() -> None:
    driver = fleet_of(card("a"), card("b"))
    driver.submit(script("first", resources=Resources(nodes=("b",))))
    driver.submit(script("second", resources=Resources(nodes=("b",))), script("third"))
    assert places(driver) == {"j1": "b/cuda0", "j3": "a/cuda0"}
    driver.tell(ended("j1.1"))
    assert places(driver)["j2"] == "b/cuda0"


def test_sweep_keeps_to_its_nodes() -> None:
    driver = fleet_of(node("a"), node("b"), node("c"))
    driver.submit(sweep(resources=Resources(exclude_nodes=("a", "c"))))
    leased = [entry.event for entry in driver.entries if isinstance(entry.event, ChunkLeased)]
    assert {event.device for event in leased} == {"b/cpu0"}


def test_constraint_that_no_node_meets_is_explained_and_stuck() -> None:
    driver = fleet_of(card("a"), card("b"))
    driver.submit(script(resources=Resources(nodes=("c",))))
    explained = explain_job(driver.state, driver.core.index, driver.state.jobs["j1"])
    assert explained.gates == {"node": 2}
    assert explained.devices["a/cuda0"] == "does not fit: needs node c, not a"
    assert is_stuck(driver.state, driver.core.index, ["a", "b"])


def test_constrained_job_runs_on_a_node_that_joins() -> None:
    driver = fleet_of(card("a"))
    driver.submit(script(resources=Resources(nodes=("b",))))
    driver.tell(NodeFound(node=card("b")), link_up("b"))
    assert places(driver) == {"j1": "b/cuda0"}


def test_job_on_several_gpus_keeps_to_its_node() -> None:
    def pair(name: str) -> NodeSpec:
        return node(name, devices=2, kind=DeviceKind.CUDA, vram_gb=24.0)

    driver = fleet_of(pair("a"), pair("b"))
    driver.submit(script(resources=Resources(nodes=("b",), gpus=2)))
    (leased,) = [entry.event for entry in driver.entries if isinstance(entry.event, AttemptLeased)]
    assert (leased.device, leased.others) == ("b/cuda0", ("b/cuda1",))


def waiting_for_gpu(driver: Driver, names: Sequence[str]) -> int:
    return finished(gpu_by_default(driver.state, driver.core.index, [driver.state.jobs[name] for name in names]))


def test_script_without_a_device_waits_for_a_gpu_of_the_fleet() -> None:
    driver = fleet_of(mixed("n"))
    stated = script("c", resources=Resources(device="any")), script("d", resources=CPU)
    ids = driver.submit(script("a"), script("b"), *stated)
    assert places(driver) == {"j1": "n/cuda0", "j3": "n/cpu0"}
    assert waiting_for_gpu(driver, ids) == 2
    said = explain_job(driver.state, driver.core.index, driver.state.jobs["j2"]).devices["n/cpu0"]
    assert said == "device kind: j2 states no device and waits for a GPU; with `--device any` it would take n/cpu0, too"
    driver.tell(ended("j3.1"))
    assert places(driver) == {"j1": "n/cuda0", "j4": "n/cpu0"}


def test_script_without_a_device_takes_a_cpu_slot_where_no_gpu_fits_it() -> None:
    driver = fleet_of(mixed("n"), node("m"))
    driver.submit(script("a", resources=Resources(nodes=("m",))), script("b", resources=Resources(providers=())))
    assert places(driver) == {"j1": "m/cpu0", "j2": "n/cuda0"}


@pytest.mark.parametrize(
    "need", [Resources(exclude_gpu_models=("4090", "3090")), Resources(gpu_models=("A100",))], ids=["excluded", "named"]
)
def test_script_without_a_device_that_takes_none_of_the_gpu_models_waits_with_a_note(need: Resources) -> None:
    driver = fleet_of(mixed("n"), card("b", "NVIDIA GeForce RTX 3090"))
    ids = driver.submit(script("a", resources=need), script("b", resources=replace(need, device="any")))
    state, index = driver.state, driver.core.index
    assert driver.job_state("j1") is JobState.PENDING
    (note, *_) = finished(notes_of(state, index, [state.jobs["j1"]]))
    assert not note.fits
    assert "(GPU model, " in note.why
    if need.exclude_gpu_models:
        assert "with `--device any` it would take n/cpu0, too" in note.why
        assert waiting_for_gpu(driver, ids) == 1
        assert places(driver) == {"j2": "n/cpu0"}
        driver.tell(ended("j2.1"))
    assert is_stuck(state, index, ["n", "b"])
    driver.tell(NodeFound(node=card("c", "NVIDIA A100-SXM4-80GB")), link_up("c"))
    assert places(driver)["j1"] == "c/cuda0"


def test_script_without_a_device_is_noted_where_the_only_gpu_is_cordoned() -> None:
    driver = fleet_of(mixed("n"))
    driver.tell(CordonDevice(device="n/cuda0", why="a new fan", who="ann"))
    driver.submit(script())
    (note,) = finished(notes_of(driver.state, driver.core.index, [driver.state.jobs["j1"]]))
    assert (note.fits, "a new fan" in note.why) == (True, True)


def test_script_without_a_device_waits_while_the_node_of_the_gpu_is_away() -> None:
    driver = fleet_of(card("g"), node("c"))
    driver.tell(LinkDown(node="g", why="no route"))
    driver.submit(script())
    assert driver.job_state("j1") is JobState.PENDING
    driver.tell(link_up("g", incarnation=2))
    assert places(driver) == {"j1": "g/cuda0"}


def test_script_without_a_device_takes_a_cpu_slot_once_the_gpu_has_left_the_fleet() -> None:
    driver = fleet_of(card("g"), node("c"))
    driver.tell(LinkDown(node="g", why="no route"))
    driver.submit(script())
    driver.tell(NodeFound(node=node("g", devices=0)))
    assert places(driver) == {"j1": "c/cpu0"}


def test_other_work_without_a_device_takes_any() -> None:
    driver = fleet_of(mixed("n"))
    driver.submit(sweep(), script("e", work_as=WorkKind.EXPORT))
    leased = {entry.event.device for entry in driver.entries if isinstance(entry.event, ChunkLeased)}
    assert leased | set(places(driver).values()) == {"n/cuda0", "n/cpu0"}


def test_script_in_place_takes_a_cpu_slot_where_the_only_gpu_lacks_its_folder() -> None:
    driver = fleet_of(replace(card("far"), apart=True), node("here"))
    payload = ScriptPayload(schema=1, argv=("true",), cwd="/project", in_place=True)
    driver.submit(JobSpec(name="here", payload=payload), script("anywhere"))
    assert places(driver) == {"j1": "here/cpu0", "j2": "far/cuda0"}


def test_explanation_names_a_device_that_its_node_has_no_more() -> None:
    driver = fleet_of(card("a"))
    driver.submit(script())
    driver.tell(NodeFound(node=node("a", devices=0)))
    explained = explain_job(driver.state, driver.core.index, driver.state.jobs["j1"])
    assert [group.cls for group in explained.groups] == ["not in the fleet any more"]
