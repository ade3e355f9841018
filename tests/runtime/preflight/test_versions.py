"""What the nodes of a Ray cluster have, compared with one another and with what is expected."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.runtime.preflight import Machine, Proof
from hostler.runtime.preflight.versions import prove_versions
from tests.runtime.preflight.clusters import Local

NODES = ("head", "w1", "w2")


def proved(**has: dict[str, str | None]) -> Proof:
    cluster = Local(folders=dict.fromkeys(NODES, Path()), meant="", has=has)
    machines = [Machine(name=name, cpus=1) for name in NODES]
    return asyncio.run(prove_versions(cluster, machines, "2.60.0"))


def test_nodes_that_are_alike_are_told_so() -> None:
    assert proved().says.startswith("Ray 2.60.0; 3 nodes have Python 3.11, and Hostler ")
    assert proved(w1={"python": "3.11.9"}).health == "ok", "the last number of Python's does not matter"


@pytest.mark.parametrize(
    ("has", "code", "says"),
    [
        ({"hostler": None}, "version-hostler", "w2: /usr/bin/python3 has no hostler"),
        ({"hostler": "0.0.1"}, "version-hostler", "w2: hostler 0.0.1, "),
        ({"ray": "2.9.3"}, "version-ray", "w2: ray 2.9.3, 2.60.0 is expected"),
        ({"python": "3.12.1"}, "version-python", "w2: Python 3.12.1, where 3.11 is usual"),
        ({"pyboy": None, "torch": None}, "version-packages", "w2: no pyboy, no torch"),
    ],
)
def test_a_node_that_has_something_else_is_named(has: dict[str, str | None], code: str, says: str) -> None:
    found = proved(w2=has)
    assert (found.code, found.health) == (code, "error")
    assert says in found.says


def test_nodes_of_the_same_fault_are_told_of_together() -> None:
    assert proved(w1={"torch": None}, w2={"torch": None}).says == "w1 w2: no torch"
