"""The Python that submitted jobs run with, told at submission: by node, as far as it is known before they run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hostler.cli.show import clean

if TYPE_CHECKING:
    from hostler.client import Client

LOCAL = "local"
"""The backend of nodes on the controller's own machine."""
PYTHONS = ("python", "python3", "{python}")
USUAL = "python3"
"""The interpreter of a node whose settings name none."""
NODES_SHOWN = 5


def print_environments(client: Client, specs: Sequence[Mapping[str, Any]], programs: Mapping[str, str]) -> None:
    """Print which program a command means here and on other nodes, and which file states its Python environment.

    `programs` are those that this shell finds on the controller's machine, by name.
    """
    payloads = [spec["payload"] for spec in specs if spec["payload"]["kind"] == "script"]
    words = {payload["argv"][0] for payload in payloads}
    if not programs and words.isdisjoint(PYTHONS) and not any(payload.get("environment") for payload in payloads):
        return
    nodes = client.nodes()
    needs = [spec["resources"] for spec in specs if spec["payload"]["kind"] == "script"]
    is_here = any(node["backend"] == LOCAL and any(_may_run(need, node) for need in needs) for node in nodes)
    others = [node for node in nodes if node["backend"] != LOCAL and node["pool"] is None]
    lines = [f"{word} → {program} (on this machine)" for word, program in programs.items() if is_here]
    for spec in specs:
        if spec["payload"]["kind"] == "script":
            lines += _of_script(spec["payload"], [node for node in others if _may_run(spec["resources"], node)])
    for line in dict.fromkeys(lines):
        print(clean(line), file=sys.stderr)


def _may_run(need: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether the constraints of a job on nodes, providers and kinds of device leave a node to it."""
    if need.get("nodes") and node["name"] not in need["nodes"]:
        return False
    if node["name"] in need.get("exclude_nodes", ()):
        return False
    if need.get("providers") and node.get("provider") not in need["providers"]:
        return False
    kinds = {device["kind"] == "cpu" for device in node.get("devices", ())}
    return not kinds or need.get("device") in (None, "any") or (need["device"] == "cpu") in kinds


def _of_script(payload: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    environment, word = payload.get("environment"), payload["argv"][0]
    if payload.get("python_env") not in (None, "none"):
        yield f"Python environment: {payload['python_env']}, built once on each node"
    elif environment is not None and others:
        yield f"Python environment: {environment['file']}, built once on each other machine"
    elif word in PYTHONS and "PATH" not in payload.get("env", {}):
        named = [node for node in others if node["python"] != USUAL]
        yield from (f"{word} → {node['python']} (on {node['name']})" for node in named[:NODES_SHOWN])
