"""What the doctor finds on real hosts, and what it makes of hosts that cannot be had here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostler.backends.selection import Selection
from hostler.backends.ssh import Finding, Network, examine
from hostler.backends.ssh.doctor import _findings
from tests.agent.toolbox import put
from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd

needs_sshd = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")
WELL: dict[str, Any] = {
    "python": [3, 11, 2],
    "executable": "/usr/bin/python3",
    "dir": "/home/me/.hostler",
    "writable": True,
    "free_bytes": 500 << 30,
    "gpus": [],
    "rsync": True,
    "shell_s": 0.1,
    "skew_s": 0.0,
    "noise": 0,
}
NVIDIA = {"vendor": "0x10de", "cards": 2, "tool": "nvidia-smi", "status": 0, "said": "GPU 0: RTX 3090", "seconds": 0.1}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    with sshd.running(tmp_path / "sshd") as found:
        yield found


async def found_on(server: Sshd, python: str = "python3", folder: str | None = None) -> dict[str, Finding]:
    network = Network(server.habits())
    try:
        where = folder or f"{server.folder}/not/made/yet"
        found = await examine(network, "far", server.target(), python=python, folder=where)
    finally:
        await network.close()
    assert {each.node for each in found} == {"far"}
    return {each.what: each for each in found}


def fingerprints(server: Sshd) -> str:
    """What OpenSSH's own programs say of the keys of a server."""
    keys = subprocess.run(["ssh-keyscan", "-p", str(server.port), "127.0.0.1"], capture_output=True, check=True).stdout
    return subprocess.run(["ssh-keygen", "-lf", "-"], input=keys, capture_output=True, check=True).stdout.decode()


@needs_sshd
async def test_a_host_that_is_well(server: Sshd) -> None:
    found = await found_on(server)
    assert {"ssh", "shell", "python", "space", "clock"} <= set(found)
    assert {found[what].health for what in ("ssh", "python", "clock")} == {"good"}
    assert not (server.folder / "not").exists(), "it changes nothing"


@needs_sshd
async def test_a_shell_that_talks_and_is_slow(server: Sshd) -> None:
    (server.home / ".bashrc").write_text("echo welcome; sleep 2.2\n")
    shell = (await found_on(server))["shell"]
    assert (shell.health, ".bashrc" in shell.fix) == ("slow", True)


@needs_sshd
async def test_no_python(server: Sshd) -> None:
    found = await found_on(server, python="/no/such/python")
    assert found["python"].health == "bad"
    assert "name a Python 3.8 or newer" in found["python"].fix


@needs_sshd
async def test_a_folder_nobody_can_make(server: Sshd) -> None:
    assert (await found_on(server, folder="/proc/hostler"))["space"].health == "bad"


@needs_sshd
async def test_a_stranger(server: Sshd) -> None:
    server.known_hosts.write_text("")
    found = await found_on(server)
    assert list(found) == ["ssh"]
    assert (found["ssh"].health, "hostler node trust FLEET far" in found["ssh"].fix) == ("bad", True)
    host, fingerprint = f"[127.0.0.1]:{server.port}", found["ssh"].says.rpartition(" ")[2]
    assert found["ssh"].says == f"the host key of {host} is not known: {fingerprint}"
    assert fingerprint.startswith("SHA256:")
    assert fingerprint in fingerprints(server)


@needs_sshd
async def test_a_stranger_on_the_way(server: Sshd, tmp_path: Path) -> None:
    with sshd.running(tmp_path / "jump") as jump:
        network = Network(server.habits())
        try:
            target = replace(server.target(), via=(f"127.0.0.1:{jump.port}",))
            (found,) = await examine(network, "far", target, python="python3", folder="~")
        finally:
            await network.close()
    assert found.says.startswith(f"the host key of [127.0.0.1]:{jump.port} is not known: SHA256:")


@needs_sshd
async def test_another_key_than_the_known_one(server: Sshd, tmp_path: Path) -> None:
    with sshd.running(tmp_path / "other") as other:
        theirs = other.known_hosts.read_text().split()[1:]
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {' '.join(theirs)}\n")
    found = (await found_on(server))["ssh"]
    assert (found.says, "another host key" in found.fix) == ("cannot be connected to", True)


@pytest.mark.parametrize(
    ("differs", "what", "health", "says", "fix"),
    [
        ({"python": [3, 7, 3]}, "python", "bad", "3.7.3", "3.8 or newer"),
        ({"python": [3, 8, 0]}, "python", "good", "3.8.0", ""),
        ({"writable": False}, "folder", "bad", "cannot be written", "`dir:`"),
        ({"free_bytes": 1 << 30}, "space", "bad", "1.0 GiB", "clear 2 GiB"),
        ({"shell_s": 7.5}, "shell", "slow", "7.5 s", ".bashrc"),
        ({"noise": 12}, "shell", "slow", "12 bytes", "terminals only"),
        ({"skew_s": 3600.0}, "clock", "slow", "3600 s fast", "time server"),
        ({"skew_s": -90.0}, "clock", "slow", "90 s slow", "time server"),
        ({"gpus": []}, "gpu", "good", "none found", ""),
        ({"gpus": [NVIDIA]}, "gpu", "good", "2 of NVIDIA, nvidia-smi answers in 0.1 s", ""),
        ({"gpus": [{**NVIDIA, "tool": None, "status": None}]}, "gpu", "bad", "2 of NVIDIA, no driver", "install"),
        ({"gpus": [{**NVIDIA, "status": 9, "said": "NVRM:\n lost"}]}, "gpu", "bad", "fails: NVRM: lost", "reboot"),
        ({"gpus": [{**NVIDIA, "status": None, "said": "timed out"}]}, "gpu", "bad", "fails: timed out", "reboot"),
        ({"rsync": False}, "rsync", "slow", "none", "SFTP"),
    ],
)
def test_each_finding_has_its_fix(differs: dict[str, Any], what: str, health: str, says: str, fix: str) -> None:
    well = {each.what: each for each in _findings("n", WELL)}
    assert {each.health for each in well.values()} == {"good"}
    found = {each.what: each for each in _findings("n", {**WELL, **differs})}
    assert (found[what].health, says in found[what].says, fix in found[what].fix) == (health, True, True), found[what]
    others = {each for each in found if each != what and not (what == "folder" and each == "space")}
    assert all(found[each].health == "good" for each in others)


LISTING = "GPU 0: RTX 3090 (UUID: GPU-8932f937)\nGPU 1: RTX 3090 (UUID: GPU-5a5a0000)\n"


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        (Selection(only=(1,)), []),
        (Selection(only=("GPU-5a5a",), exclude=(0,)), []),
        (Selection(only=(1, 2)), ["gpus.only of n: 2 names no GPU that is found there. It has 0 (GPU-8932f937), 1"]),
        (Selection(only=(7,)), ["7 names no GPU", "leave none of its 2 GPUs"]),
        (Selection(exclude=("GPU-77",)), ["gpus.exclude of n: GPU-77 names no GPU"]),
    ],
)
def test_a_choice_that_names_no_gpu_of_the_node_is_found(selection: Selection, said: list[str]) -> None:
    there = {**WELL, "gpus": [{**NVIDIA, "said": LISTING}]}
    bad = [each for each in _findings("n", there, selection) if each.health == "bad"]
    assert len(bad) == len(said)
    assert all(text in each.says for each, text in zip(bad, said, strict=True))
    assert {each.fix for each in bad} <= {"correct `gpus` of the node in the fleet file"}
    unknown = {**WELL, "gpus": [{**NVIDIA, "said": "nothing that is a list"}]}
    assert all(each.health == "good" for each in _findings("n", unknown, selection))


@needs_sshd
async def test_a_choice_is_compared_with_the_cards_of_a_real_host(server: Sshd, tmp_path: Path) -> None:
    put(tmp_path / "tools", "nvidia-smi", f"cat <<'END'\n{LISTING}END\n")
    path = f"{tmp_path / 'tools'}:/usr/local/bin:/usr/bin:/bin"
    with sshd.running(tmp_path / "rig", f"SetEnv PATH={path} HOME={tmp_path}") as rig:
        network = Network(rig.habits())
        try:
            found = await examine(
                network, "far", rig.target(), python=sys.executable, folder="~", selection=Selection(only=(1, 5))
            )
        finally:
            await network.close()
    (bad,) = [each for each in found if each.health == "bad" and each.what == "gpu"]
    assert "gpus.only of far: 5 names no GPU" in bad.says
