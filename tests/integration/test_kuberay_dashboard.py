"""The controller of a rendered dashboard comes up as its pod starts it, and answers its probe."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from hostler.backends.kuberay.sources import render
from hostler.settings import load
from tests.integration.conftest import PATIENCE_S, until
from tests.integration.test_access import make_certificate

pytestmark = pytest.mark.services

FLEET = Path(__file__).resolve().parents[1] / "backends/kuberay/fleets/queued.yaml"


def test_it_comes_up_and_answers_to_the_names_of_its_service(tmp_path: Path) -> None:
    manifests = {(each["kind"], each["metadata"]["name"]): each for each in render(load(FLEET, {})).manifests}
    container = manifests["Deployment", "zelda-dashboard"]["spec"]["template"]["spec"]["containers"][0]
    (tmp_path / "fleet.yaml").write_text(manifests["ConfigMap", "zelda-dashboard"]["data"]["fleet.yaml"])
    program, verb, _ = container["command"]
    assert program == "hostler"
    env = {each["name"]: each["value"] for each in container["env"]}
    env = {**os.environ, **env, **_here(tmp_path)}
    command = [sys.executable, "-m", "hostler", verb, str(tmp_path / "fleet.yaml")]
    log = tmp_path / "up.log"
    with log.open("w") as output, subprocess.Popen(command, env=env, stdout=output, stderr=output) as controller:
        try:
            left = until(lambda: _left(tmp_path, controller), "the controller's address", log=log.read_text)
            probe, name = container["readinessProbe"]["httpGet"], "zelda-dashboard.rl.svc:8765"
            url = left["url"].replace("0.0.0.0", "127.0.0.1")
            assert url.startswith(f"{probe['scheme'].lower()}://")
            asked = urllib.request.Request(url + probe["path"], headers={"Host": name})
            trusted = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
            assert until(lambda: _status(asked, trusted), "an answer", log=log.read_text) == 200
        finally:
            controller.terminate()
            controller.wait(PATIENCE_S)


def _here(folder: Path) -> dict[str, str]:
    """What is somewhere else than in the pod."""
    make_certificate(folder / "tls.crt", folder / "tls.key")
    return {
        "HOME": str(folder),
        "HOSTLER_STATE_DIR": str(folder / "state"),
        "HOSTLER_API__PORT": "0",
        "HOSTLER_API__CERTIFICATE": str(folder / "tls.crt"),
        "HOSTLER_API__KEY": str(folder / "tls.key"),
    }


def _left(folder: Path, controller: subprocess.Popen[bytes]) -> Any:
    assert controller.poll() is None
    try:
        return json.loads((folder / "state/controller.json").read_bytes())
    except FileNotFoundError:
        return None


def _status(asked: urllib.request.Request, trusted: ssl.SSLContext) -> int | None:
    try:
        with urllib.request.urlopen(asked, context=trusted, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except ConnectionError:
        return None
