"""`status` names nodes that are out of reach."""

from __future__ import annotations

from hostler.model.fleet import NodeSpec
from hostler.model.inputs import LinkDown, NodeFound
from tests.cli.conftest import Hostler
from tests.web.core_desk import Window


def test_status_names_nodes_out_of_reach_and_why(served: Window, hostler: Hostler) -> None:
    for at in range(7):
        served.tell(NodeFound(node=NodeSpec(name=f"rig-{at}", backend="ssh", devices=())))
        served.tell(LinkDown(node=f"rig-{at}", why="its host key is not known; `hostler node trust fleet.yaml`"))
    lines = hostler("status").out.splitlines()
    at = lines.index("nodes    1 of 8 reachable")
    assert lines[at + 1] == "         rig-0: its host key is not known; `hostler node trust fleet.yaml`"
    assert lines[at + 6] == "         and 2 more: `hostler node list`"
    assert hostler("status", "--json").json["nodes_away"]["rig-4"].startswith("its host key")
