"""Constraints on nodes, GPU models, providers and labels, one device at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.work import DeviceKind, Resources, WorkKind
from hostler.policy import fit
from hostler.policy.constraints import class_violation, is_model, node_violation
from hostler.policy.fit import Gate

CARD = DeviceSpec(
    id="rig/cuda0", node="rig", kind=DeviceKind.CUDA, index=0, model="NVIDIA GeForce RTX 4090", vram_gb=24
)
SLOT = DeviceSpec(id="rig/cpu0", node="rig", kind=DeviceKind.CPU, index=0)
RIG = NodeSpec(name="rig", backend="test", devices=(CARD, SLOT), provider="vast", labels={"zone": "a", "net": "10g"})


@pytest.mark.parametrize(
    ("wanted", "model", "matches"),
    [
        ("4090", "NVIDIA GeForce RTX 4090", True),
        ("rtx 4090", "NVIDIA GeForce RTX 4090", True),
        ("RTX-4090", "NVIDIA GeForce RTX 4090", True),
        ("A10", "NVIDIA A100-SXM4-80GB", False),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("a100 80gb", "NVIDIA A100-SXM4-80GB", False),
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("409", "NVIDIA GeForce RTX 4090", False),
        ("geforce 4090", "NVIDIA GeForce RTX 4090", False),
    ],
)
def test_gpu_model_matches_by_whole_words_in_order(wanted: str, model: str, matches: bool) -> None:
    assert is_model(wanted, model) is matches


@given(st.text(st.characters(codec="ascii"), min_size=1).filter(lambda each: any(c.isalnum() for c in each)))
def test_gpu_model_matches_itself(model: str) -> None:
    assert is_model(model, model)
    assert is_model(model.upper(), f"NVIDIA {model} 80GB")


@pytest.mark.parametrize(
    ("need", "device", "why"),
    [
        (Resources(gpu_models=("4090",)), CARD, None),
        (Resources(gpu_models=("A100", "4090")), CARD, None),
        (Resources(gpu_models=("A100",)), CARD, "needs A100, rig/cuda0 is a NVIDIA GeForce RTX 4090"),
        (Resources(gpu_models=("4090",)), SLOT, "needs 4090, rig/cpu0 is a CPU slot"),
        (Resources(gpu_models=("4090",)), replace(CARD, model=None), "the model of rig/cuda0 is unknown"),
        (Resources(exclude_gpu_models=("4090",)), CARD, "4090 is excluded, rig/cuda0 is a NVIDIA GeForce RTX 4090"),
        (Resources(exclude_gpu_models=("4090",)), replace(CARD, model=None), "the model of rig/cuda0 is unknown"),
        (Resources(exclude_gpu_models=("4090",)), SLOT, None),
        (Resources(providers=("vast", "runpod")), CARD, None),
        (Resources(providers=("runpod",)), CARD, "needs runpod, rig is of vast"),
        (Resources(labels=("zone=a", "net=10g")), CARD, None),
        (Resources(labels=("zone=b",)), CARD, "needs zone=b, rig has zone=a"),
        (Resources(labels=("zone=a", "disk=nvme")), CARD, "needs disk=nvme, rig has no label disk"),
    ],
)
def test_constraint_names_what_the_device_has(need: Resources, device: DeviceSpec, why: str | None) -> None:
    violated = class_violation(need, RIG, device)
    assert (None if violated is None else violated.why) == why


def test_provider_of_a_node_without_one_is_not_met() -> None:
    violated = class_violation(Resources(providers=("vast",)), replace(RIG, provider=None), CARD)
    assert violated is not None
    assert violated.why == "needs vast, rig has none stated"


def test_node_constraints_name_the_node() -> None:
    assert node_violation(Resources(nodes=("rig", "b")), "rig") is None
    assert node_violation(Resources(exclude_nodes=("b",)), "rig") is None
    wanted, excluded = (
        node_violation(Resources(nodes=("b",)), "rig"),
        node_violation(Resources(exclude_nodes=("rig",)), "rig"),
    )
    assert wanted is not None
    assert excluded is not None
    assert (wanted.why, excluded.why) == ("needs node b, not rig", "rig is excluded")


def test_constraints_are_filters_of_their_own() -> None:
    site = fit.site(RIG, CARD)
    needs = {
        Gate.MODEL: Resources(gpu_models=("A100",)),
        Gate.PROVIDER: Resources(providers=("runpod",)),
        Gate.LABEL: Resources(labels=("zone=b",)),
    }
    for gate, need in needs.items():
        refused = fit.refusal(need, site, WorkKind.SCRIPT)
        assert refused is not None
        assert refused.gate is gate


def test_nodes_of_different_labels_are_of_different_classes() -> None:
    classes = {
        fit.device_class(fit.site(replace(RIG, labels=labels), CARD)) for labels in ({}, {"zone": "a"}, {"zone": "b"})
    }
    assert len(classes) == 3
