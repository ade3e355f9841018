"""The lab itself: hosts are apart from one another and from this machine, faults are what they say, nothing is left."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.lab import datacentre, host
from tests.lab.datacentre import Datacentre
from tests.lab.host import Gpu, Host
from tests.lab.tools import until

NO_LAB = datacentre.missing()
pytestmark = pytest.mark.skipif(NO_LAB is not None, reason=NO_LAB or "")


@pytest.fixture(scope="module")
def lab() -> Iterator[Datacentre]:
    with datacentre.running([Gpu("RTX 3080 Ti", 12288)], []) as made:
        yield made


def ssh(lab: Datacentre, at: Host, words: str, within_s: float = 20.0) -> subprocess.CompletedProcess[str]:
    """A command over the OpenSSH client, which trusts whom it meets."""
    options = [
        "-F",
        "none",
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-o",
        "LogLevel=ERROR",
    ]
    options += ["-o", "ConnectTimeout=3", "-i", str(lab.identity)]
    return subprocess.run(
        ["ssh", *options, f"root@{at.place.address}", words],
        capture_output=True,
        text=True,
        timeout=within_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def said(lab: Datacentre, at: Host, words: str) -> str:
    done = ssh(lab, at, words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_hosts_are_apart(lab: Datacentre) -> None:
    one, other = lab.hosts
    assert [said(lab, each, "hostname") for each in lab.hosts] == ["rig-0", "rig-1"]
    boots = {said(lab, each, "cat /proc/sys/kernel/random/boot_id") for each in lab.hosts}
    assert len(boots | {Path("/proc/sys/kernel/random/boot_id").read_text().strip()}) == 3
    said(lab, one, "touch ~/mine /tmp/mine")
    assert (one.home / "mine").exists()
    assert not Path("/tmp/mine").exists()
    assert said(lab, other, "ls ~ /tmp; ls /proc | grep -c '^[0-9]'").count("mine") == 0
    assert said(lab, one, "nvidia-smi --query-gpu=index,name,memory.total,uuid") == "0, RTX 3080 Ti, 12288, GPU-rig-0-0"
    assert ssh(lab, other, "command -v nvidia-smi").returncode != 0


def test_a_reboot_ends_everything_and_keeps_the_disk(lab: Datacentre) -> None:
    one = lab.hosts[0]
    before = said(lab, one, "cat /proc/sys/kernel/random/boot_id; touch ~/kept; setsid sleep 1000 >/dev/null 2>&1 &")
    until(lambda: one.processes("sleep", "1000"), "it sleeps")
    one.reboot()
    assert not one.processes("sleep", "1000")
    assert said(lab, one, "cat /proc/sys/kernel/random/boot_id") != before
    assert (one.home / "kept").exists()


def test_a_full_disk_and_one_that_is_freed(lab: Datacentre) -> None:
    one = lab.hosts[0]
    with one.full_disk():
        assert "No space" in ssh(lab, one, "echo x > ~/more").stderr
    assert said(lab, one, "echo x > ~/more; cat ~/more") == "x"


def test_cables_and_servers(lab: Datacentre) -> None:
    one, other = lab.hosts
    with one.unplugged():
        assert ssh(lab, one, "true").returncode == 255
        assert said(lab, other, "echo here") == "here"
    with one.without_sshd():
        assert "refused" in ssh(lab, one, "true").stderr
    assert said(lab, one, "echo here") == "here"


@pytest.mark.skipif(host.no_firewall() is not None, reason=host.no_firewall() or "")
def test_silence_is_no_refusal(lab: Datacentre) -> None:
    one = lab.hosts[0]
    with one.silent():
        assert "timed out" in ssh(lab, one, "true").stderr
    assert said(lab, one, "echo here") == "here"


def test_a_slow_line(lab: Datacentre) -> None:
    one = lab.hosts[0]
    with one.slow(1e6, 0.15):
        began = time.monotonic()
        assert len(said(lab, one, "head -c 100000 /dev/zero | tr '\\0' x")) == 100_000
        took_s = time.monotonic() - began
    assert took_s > 0.8 + 0.3, "100 kB at 1 Mbit/s, after at least one round trip"
    assert said(lab, one, "echo here") == "here"


def test_a_wrong_clock() -> None:
    with datacentre.running([], clocks=True) as lab:
        (one,) = lab.hosts
        asks = f"{host.PYTHON} -c 'import time; print(time.time())'"
        with one.wrong_clock(3600):
            assert 3500 < float(said(lab, one, asks)) - time.time() < 3700
        assert abs(float(said(lab, one, asks)) - time.time()) < 100


ROOT = Path(__file__).parents[2]
HELD = """
import time
from tests.lab import datacentre
with datacentre.running([]) as made:
    print(made.number, *(process.pid for process in made.hosts[0].processes()), flush=True)
    time.sleep(1000)
"""


def test_what_a_killed_test_leaves_is_cleared_away_by_the_next() -> None:
    with subprocess.Popen([sys.executable, "-c", HELD], stdout=subprocess.PIPE, text=True, cwd=ROOT) as holder:
        assert holder.stdout is not None
        number, *pids = map(int, holder.stdout.readline().split())
        holder.kill()
    assert pids
    until(lambda: not any(map(psutil.pid_exists, pids)), "its hosts dead")
    with datacentre.running([]):
        alias = Path(f"/sys/class/net/hlab{number}/ifalias")
        assert not alias.exists() or psutil.pid_exists(int(alias.read_text().split()[0])), "another's by now"


def test_nothing_is_left() -> None:
    with datacentre.running([], []) as made:
        first = [psutil.Process(each.processes()[0].pid) for each in made.hosts]
        folder, number = made.folder, made.number
    assert not any(process.is_running() for process in first)
    assert not folder.exists()
    assert not list(Path("/run/netns").glob(f"hlab{number}-*"))
    assert f"hlab{number}-" not in Path("/proc/mounts").read_text()
    assert not list(Path("/sys/class/net").glob(f"hlab{number}*"))
