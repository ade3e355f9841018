"""The real kubectl takes what is rendered, over the same wire as a cluster's."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from hostler.backends.kuberay.folder import write
from hostler.backends.kuberay.sources import render
from hostler.settings import load
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.backends.kuberay.apiserver import World

pytestmark = pytest.mark.services

FLEETS = Path(__file__).parent / "fleets"
CHECKS_ITSELF = (1, 27)
"""From this version on it asks the server what it checks, in a form that people can write, too."""

Run: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def version(kubectl: str) -> tuple[int, int]:
    asked = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True)
    told = json.loads(asked.stdout)["clientVersion"]
    return int(told["major"]), int(re.sub(r"\D", "", told["minor"]))


@pytest.fixture
def run(kubectl: str, version: tuple[int, int], world: World) -> Run:
    """kubectl with some words; where it is old it is kept from checking by documents that only a real server has."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        old = ["--validate=false"] if version < CHECKS_ITSELF and words[0] == "apply" else []
        return subprocess.run([kubectl, *words, *old], capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    return call


def manifests(name: str, folder: Path) -> str:
    rendered = render(load(FLEETS / f"{name}.yaml", {}))
    write(folder, rendered.asked.name, rendered.manifests)
    return str(folder)


def outcomes(done: subprocess.CompletedProcess[str]) -> set[str]:
    assert done.returncode == 0, done.stderr
    return {re.sub(r'^\S+ ("\S+" )?', "", line) for line in done.stdout.splitlines()}


@pytest.mark.parametrize("name", ["smallest", "queued", "openshift"])
def test_it_applies_a_folder_once_and_deletes_it(run: Run, world: World, tmp_path: Path, name: str) -> None:
    folder = manifests(name, tmp_path / "made")
    assert outcomes(run("apply", "-f", folder)) == {"created"}
    assert outcomes(run("apply", "-f", folder)) == {"unchanged"}
    assert outcomes(run("delete", "-f", folder)) == {"deleted"}
    assert not [key for key in world.objects if key[1] != "workloads"]


def test_it_applies_by_the_server_too(run: Run, world: World, tmp_path: Path) -> None:
    assert outcomes(run("apply", "--server-side", "-f", manifests("queued", tmp_path))) == {"serverside-applied"}
    assert world.get("rayjobs", "zelda")["spec"]["suspend"] is True


@pytest.mark.usefixtures("crds")
def test_a_dry_run_keeps_nothing_and_tells_a_wrong_field(
    run: Run, world: World, tmp_path: Path, version: tuple[int, int]
) -> None:
    if version < CHECKS_ITSELF:
        pytest.skip(f"kubectl {version[0]}.{version[1]} asks for OpenAPI v2 as protobuf before a dry run")
    folder = manifests("smallest", tmp_path)
    assert outcomes(run("apply", "--dry-run=server", "-f", folder)) == {"created (server dry run)"}
    assert world.objects == {}
    (job,) = tmp_path.glob("*rayjob*")
    job.write_text(job.read_text().replace("replicas: 1", "replica: 1", 1))
    done = run("apply", "--dry-run=server", "-f", str(job))
    assert done.returncode == 1
    assert "spec.rayClusterSpec.workerGroupSpecs[0].replica" in done.stderr


def test_it_shows_and_follows_what_hostler_made(run: Run, world: World, tmp_path: Path) -> None:
    assert run("apply", "-f", manifests("smallest", tmp_path)).returncode == 0
    world.run("smallest")
    world.end("smallest")
    assert "smallest" in run("get", "rayjobs", "-n", "rl").stdout
    done = run("logs", "-n", "rl", "-l", "hostler/ray=smallest,app.kubernetes.io/component=submitter")
    assert done.stdout == "smallest-submitter begins\n", done.stderr
