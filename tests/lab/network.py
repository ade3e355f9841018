"""Network namespaces on one bridge, and what keeps packets of two of them from each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.lab.tools import command

BOTH, THERE, BACK = "both", "there", "back"
WAYS = (BOTH, THERE, BACK)
"""Which packets a cut drops: all, those that go there, or those that come back."""


@dataclass(frozen=True)
class Place:
    """Names and addresses of the machine `at` of a datacentre."""

    prefix: str
    number: int
    at: int

    @property
    def bridge(self) -> str:
        """What the datacentre's links end at."""
        return f"{self.prefix}{self.number}"

    @property
    def name(self) -> str:
        """Of the namespace, of the link's end outside, and of the disk."""
        return f"{self.prefix}{self.number}-{self.at}"

    @property
    def gateway(self) -> str:
        """Where whoever runs the tests is."""
        return f"10.231.{self.number}.1"

    @property
    def address(self) -> str:
        """Where the machine is."""
        return f"10.231.{self.number}.{self.at + 11}"

    @property
    def enter(self) -> tuple[str, ...]:
        """What goes before a command that is to run in its network; the process is the command's own."""
        return ("nsenter", f"--net=/run/netns/{self.name}")


def plug_in(place: Place) -> None:
    """Make its network, with a link to the bridge."""
    name = place.name
    command("ip", "netns", "add", name)
    command("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
    command("ip", "-n", name, "link", "set", "lo", "up")
    command("ip", "-n", name, "addr", "add", f"{place.address}/24", "dev", "eth0")
    command("ip", "-n", name, "link", "set", "eth0", "up")
    command("ip", "link", "set", name, "master", place.bridge, "up")


def firewall(place: Place, rule: str) -> None:
    """One command of nft inside of it."""
    command("ip", "netns", "exec", place.name, "nft", *rule.split())


@contextmanager
def cut(near: Place, far: Place, way: str = BOTH, label: str = "one") -> Iterator[None]:
    """Packets between two are dropped without a word; connections look whole from both ends. Several cuts add up.

    `label` tells cuts of the same machine from each other.
    """
    table = f"inet cut-{label}"
    firewall(near, f"add table {table}")
    try:
        for hook, whom, ways in (("output", "daddr", (BOTH, THERE)), ("input", "saddr", (BOTH, BACK))):
            if way in ways:
                firewall(near, f"add chain {table} {hook} {{ type filter hook {hook} priority -300; policy accept; }}")
                firewall(near, f"add rule {table} {hook} ip {whom} {far.address} drop")
        yield
    finally:
        firewall(near, f"delete table {table}")
