"""Submissions with needs that contradict each other, or outputs outside the folder of the job, are refused."""

from __future__ import annotations

import pytest

from hostler.core.slices import finished
from hostler.core.state import State
from hostler.core.submission import admit
from hostler.model.errors import SpecError
from hostler.model.work import JobSpec, Resources, ScriptPayload


def leaving(*outputs: str) -> JobSpec:
    return JobSpec(name="job", payload=ScriptPayload(schema=1, argv=("true",), outputs=outputs))


def needing(**needs: object) -> JobSpec:
    payload = ScriptPayload(schema=1, argv=("true",))
    return JobSpec(name="job", payload=payload, resources=Resources(**needs))  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../model.pt", "runs/../../model.pt", "..", "", "/"])
def test_outputs_outside_the_folder_of_the_job_are_refused(pattern: str) -> None:
    with pytest.raises(SpecError, match=r"^job 'job': outputs: "):
        finished(admit(State(), (leaving("model.pt"), leaving("model.pt", pattern))))


@pytest.mark.parametrize("pattern", ["model.pt", "runs/*/model.pt", "**/*.pt", "a..b", "..."])
def test_outputs_below_the_folder_of_the_job_are_admitted(pattern: str) -> None:
    assert finished(admit(State(), (leaving(pattern),)))[0] == ("j1",)


@pytest.mark.parametrize(
    ("needs", "what"),
    [
        ({"gpus": 2}, "gpus asks for 2 GPUs"),
        ({"gpus": 8, "vram_gb": 24.0}, "gpus asks for 8 GPUs"),
        ({"vram_gb": 1.0}, "vram_gb asks for 1 GB of a GPU"),
        ({"gpu_models": ("4090",)}, "gpu_models names 4090"),
        ({"gpu_models": ("4090", "A100"), "gpus": 2}, "gpus asks for 2 GPUs"),
    ],
)
def test_gpus_on_a_cpu_slot_are_refused(needs: dict[str, object], what: str) -> None:
    with pytest.raises(SpecError, match=f"^job 'job': {what}, and device is cpu; leave one of the two out$"):
        finished(admit(State(), (needing(device="cpu", **needs),)))


@pytest.mark.parametrize(
    ("needs", "what"),
    [
        ({"labels": ("a=1", "b=1", "a=2")}, "labels asks for a=1 and a=2"),
        ({"nodes": ("a",), "exclude_nodes": ("b", "a")}, "nodes and exclude_nodes both name a"),
        ({"gpu_models": ("T4",), "exclude_gpu_models": ("T4",)}, "gpu_models and exclude_gpu_models both name T4"),
    ],
)
def test_constraints_that_no_device_can_meet_are_refused(needs: dict[str, object], what: str) -> None:
    with pytest.raises(SpecError, match=f"^job 'job': {what}"):
        finished(admit(State(), (needing(**needs),)))


def test_constraints_that_some_device_may_meet_are_admitted() -> None:
    needs = needing(labels=("a=1", "b=2", "a=1"), nodes=("a", "b"), exclude_nodes=("a",))
    assert finished(admit(State(), (needs,)))[0] == ("j1",)


@pytest.mark.parametrize("device", ["gpu", "any", None])
def test_several_gpus_on_other_devices_are_admitted(device: str | None) -> None:
    assert finished(admit(State(), (needing(device=device, gpus=2, gpu_models=("4090",)),)))[0] == ("j1",)


def test_many_cores_on_a_cpu_slot_are_admitted() -> None:
    assert finished(admit(State(), (needing(device="cpu", cpus=8.0, exclude_gpu_models=("P100",)),)))[0] == ("j1",)
