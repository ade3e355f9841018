"""Hosts on one bridge, each in a network namespace of its own. Names and addresses are those of nobody else.

A datacentre has a number: whoever makes the bridge of that name owns it, so test processes beside one another take
different ones. The bridge says which process that was; what a killed one has left is cleared away by the next.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.backends.ssh import sshd
from tests.lab.host import Gpu, Host
from tests.lab.network import Place
from tests.lab.tools import command, succeeds

PREFIX = "hlab"
NUMBERS = 250
TOOLS = ("ip", "nsenter", "unshare", "setpriv", "ssh-keygen", "mount")


def missing() -> str | None:
    """Why there can be no datacentre here, and what helps; `None`: there can."""
    if os.geteuid() != 0:
        return "network namespaces are made by root only; run the tests as root"
    if sshd.MISSING is not None:
        return sshd.MISSING
    lacking = [name for name in TOOLS if shutil.which(name) is None]
    if lacking:
        return f"{', '.join(lacking)} not found; `apt-get install iproute2 util-linux openssh-client` brings them"
    probe = f"{PREFIX}-probe-{os.getpid()}"
    if not succeeds("ip", "netns", "add", probe):
        return "this kernel, or this container, makes no network namespaces"
    command("ip", "netns", "del", probe)
    if not succeeds("ip", "link", "add", f"{PREFIX}p{os.getpid()}", "type", "bridge"):
        return "this kernel has no network bridges"
    command("ip", "link", "del", f"{PREFIX}p{os.getpid()}")
    return None


@dataclass
class Datacentre:
    """Hosts that run; `folder` has a folder for each."""

    number: int
    folder: Path
    hosts: list[Host]

    @property
    def identity(self) -> Path:
        """The private key that every host lets in."""
        return self.folder / "client"

    def fleet(self, **settings: object) -> list[dict[str, object]]:
        """The hosts as `nodes` of a fleet file; `settings` hold for each."""
        return [{**host.settings(self.identity), **settings} for host in self.hosts]


@contextmanager
def running(*hosts: Sequence[Gpu], clocks: bool = False) -> Iterator[Datacentre]:
    """Hosts with these GPUs, reached by SSH; nothing of them is left afterwards, whatever has happened."""
    with ExitStack() as stack:
        number = _claim()
        stack.callback(_clear, number)
        # Not below the folder of the test, which hosts do not see: they have another /tmp.
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{number}-"))
        command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "client"))
        made = [Host(Place(PREFIX, number, at), folder, gpus, clock=clocks) for at, gpus in enumerate(hosts)]
        for host in made:
            stack.callback(host.close)
            host.plug_in()
            host.start()
        for host in made:
            host.wait_for_sshd()
        yield Datacentre(number, folder, made)


def _claim() -> int:
    """A number that nobody has, or whose owner is gone."""
    for number in range(1, NUMBERS):
        bridge = Place(PREFIX, number, 0).bridge
        if not succeeds("ip", "link", "add", bridge, "type", "bridge"):
            if not _is_abandoned(bridge):
                continue
            _clear(number)
            if not succeeds("ip", "link", "add", bridge, "type", "bridge"):
                continue
        command("ip", "link", "set", bridge, "alias", _owner(os.getpid()), "up")
        command("ip", "addr", "add", f"{Place(PREFIX, number, 0).gateway}/24", "dev", bridge)
        return number
    raise AssertionError(f"all {NUMBERS} numbers are taken: `ip link show type bridge`")


def _owner(pid: int) -> str:
    """A process for good: its number may be another one's later."""
    return f"{pid} {psutil.Process(pid).create_time():.2f}"


def _is_abandoned(bridge: str) -> bool:
    try:
        alias = Path(f"/sys/class/net/{bridge}/ifalias").read_text().strip()
        return bool(alias) and _owner(int(alias.split()[0])) != alias
    except psutil.NoSuchProcess:
        return True
    except (OSError, ValueError):  # gone by now, or another's
        return False


def _clear(number: int) -> None:
    """Take away what bears a number: links, namespaces, disks, folders, and the bridge last, which frees the number."""
    prefix = f"{PREFIX}{number}-"
    for link in Path("/sys/class/net").glob(f"{prefix}*"):
        succeeds("ip", "link", "del", link.name)  # by itself it would go some time after its namespace
    for space in Path("/run/netns").glob(f"{prefix}*"):
        succeeds("ip", "netns", "del", space.name)
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, target, *_ = line.split()
        if source.startswith(prefix):
            succeeds("umount", "-l", target)
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        shutil.rmtree(folder, ignore_errors=True)
    succeeds("ip", "link", "del", Place(PREFIX, number, 0).bridge)
