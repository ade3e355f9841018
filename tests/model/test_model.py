"""The words: values that cannot change, one tree of errors, subjects of events."""

from __future__ import annotations

import inspect
import re
import typing
from dataclasses import FrozenInstanceError, fields, is_dataclass
from types import ModuleType
from typing import Any

import pytest

from hostler.model import (
    access_events,
    alert_events,
    artifact_events,
    artifact_inputs,
    backup_events,
    commands,
    disk_events,
    errors,
    events,
    fleet,
    fleet_events,
    groups,
    inputs,
    loop_events,
    past_events,
    pool_events,
    usage_events,
    work,
)
from hostler.model.codec import load_specs
from hostler.model.errors import HostlerError, SpecError
from hostler.model.events import job_of, subject
from hostler.model.fleet import DeviceSpec, binding
from hostler.model.work import DEFAULT_BUDGETS, FINAL_STATES, HELD_STATES, DeviceKind, FailureClass, JobState

MODULES = [commands, events, fleet, inputs, work]


def classes(module: ModuleType) -> list[Any]:
    return [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__]


class TestErrors:
    def test_the_drawn_tree_is_the_real_one(self) -> None:
        assert drawn_tree() == {each.__name__: each.__mro__[1].__name__ for each in classes(errors)}

    def test_everything_hangs_on_the_root(self) -> None:
        assert all(issubclass(each, HostlerError) for each in classes(errors))

    def test_each_says_what_it_means(self) -> None:
        assert all(each.__doc__ and each.__doc__.endswith(".") for each in classes(errors))


def drawn_tree() -> dict[str, str]:
    """Parent by class, read off the drawing in the module's docstring."""
    parents: dict[str, str] = {"HostlerError": "Exception"}
    path = ["HostlerError"]
    for indent, name in re.findall(r"^    ([│ ]*)[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE):
        depth = len(indent) // 4 + 1
        path[depth:] = [name]
        parents[name] = path[depth - 1]
    return parents


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_records_are_frozen_slotted_and_explained(module: ModuleType) -> None:
    shapes: list[Any] = [each for each in classes(module) if is_dataclass(each)]
    assert shapes
    for shape in shapes:
        assert not (shape.__doc__ or f"{shape.__name__}(").startswith(f"{shape.__name__}("), f"{shape} explains nothing"
        assert hasattr(shape, "__slots__")
        assert shape.__dataclass_params__.frozen
        assert all(each.kw_only for each in fields(shape))


def test_a_record_cannot_be_changed() -> None:
    tick = inputs.Cancel(job="j1")
    with pytest.raises(FrozenInstanceError):
        tick.job = "j2"  # type: ignore[misc]


def test_unions_leave_nothing_out() -> None:
    modules = (
        events,
        loop_events,
        fleet_events,
        pool_events,
        access_events,
        alert_events,
        artifact_events,
        backup_events,
        disk_events,
        past_events,
        usage_events,
    )
    facts = {each for module in modules for each in classes(module)} - {events.Entry} | {groups.GroupSubmitted}
    assert set(typing.get_args(typing.get_args(events.Event)[0])) == facts
    asked = {each for module in (inputs, artifact_inputs) for each in classes(module)}
    asked |= {groups.SubmitGroup, groups.CancelGroup, groups.RetryGroup}
    assert set(typing.get_args(inputs.Input)) == asked - {inputs.Found}
    orders = {commands.AttemptOrder, commands.CanaryOrder, commands.ChunkOrder, commands.Setup, commands.WorkerOrder}
    assert set(typing.get_args(commands.Command)) == set(classes(commands)) - orders


def test_each_state_is_pending_held_or_final() -> None:
    assert FINAL_STATES | HELD_STATES | {JobState.PENDING} == set(JobState)
    assert not FINAL_STATES & HELD_STATES
    assert all(state.final is (state in FINAL_STATES) and state.held is (state in HELD_STATES) for state in JobState)


def test_each_failure_has_a_budget() -> None:
    assert set(DEFAULT_BUDGETS) == set(FailureClass)


@pytest.mark.parametrize(
    ("event", "job"),
    [
        (events.JobCancelled(job="j7"), "j7"),
        (events.AttemptLaunching(attempt="j7.12"), "j7"),
        (events.ChunkDone(chunk="j7.3", hits=(), elapsed_s=1.0), "j7"),
        (events.ResultRefused(of="j7.3", why=""), "j7"),
        (events.NodeUnreachable(node="n", why=""), None),
        (events.ControllerStarted(version="", epoch=1), None),
    ],
)
def test_the_subject_of_an_event(event: events.Event, job: str | None) -> None:
    assert subject(event) == job


def test_parts_name_their_job() -> None:
    assert job_of("j1.2") == "j1"
    assert job_of("nonsense") == ""


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (DeviceKind.CUDA, {"CUDA_VISIBLE_DEVICES": "3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (DeviceKind.ROCM, {"HIP_VISIBLE_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "3"}),
        (DeviceKind.CPU, {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}),
    ],
)
def test_a_process_sees_its_device_and_no_other(kind: DeviceKind, shown: dict[str, str]) -> None:
    device = DeviceSpec(id=f"n/{kind}3", node="n", kind=kind, index=3, model=None)
    assert shown.items() <= binding(device).items()
    assert (device.queue, device.speed_class) == (f"{kind}3", kind)


def test_a_process_on_an_apple_chip_needs_no_telling() -> None:
    assert binding(DeviceSpec(id="n/mps0", node="n", kind=DeviceKind.MPS, index=0, model="Apple M2")) == {}


BOUNDED: list[tuple[dict[str, Any], str]] = [
    ({"priority": 2**31}, "priority"),
    ({"priority": -(2**31) - 1}, "priority"),
    ({"resources": {"memory_gb": 1e300}}, "memory_gb"),
    ({"resources": {"vram_gb": 2**20 + 1}}, "vram_gb"),
    ({"walltime_s": 2e9}, "walltime_s"),
    ({"grace_s": 2e9}, "grace_s"),
    ({"retry": {"backoff_s": 2e9}}, "backoff_s"),
    ({"retry": {"backoff_max_s": 2e9}}, "backoff_max_s"),
]


@pytest.mark.parametrize(("fields", "named"), BOUNDED, ids=[named for _, named in BOUNDED])
def test_a_number_beyond_its_bounds_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError, match=named):
        load_specs([{"name": "a", "payload": {"kind": "script", "schema": 1, "argv": ["true"]}, **fields}])


@pytest.mark.parametrize("field", ["target_s", "silence_s", "start_s"])
def test_a_time_of_a_sweep_beyond_its_bounds_is_refused_by_name(field: str) -> None:
    payload = {"kind": "sweep", "schema": 1, "start": 0, "stop": 1, "worker": ["w"], "params": {}, "digest": "0" * 64}
    with pytest.raises(SpecError, match=field):
        load_specs([{"name": "a", "payload": {**payload, field: 2e9}}])
