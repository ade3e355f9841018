"""From a fleet file to nodes that can be reached."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hostler.backends.agented import AgentedNode
from hostler.backends.local import LocalNode
from hostler.backends.local.node import _output
from hostler.runtime.clock import SteadyClock
from hostler.runtime.dialin import switchboard
from hostler.runtime.nodes import reaching
from hostler.runtime.statedir import StateDir
from hostler.settings import load

FLEET = """\
state_dir: state
classes:
  rig: {rocm: {gfx: 10.3.0, sdma: false}, env: {A: class, B: class}}
nodes:
- {name: here, class: rig, env: {B: here, HOSTLER_ARTIFACTS: /elsewhere}}
- {name: there, class: rig, backend: ssh, env: {HSA_ENABLE_SDMA: '1'}}
"""
FACTS = {"cpus": 1, "devices": []}


async def test_everything_on_a_node_sees_the_variables_of_its_class(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    loaded = load(tmp_path / "fleet.yaml", {})
    loaded.state_dir.mkdir()
    directory = StateDir(loaded.state_dir)
    async with reaching(loaded, directory, switchboard(loaded, directory), SteadyClock()) as reached:
        found = {name: node for name, node in reached.nodes.items() if isinstance(node, AgentedNode)}
        seen = {name: dict(node.describe(FACTS).env) for name, node in found.items()}
    # Whatever its environment says: what is not there the controller believes to have, and has not.
    assert seen["here"].pop("HOSTLER_ARTIFACTS") == str(directory.artifacts.absolute())
    rocm = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "HSA_ENABLE_SDMA": "0"}
    assert seen == {
        "here": {**rocm, "A": "class", "B": "here"},
        "there": {**rocm, "A": "class", "B": "class", "HSA_ENABLE_SDMA": "1"},
    }


def test_what_only_nodes_elsewhere_need_is_not_imported_without_one() -> None:
    """asyncssh looks for a library by running other programs: every start of every controller would pay for it."""
    program = (
        "import sys, hostler.runtime.up; print(*sorted({'asyncssh', 'cryptography', 'boto3'} & sys.modules.keys()))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []


async def test_credentials_of_stores_are_not_for_what_runs_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {"AWS_SECRET_ACCESS_KEY": "a", "AWS_SESSION_TOKEN": "b", "RCLONE_CONFIG_PASS": "c", "HOSTLER_TOKEN": "d"}
    for name, value in {**secrets, "AWS_REGION": "eu"}.items():
        monkeypatch.setenv(name, value)
    for stores, kept in (
        ("[{name: b, kind: s3, bucket: games}]", {"RCLONE_CONFIG_PASS", "AWS_REGION"}),
        ("[{name: r, kind: rclone, remote: 'r:games'}]", {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"}),
        ("[]", {*secrets, "AWS_REGION"} - {"HOSTLER_TOKEN"}),
    ):
        (tmp_path / "fleet.yaml").write_text(f"state_dir: state\nnodes: [{{name: here}}]\nstores: {stores}\n")
        loaded = load(tmp_path / "fleet.yaml", {})
        directory = StateDir(loaded.state_dir)
        async with reaching(loaded, directory, switchboard(loaded, directory), SteadyClock()) as reached:
            here = reached.nodes["here"]
        assert isinstance(here, LocalNode)
        said, status = _output([sys.executable, "-c", "import os; print(*os.environ)"], here._withheld)
        assert (status, {*said.split()} & {*secrets, "AWS_REGION"}) == (0, kept)
