"""Constraints of work: the nodes, GPU models, providers and labels that it requires or excludes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.work import DeviceKind, Resources

Kind: TypeAlias = Literal["node", "GPU model", "provider", "label"]

_WORD = re.compile(r"[a-z0-9]+")


class Violation(NamedTuple):
    """A constraint that a device does not meet."""

    kind: Kind
    why: str


def class_violation(need: Resources, node: NodeSpec, device: DeviceSpec) -> Violation | None:
    """The first constraint on models, providers and labels that the device does not meet; `None` if it meets all.

    Devices of one class have the same answer.
    """
    return _model_violation(need, device) or _provider_violation(need, node) or _label_violation(need, node)


def node_violation(need: Resources, node: str) -> Violation | None:
    """The constraint on nodes that this node does not meet; `None` if it meets both."""
    if need.nodes and node not in need.nodes:
        return Violation("node", f"needs node {_listed(need.nodes)}, not {node}")
    if node in need.exclude_nodes:
        return Violation("node", f"{node} is excluded")
    return None


def is_model(wanted: str, model: str) -> bool:
    """Whether the words of `wanted` stand in `model` one after the other, in any case.

    `4090` and `rtx 4090` match `NVIDIA GeForce RTX 4090`; `A10` does not match `NVIDIA A100`.
    """
    words, asked = _words(model), _words(wanted)
    return any(words[at : at + len(asked)] == asked for at in range(len(words) - len(asked) + 1))


def _model_violation(need: Resources, device: DeviceSpec) -> Violation | None:
    if not need.gpu_models and not need.exclude_gpu_models:
        return None
    if device.kind is DeviceKind.CPU and not need.gpu_models:
        return None
    if device.kind is DeviceKind.CPU:
        return Violation("GPU model", f"needs {_listed(need.gpu_models)}, {device.id} is a CPU slot")
    if device.model is None:
        return Violation("GPU model", f"the model of {device.id} is unknown")
    model = device.model
    if need.gpu_models and not any(is_model(each, model) for each in need.gpu_models):
        return Violation("GPU model", f"needs {_listed(need.gpu_models)}, {device.id} is a {model}")
    excluded = next((each for each in need.exclude_gpu_models if is_model(each, model)), None)
    return None if excluded is None else Violation("GPU model", f"{excluded} is excluded, {device.id} is a {model}")


def _provider_violation(need: Resources, node: NodeSpec) -> Violation | None:
    if not need.providers or node.provider in need.providers:
        return None
    has = "has none stated" if node.provider is None else f"is of {node.provider}"
    return Violation("provider", f"needs {_listed(need.providers)}, {node.name} {has}")


def _label_violation(need: Resources, node: NodeSpec) -> Violation | None:
    for label in need.labels:
        name, _, value = label.partition("=")
        has = node.labels.get(name)
        if has != value:
            stated = f"has no label {name}" if has is None else f"has {name}={has}"
            return Violation("label", f"needs {label}, {node.name} {stated}")
    return None


def _words(text: str) -> Sequence[str]:
    return _WORD.findall(text.lower())


def _listed(names: Iterable[str]) -> str:
    return " or ".join(names)
