"""The lab itself: hosts are apart from one another and from this machine, faults are what they say, nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.lab import datacentre, host
from tests.lab.datacentre import Datacentre
from tests.lab.host import Gpu, Host
from tests.lab.tools import until
from tests.patience import PATIENCE_S

NO_LAB = datacentre.missing()
SILENT_S = 3
"""How long a client waits for a host that cannot answer."""
pytestmark = pytest.mark.skipif(NO_LAB is not None, reason=NO_LAB or "")


@pytest.fixture(scope="module")
def lab() -> Iterator[Datacentre]:
    with datacentre.running([Gpu("RTX 3080 Ti", 12288)], []) as made:
        yield made


def ssh(lab: Datacentre, at: Host, words: str, connect_s: int = int(PATIENCE_S)) -> subprocess.CompletedProcess[str]:
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
    options += ["-o", f"ConnectTimeout={connect_s}", "-i", str(lab.identity)]
    return subprocess.run(
        ["ssh", *options, f"root@{at.place.address}", words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
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
    mine = f"mine-{lab.folder.name}"
    said(lab, one, f"touch ~/{mine} /tmp/{mine}")
    assert (one.home / mine).exists()
    assert not (Path("/tmp") / mine).exists()
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
        assert ssh(lab, one, "true", SILENT_S).returncode == 255
        assert said(lab, other, "echo here") == "here"
    with one.without_sshd():
        assert "refused" in ssh(lab, one, "true").stderr
    assert said(lab, one, "echo here") == "here"


@pytest.mark.skipif(host.no_firewall() is not None, reason=host.no_firewall() or "")
def test_silence_is_no_refusal(lab: Datacentre) -> None:
    one = lab.hosts[0]
    with one.silent():
        assert "timed out" in ssh(lab, one, "true", SILENT_S).stderr
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
            ahead_s = float(said(lab, one, asks)) - time.time()
            assert 3600 - PATIENCE_S < ahead_s < 3600 + PATIENCE_S
        assert abs(float(said(lab, one, asks)) - time.time()) < PATIENCE_S


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
        try:
            number, *pids = map(int, holder.stdout.readline().split())
        finally:
            holder.kill()
    assert pids
    until(lambda: not any(map(psutil.pid_exists, pids)), "its hosts dead")
    alias = Path(f"/sys/class/net/hlab{number}/ifalias")
    with ExitStack() as held:
        for _ in range(number):  # each takes the lowest number that is free: a lower one may be free by now
            held.enter_context(datacentre.running([]))
            if has_no_dead_owner(alias):
                break
        assert has_no_dead_owner(alias)


def has_no_dead_owner(alias: Path) -> bool:
    """Whether a bridge is gone, or belongs to a process that lives."""
    owner = owner_of(alias)
    return owner is None or psutil.pid_exists(owner)


def owner_of(alias: Path) -> int | None:
    """The process that a bridge says it belongs to; `None` where there is no bridge, or not yet a word of it."""
    try:
        return int(alias.read_text().split()[0])
    except (OSError, IndexError):  # another process makes or removes it just now
        return None


def is_free(number: int) -> bool:
    """Whether nothing bears the number of a datacentre."""
    links, spaces = Path("/sys/class/net").glob(f"hlab{number}*"), Path("/run/netns").glob(f"hlab{number}-*")
    mounts = Path("/proc/mounts").read_text()
    return not [*links, *spaces] and f"hlab{number}-" not in mounts


def is_of_another(number: int) -> bool:
    """Whether another process has the number by now, which it gets only where nothing bears it."""
    return owner_of(Path(f"/sys/class/net/hlab{number}/ifalias")) not in (None, os.getpid())


def test_nothing_is_left() -> None:
    with datacentre.running([], []) as made:
        first = [psutil.Process(each.processes()[0].pid) for each in made.hosts]
        folder, number = made.folder, made.number
    assert not any(process.is_running() for process in first)
    assert not folder.exists()
    assert str(folder) not in Path("/proc/mounts").read_text()
    until(lambda: is_free(number) or is_of_another(number), f"nothing that bears the number {number}")
