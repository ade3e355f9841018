"""Where the resource definitions are, a cluster on loopback, and the real kubectl."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from hostler.backends.kuberay import definitions
from hostler.backends.kuberay.definitions import Definitions
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("ray.io_rayclusters.yaml", "ray.io_rayjobs.yaml")


@cache
def crd_files() -> tuple[Path, ...] | None:
    """KubeRay's resource definitions: in $KUBERAY_CRDS, or in data that lies beside the checkout; `None`: nowhere."""
    named = os.environ.get("KUBERAY_CRDS")
    folders = [Path(named)] if named else [ROOT / "shared/data/kuberay", ROOT.parent / "shared/data/kuberay"]
    for folder in folders:
        if all((folder / name).is_file() for name in NAMES):
            return tuple(folder / name for name in NAMES)
    return None


@cache
def _definitions() -> Definitions | None:
    found = crd_files()
    return None if found is None else definitions.read(found)


@pytest.fixture
def crds() -> tuple[Path, ...]:
    found = crd_files()
    if found is None:
        pytest.skip("no resource definitions of KubeRay: let $KUBERAY_CRDS name a folder with " + " and ".join(NAMES))
    return found


@pytest.fixture
def defined(crds: tuple[Path, ...]) -> Definitions:
    found = _definitions()
    assert found is not None
    return found


@pytest.fixture
def kubectl() -> str:
    found = os.environ.get("KUBECTL") or shutil.which("kubectl")
    if found is None:
        pytest.skip("kubectl is not installed (Debian: kubernetes-client)")
    return found


def kubeconfig(folder: Path, url: str) -> Path:
    """A kubeconfig whose current context is the cluster at `url`, and whose other one answers nobody."""
    path = folder / "kubeconfig"
    clusters = [
        {"name": "lab", "cluster": {"server": url}},
        {"name": "dead", "cluster": {"server": "http://127.0.0.1:9"}},
    ]
    contexts = [{"name": each["name"], "context": {"cluster": each["name"], "user": "anna"}} for each in clusters]
    users = [{"name": "anna", "user": {"token": "made-up"}}]
    content = {"apiVersion": "v1", "kind": "Config", "clusters": clusters, "contexts": contexts, "users": users}
    path.write_text(yaml.safe_dump({**content, "current-context": "lab"}))
    return path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A cluster, which the environment names; it checks by the resource definitions where there are any."""
    pytest.importorskip("lightkube", reason="lightkube is not installed: pip install 'hostler[k8s]'")
    from hostler.backends.kuberay import cluster
    from tests.backends.kuberay.apiserver import World, serve

    monkeypatch.setattr(cluster, "PATIENCE_S", PATIENCE_S)  # this server runs in the busy process of the test
    made = World(definitions=_definitions())
    server = serve(made)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")))
    monkeypatch.setenv("HOME", str(tmp_path))
    yield made
    with made.changed:
        made.over = True
        made.changed.notify_all()
    server.shutdown()
    server.server_close()
