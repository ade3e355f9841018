"""What keeps a node behind SSH from work, or slows it down, each with what to do about it. Changes nothing there."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import asyncssh

from hostler.backends.selection import NO_CHOICE, Selection, selected
from hostler.backends.ssh.bootstrap import Talk, command, program
from hostler.backends.ssh.network import Network
from hostler.backends.ssh.target import Target
from hostler.backends.ssh.trust import HostKey
from hostler.model.errors import LinkError, LinkRefused

Health: TypeAlias = Literal["good", "slow", "bad"]
"""`slow`: it works, and would work better."""

LOOK_S = 60.0
SHELL_S = 2.0
"""A shell that takes longer until it runs a program does much that only people need."""
SKEW_S = 5.0
SPACE_BYTES = 2 << 30
OLDEST = (3, 8)
LISTED = re.compile(r"^GPU ([0-9]{1,4}): .*\(UUID: ([0-9A-Za-z/-]{1,100})\)", re.MULTILINE)
"""A card in the answer of `nvidia-smi -L`."""
MAKERS = {"0x10de": "NVIDIA", "0x1002": "AMD"}


class Finding(NamedTuple):
    """One thing about one node."""

    node: str
    what: str
    """`ssh`, `shell`, `python`, `folder`, `space`, `clock`, `gpu` or `rsync`."""
    health: Health
    says: str
    fix: str = ""
    """What to do; empty where all is well."""


async def examine(
    network: Network, node: str, target: Target, *, python: str, folder: str, selection: Selection = NO_CHOICE
) -> list[Finding]:
    """Everything there is to say of a node; of one that cannot be reached, or runs no Python, that alone."""
    begin = time.monotonic()
    try:
        connection = await network.connect(target)
    except LinkError as error:
        return [await unreached(network, node, target, error)]
    connected = Finding(node, "ssh", "good", f"connected in {time.monotonic() - begin:.1f} s")
    try:
        async with asyncio.timeout(LOOK_S):
            found = await _look(connection, node, python, folder)
    except LinkError as error:
        return [connected, Finding(node, "python", "bad", f"{python} does not run", str(error))]
    except TimeoutError:
        fix = "time `ssh NODE true`; move what only people need in its start-up files behind a test for a terminal"
        return [connected, Finding(node, "shell", "bad", f"no program ran within {LOOK_S:g} s", fix)]
    except (OSError, asyncssh.Error) as error:
        return [connected, Finding(node, "ssh", "bad", f"the connection broke: {error}", "try again")]
    finally:
        connection.close()
    return [connected, *_findings(node, found, selection)]


async def unreached(network: Network, node: str, target: Target, error: LinkError) -> Finding:
    """Why nobody could connect; of a host on the way whose key is not known, with the fingerprint to compare."""
    found = await _stranger(network, target) if isinstance(error, LinkRefused) else None
    if found is None:
        return Finding(node, "ssh", "bad", "cannot be connected to", str(error))
    fix = (
        f"compare that with what `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` prints on {found.host} itself, or "
        f"with what its owner tells you; if it is the same, accept it: `hostler node trust FLEET {node}`"
    )
    return Finding(node, "ssh", "bad", f"the host key of {found.host} is not known: {found.fingerprint}", fix)


async def _stranger(network: Network, target: Target) -> HostKey | None:
    """The first host key on the way to a target that is not known, if that is what is wrong."""
    try:
        for hop in (*network.jumps(target), target):
            found = await network.host_key(hop)
            if network.known(found) is False:
                return found
    except LinkError:  # something else is wrong: what was told first stands
        pass
    return None


async def _look(connection: asyncssh.SSHClientConnection, node: str, python: str, folder: str) -> dict[str, Any]:
    """What `look.py` tells, with how long the shell took, what it printed, and how far the clocks are apart."""
    begin, called_at = time.monotonic(), time.time()
    async with connection.create_process(command(python), encoding=None) as process:
        with_node = Talk(process, node, python)
        await with_node.say(*program("look.py"), json.dumps({"dir": folder}).encode() + b"\n")
        found = await with_node.hear()
        took_s = time.monotonic() - begin
        tools_s = sum(each["seconds"] for each in found["gpus"])
        # It read its clock once the shell and the interpreter were up: nobody knows when exactly in between.
        early, late = found["now"] - called_at, found["now"] - (called_at + took_s - tools_s)
        skew_s = 0.0 if early >= 0 >= late else min(early, late, key=abs)
        return {**found, "shell_s": took_s - tools_s, "skew_s": skew_s, "noise": with_node.noise}


def _findings(node: str, found: dict[str, Any], selection: Selection = NO_CHOICE) -> Iterator[Finding]:
    yield _shell(node, found)
    yield _python(node, found)
    yield from _folder(node, found)
    yield _clock(node, found)
    if not found["gpus"]:
        yield Finding(node, "gpu", "good", "none found")
    for maker in found["gpus"]:
        yield _gpus(node, maker)
        yield from _selection(node, maker, selection)
    if not found["rsync"]:
        fix = "have its owner install rsync; without it files travel by SFTP, which is slow for many small ones"
        yield Finding(node, "rsync", "slow", "there is none", fix)


def _shell(node: str, found: dict[str, Any]) -> Finding:
    took = f"runs a program within {found['shell_s']:.1f} s"
    if found["shell_s"] > SHELL_S:
        fix = "move what only people need in its start-up files (~/.bashrc) behind a test for a terminal: [ -t 1 ]"
        return Finding(node, "shell", "slow", took, fix)
    if found["noise"]:
        fix = "have its start-up files print to terminals only; rsync and others fail of such words"
        return Finding(node, "shell", "slow", f"prints {found['noise']} bytes before a program runs", fix)
    return Finding(node, "shell", "good", took)


def _python(node: str, found: dict[str, Any]) -> Finding:
    version = ".".join(map(str, found["python"]))
    if tuple(found["python"][:2]) < OLDEST:
        fix = "the agent needs 3.8 or newer; name another one in `python:`"
        return Finding(node, "python", "bad", f"{version} ({found['executable']})", fix)
    return Finding(node, "python", "good", f"{version} ({found['executable']})")


def _folder(node: str, found: dict[str, Any]) -> Iterator[Finding]:
    free = f"{found['free_bytes'] / 2**30:.1f} GiB free"
    if not found["writable"]:
        yield Finding(node, "folder", "bad", f"{found['dir']} cannot be written", "name another one in `dir:`")
    elif found["free_bytes"] < SPACE_BYTES:
        fix = f"clear {SPACE_BYTES >> 30} GiB there, or name a folder of another disk in `dir:`"
        yield Finding(node, "space", "bad", f"{free} for {found['dir']}", fix)
    else:
        yield Finding(node, "space", "good", f"{free} for {found['dir']}")


def _clock(node: str, found: dict[str, Any]) -> Finding:
    if abs(found["skew_s"]) <= SKEW_S:
        return Finding(node, "clock", "good", f"right within {SKEW_S:g} s")
    way = "fast" if found["skew_s"] > 0 else "slow"
    fix = "have it ask a time server (timedatectl set-ntp true); times of its events are wrong until then"
    return Finding(node, "clock", "slow", f"{abs(found['skew_s']):.0f} s {way}", fix)


def _gpus(node: str, maker: dict[str, Any]) -> Finding:
    name, tool = MAKERS[maker["vendor"]], maker["tool"]
    if tool is None:
        fix = f"install {name}'s driver and tools; until then the node is used without its GPUs"
        return Finding(node, "gpu", "bad", f"{maker['cards']} of {name}, no driver", fix)
    if maker["status"] != 0:
        said = " ".join(str(maker["said"]).split())[:200]
        fix = f"run {tool} there: until it answers the node is used without its GPUs (reload the driver, or reboot)"
        return Finding(node, "gpu", "bad", f"{tool} fails: {said}", fix)
    cards = f"{maker['cards']} of {name}, " if maker["cards"] else ""
    return Finding(node, "gpu", "good", f"{cards}{tool} answers in {maker['seconds']:.1f} s")


def _selection(node: str, maker: dict[str, Any], selection: Selection) -> Iterator[Finding]:
    """Entries of `gpus.only` and `gpus.exclude` that name no card; those of AMD are left to the agent's own report."""
    if MAKERS[maker["vendor"]] != "NVIDIA" or maker["status"] != 0:
        return
    cards = [{"index": int(index), "uuid": uuid} for index, uuid in LISTED.findall(str(maker["said"]))]
    for fault in selected(node, cards, selection).faults if cards else ():
        yield Finding(node, "gpu", "bad", fault, "correct `gpus` of the node in the fleet file")
