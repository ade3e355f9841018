"""Ray in Kubernetes on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.backends.kuberay.conftest import crds, world
from tests.cli.conftest import Hostler

if TYPE_CHECKING:
    from tests.backends.kuberay.apiserver import World

__all__ = ["crds", "world"]

FLEETS = Path(__file__).resolve().parents[1] / "backends/kuberay/fleets"
GOLDEN = FLEETS.parent / "golden"
QUEUED, SMALLEST = str(FLEETS / "queued.yaml"), str(FLEETS / "smallest.yaml")


def test_manifests_are_printed_as_a_stream(hostler: Hostler) -> None:
    said = hostler("kuberay", "render", QUEUED)
    assert (said.status, said.err) == (0, "")
    assert said.out == (GOLDEN / "queued.yaml").read_text(encoding="utf-8")


def test_render_json_is_one_list_of_objects(hostler: Hostler) -> None:
    made = hostler("kuberay", "render", QUEUED, "--json").json
    assert made["kind"] == "List"
    assert made["items"] == list(yaml.safe_load_all((GOLDEN / "queued.yaml").read_text(encoding="utf-8")))


def test_render_writes_a_file_for_each_manifest(hostler: Hostler, tmp_path: Path) -> None:
    said = hostler("kuberay", "render", SMALLEST, "-o", str(tmp_path))
    assert said.out == f"{tmp_path}: 4 manifests\n"
    assert [yaml.safe_load(path.read_text())["kind"] for path in sorted(tmp_path.iterdir())] == [
        "ServiceAccount", "ConfigMap", "NetworkPolicy", "RayJob",
    ]  # fmt: skip
    (tmp_path / "02-configmap-smallest-files.yaml").rename(tmp_path / "09-configmap-old.yaml")
    assert "removed 09-configmap-old.yaml" in hostler("kuberay", "render", SMALLEST, "-o", str(tmp_path)).out


def test_what_cannot_be_is_refused_with_object_and_field(hostler: Hostler, tmp_path: Path) -> None:
    section = yaml.safe_load((FLEETS / "smallest.yaml").read_text())["kuberay"]
    path = tmp_path / "fleet.yaml"
    path.write_text(json.dumps({"kuberay": {**section, "files": [], "name": "a" * 48}}))
    said = hostler("kuberay", "render", str(path))
    assert (said.status, said.out) == (2, "")
    assert f"RayJob rl/{'a' * 48}: metadata.name: has 48 characters" in said.err
    path.write_text(json.dumps({"kuberay": {**section, "worker": []}}))
    said = hostler("kuberay", "render", str(path))
    assert said.status == 2
    assert "kuberay.worker: is no setting; did you mean 'workers'?" in said.err


@pytest.mark.long
def test_definitions_are_taken_from_files(hostler: Hostler, crds: tuple[Path, ...]) -> None:
    clusters, jobs = map(str, crds)
    said = hostler("kuberay", "render", SMALLEST, "--crd", clusters, "--crd", jobs)
    assert (said.status, said.err) == (0, "")
    said = hostler("kuberay", "render", SMALLEST, "--crd", clusters)
    assert "warning: RayJob is in none of the files of --crd" in said.err


def test_a_dry_run_is_told_beside_the_manifests(hostler: Hostler, world: World) -> None:
    said = hostler("kuberay", "render", SMALLEST, "--dry-run", "server")
    assert said.status == 0
    assert len(list(yaml.safe_load_all(said.out))) == 4
    assert "RayJob rl/smallest: would be created" in said.err
    assert world.objects == {}
    assert "RayJob rl/smallest: created (dry run)" in hostler("kuberay", "apply", SMALLEST, "--dry-run", "server").out
    assert world.objects == {}


def test_a_job_from_its_beginning_to_its_end(hostler: Hostler, world: World) -> None:
    assert "RayJob rl/zelda: created" in hostler("kuberay", "apply", QUEUED).out
    said = hostler("kuberay", "status", QUEUED)
    assert said.status == 0
    assert "queued by Kueue: in research: couldn't assign flavors" in " ".join(said.out.split())
    world.admit("zelda")
    world.run("zelda")
    assert hostler("kuberay", "logs", QUEUED).out == "zelda-submitter begins\n"
    world.end("zelda", "FAILED", message="\x1b[2Jboom")
    said = hostler("kuberay", "status", QUEUED, "--json")
    assert said.status == 1
    assert said.json["phase"] == "failed"
    said = hostler("kuberay", "status", QUEUED, "--watch")
    assert said.status == 1
    assert "\x1b" not in said.out
    said = hostler("kuberay", "apply", QUEUED)
    assert said.status == 2
    assert "is over already" in said.err
    gone = hostler("kuberay", "delete", QUEUED, "--json").json
    assert gone[0] == {"object": "RayJob rl/zelda", "did": "deleted"}
    assert hostler("kuberay", "status", QUEUED).status == 1


def test_applying_can_be_watched(hostler: Hostler, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = world.create

    def create(key: tuple[str, str, str, str], manifest: dict[str, object], dry: bool) -> object:
        made = kept(key, manifest, dry)
        if key[1] == "rayjobs":
            world.end("smallest")
        return made

    monkeypatch.setattr(world, "create", create)
    said = hostler("kuberay", "apply", SMALLEST, "--watch")
    assert (said.status, said.out.splitlines()[-1]) == (0, "RayJob rl/smallest: succeeded")


def test_operators_run_the_job_with_the_rights_of_their_role(hostler: Hostler, world: World) -> None:
    """Everything else was applied before, by somebody who may."""
    assert hostler("kuberay", "apply", QUEUED).status == 0
    others = {plural for kinds in world.groups.values() for plural in kinds} - {"rayjobs", "pods", "workloads"}
    world.forbidden |= {(method, plural) for method in ("GET", "PATCH", "DELETE") for plural in others}
    assert hostler("kuberay", "apply", QUEUED).status == 1
    assert hostler("kuberay", "delete", QUEUED, "--alone").out == "RayJob rl/zelda: deleted\n"
    assert hostler("kuberay", "apply", QUEUED, "--alone").out == "RayJob rl/zelda: created\n"
    world.run("zelda")
    assert hostler("kuberay", "status", QUEUED).status == 0
    assert hostler("kuberay", "logs", QUEUED).status == 0


def test_without_a_cluster_it_says_so(hostler: Hostler, world: World) -> None:
    said = hostler("kuberay", "status", QUEUED, "--context", "nowhere")
    assert said.status == 2
    assert "no Kubernetes cluster to talk to" in said.err
    said = hostler("kuberay", "status", QUEUED, "--context", "dead")
    assert said.status == 1
    assert "did not answer" in said.err


def test_without_lightkube_it_names_the_extra(hostler: Hostler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightkube", None)
    monkeypatch.delitem(sys.modules, "hostler.backends.kuberay.cluster", raising=False)
    said = hostler("kuberay", "status", QUEUED)
    assert said.status == 2
    assert "pip install 'hostler[k8s]'" in said.err


def test_rendering_needs_no_extra(hostler: Hostler, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightkube", "jsonschema_rs"):
        monkeypatch.setitem(sys.modules, name, None)
    assert hostler("kuberay", "render", SMALLEST).status == 0
