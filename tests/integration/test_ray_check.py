"""`hostler check` of a training on a real Ray cluster: what is there passes, what is not is named, nothing hangs."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from hostler.backends.kuberay.command import entrypoint
from tests.backends.ray.tls import certificate, tls_before
from tests.integration.conftest import PATIENCE_S, Said, signal_each
from tests.raytown.town import TOKEN, Town, town

pytestmark = pytest.mark.services

ORDER = """schema: 1
game: keyrooms
rom: keyrooms
training: {steps: 100000, workers: 3, envs_per_worker: 4, batch_steps: 4096, ray: {}}
"""
CHECK_S = 3 * PATIENCE_S
"""The bound of a check: more than `preflight.proving.LONGEST_S`, by which every proof ends, whatever it finds."""


def checked(
    path: Path, address: str, python: str, rl: str = "", cluster: str = ", token_file: token", more: str = ""
) -> Said:
    """`hostler check` of a plan for that cluster."""
    (path / "token").write_text(f"{TOKEN}\n")
    (path / "wrong").write_text("another-token-of-the-tests-of-hostler-0123456789\n")
    (path / "kept").mkdir(exist_ok=True)
    (path / "order.yaml").write_text(ORDER)
    where = f"kind: ray, address: '{address}', python: {python}{cluster}"
    plan = f"order: order.yaml, cluster: {{{where}}}, hosts: [{{name: box, cpus: 4, memory_gb: 8}}], {rl}"
    (path / "fleet.yaml").write_text(f"rl: {{{plan}}}\n{more}")
    words = [sys.executable, "-m", "hostler", "check", str(path / "fleet.yaml"), "--json"]
    env = {"HOME": str(path), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(words, capture_output=True, text=True, timeout=CHECK_S, env=env, check=False)
    return Said(ended.returncode, ended.stdout, ended.stderr)


def told(said: Said) -> dict[str, str]:
    """What was found, by code."""
    lines = [line.split(": ", 2) for line in said.err.splitlines() if line.startswith(("ok: ", "error: ", "unknown: "))]
    return {code: words for _, code, words in lines}


def test_a_cluster_that_has_it_all_passes_and_keeps_nothing_of_it(ray_town: Town, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    version = ray_town.ask("GET", "/api/version")["ray_version"]
    entrance = f", token_file: token, version: '{version}'"
    said = checked(tmp_path, ray_town.address, ray_town.python, f"checkpoints: {kept}", entrance)
    found = told(said)
    assert said.status == 0, said.err
    assert found["cluster-ok"] == "3 nodes with 4 CPUs live, 4 are asked for"
    assert "3 nodes have Python 3." in found["version-ok"]
    assert found["store-ok"] == f"{kept}: what each of 3 nodes writes, all of them read"
    assert list(kept.iterdir()) == []
    assert ray_town.jobs("hostler-probe-") == []


def test_a_node_of_the_fleet_says_how_one_gets_in(ray_town: Town, tmp_path: Path) -> None:
    share = {"address": f"{ray_town.address}/", "token_file": "token"}
    nodes = [{"name": "share", "backend": "ray", "ray": share}]
    more = f"nodes: {json.dumps(nodes)}\ndialin: {{listen: '127.0.0.1:8799'}}\n"
    said = checked(tmp_path, ray_town.address, ray_town.python, cluster="", more=more)
    assert "cluster-ok" in told(said), said.err
    other = checked(tmp_path, "http://127.0.0.1:9", ray_town.python, cluster="", more=more)
    assert other.status == 1
    both = f"`rl.cluster.address` is http://127.0.0.1:9, and `ray.address` of node 'share' is {ray_town.address}/"
    assert both in other.err


def test_what_is_refused_is_named(ray_town: Town, tmp_path: Path) -> None:
    for cluster, why in ((", token_file: wrong", "counts for nothing there"), ("", "no token was shown")):
        said = checked(tmp_path, ray_town.address, ray_town.python, cluster=cluster)
        assert said.status == 10
        assert why in told(said)["cluster-refused"]
        assert TOKEN not in said.err
        assert "another-token" not in said.err
    none = checked(tmp_path, ray_town.address, ray_town.python, cluster=", token_file: nowhere")
    assert none.status == 10
    assert "nowhere cannot be read" in told(none)["cluster-failed"]


def test_a_python_without_what_is_needed_is_named(ray_town: Town, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {ray_town.python} -S -E "$@"\n')
    bare.chmod(0o755)
    said = checked(tmp_path, ray_town.address, str(bare))
    assert said.status == 11, said.err
    assert "has no ray" in told(said)["version-ray"]
    missing = told(checked(tmp_path, ray_town.address, "/no/such/python"))["version-silent"]
    assert "/no/such/python" in missing


def test_another_version_than_is_written_is_named(ray_town: Town, tmp_path: Path) -> None:
    said = checked(tmp_path, ray_town.address, ray_town.python, cluster=", token_file: token, version: '1.13'")
    assert said.status == 11
    assert "1.13 is expected" in told(said)["version-other"]


def test_a_cluster_without_the_room_is_named(ray_town: Town, tmp_path: Path) -> None:
    said = checked(tmp_path, ray_town.address, ray_town.python, "runner_cpus: 1.0, runners: 3, learner_cpus: 9.0")
    assert "4 CPUs live, 12 are asked for" in told(said)["cluster-small"]


def test_a_dashboard_behind_tls_is_believed_by_its_certificates(ray_town: Town, tmp_path: Path) -> None:
    shown, kept = certificate(tmp_path, "dashboard")
    with tls_before(ray_town.address, shown, kept) as address:
        said = checked(tmp_path, address, ray_town.python, cluster=f", token_file: token, ca: {shown}")
        assert told(said)["cluster-ok"] == "3 nodes with 4 CPUs live, 4 are asked for", said.err
        assert "3 nodes have Python 3." in told(said)["version-ok"], "jobs are submitted, and their words come back"
        unknown = checked(tmp_path, address, ray_town.python)
    assert unknown.status == 10
    assert "certificate" in told(unknown)["cluster-unreached"].lower()
    assert TOKEN not in said.err + unknown.err


def test_the_command_of_a_rayjob_arrives_through_rays_own_submission(ray_town: Town) -> None:
    words = ["http://host/?a=1&b=2", "$HOME", "a b;c $d", '{"a": [1, "x"]}', "it's", "", "a\\", "*", "x\ny"]
    version = ray_town.ask("GET", "/api/version")["ray_version"]
    shows = [ray_town.python, "-c", "import json, sys; print('words', json.dumps(sys.argv[1:]))"]
    ray = shlex.join(
        [str(Path(ray_town.python).with_name("ray")), "job", "submit", "--address", ray_town.address, "--"]
    )
    script = f"{ray} {entrypoint([*shows, *words], 'K8sJobMode', version)} ; true"
    env = {"HOME": str(ray_town.folder), "PATH": "/usr/bin:/bin", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    said = subprocess.run(["bash", "-ce", script], capture_output=True, text=True, timeout=CHECK_S, env=env, check=True)
    (line,) = [each for each in said.stdout.splitlines() if each.startswith("words ")]
    assert json.loads(line.removeprefix("words ")) == words


@contextmanager
def stopped(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """The processes are stopped within the block."""
    try:
        signal_each(processes, signal.SIGSTOP)
        yield
    finally:
        signal_each(processes, signal.SIGCONT)


def test_a_folder_that_is_not_shared_and_a_cluster_that_is_gone(ray_python_found: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    plan = f"checkpoints: {kept}"
    may_mount = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", kept], check=False).returncode == 0
    with town(ray_python_found, (3,)) as found:
        if may_mount:
            found.tell("apart", "1", str(kept))
            said = checked(tmp_path, found.address, found.python, plan)
            assert said.status == 13, said.err
            assert "is not the same everywhere" in told(said).get("store-apart", ""), said.err
            assert "does not see what" in told(said)["store-apart"]
            assert list(kept.iterdir()) == []
        with stopped(found.head()):
            said = checked(tmp_path, found.address, found.python, plan)
            assert said.status == 10
            assert "does not answer within" in told(said)["cluster-unreached"]
    said = checked(tmp_path, found.address, found.python, plan)
    assert said.status == 10
    assert "cannot be reached" in told(said)["cluster-unreached"]
    if not may_mount:
        pytest.skip("a folder that is not shared was not tried: only root may mount one of its own")
