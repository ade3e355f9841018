"""A survey of what there is to run work on: this machine, hosts of the ssh configuration, Slurm, Ray."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from difflib import get_close_matches
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from hostler.backends.base import Store
from hostler.backends.local import LocalNode
from hostler.backends.slurm.parsing import NODE_FORMAT, Gres, NodeRow, node_rows
from hostler.model.errors import LinkError, SettingsError, UsageError
from hostler.settings.drafting import FoundGpu, FoundHere, FoundHost, FoundPartition, FoundRay
from hostler.settings.importing import imported, is_node_name, read
from hostler.settings.importing.sources import own_config

HERE = "here"
SINFO_S = 20.0
SINFO_MAX = 32 << 20
RAY_S = 2.0
REST_S = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Rests between tries to remove the folder of an agent."""
RAY_USUAL = "http://127.0.0.1:8265"
ANSWER_MAX = 1 << 16
STANDINGS = {"drain": "DRAIN", "inact": "INACTIVE", "down": "DOWN"}
"""How a partition may stand besides up, as `sinfo` shortens it, and as `scontrol` has it."""
NODES_SHOWN = 3
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
DESTINATION = re.compile(r"(?:(?P<user>[A-Za-z0-9_][^@\s]*)@)?(?P<host>[A-Za-z0-9:][A-Za-z0-9._:-]*)")

WITH_PORT = re.compile(r"(?:\[(?P<address>[^\[\]]*)\]|(?P<host>[^:\[\]]*):(?=[0-9]))(?::?(?P<port>[0-9]{1,6}))?")
PORT_MOST = 65535

Note = Callable[[str], None]
"""Called with what did not answer, in words for the one who asked."""


class Hosts(NamedTuple):
    """Hosts of the user's ssh configuration."""

    known: Mapping[str, dict[str, object]]
    """The node that each becomes, by its name."""


def this_machine() -> FoundHere:
    """The CPUs and GPUs that the agent of this machine finds. Raises `LinkError` where it cannot be started."""
    folder = Path(tempfile.mkdtemp(prefix="hostler-init-"))
    try:
        return asyncio.run(_this_machine(folder))
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove the folder of an agent that is ending: the last of its processes may write there once more."""
    for rest_s in REST_S:
        try:
            shutil.rmtree(folder)
        except OSError:
            time.sleep(rest_s)
        else:
            return
    shutil.rmtree(folder, ignore_errors=True)


async def _this_machine(folder: Path) -> FoundHere:
    store = Store(results=folder / "results", artifacts=folder / "artifacts")
    node = LocalNode(HERE, folder / "agent", controller="init", store=store)
    channel = await node.connect(1)
    try:
        answer, _ = await channel.ask_first({"type": "probe"})
        await channel.send({"type": "shutdown", "when": "idle"})
        with suppress(LinkError):
            async for _ in channel.messages():
                pass  # until it has ended: its folder is removed then
    finally:
        channel.close()
    facts = answer["facts"]
    devices = facts["devices"]
    gpus = None if devices is None else [FoundGpu(each["index"], each["model"], each["vram_bytes"]) for each in devices]
    return FoundHere(facts["cpus"], gpus)


def ssh_hosts(note: Note) -> Hosts:
    """The hosts of `~/.ssh/config`; none where there is none, or it cannot be read."""
    path = own_config()
    if not path.is_file():
        return Hosts({})
    try:
        _, listing = read(path, "ssh")
    except SettingsError as error:
        note(f"your ssh configuration was not read: {error}")
        return Hosts({})
    return Hosts({str(node["name"]): dict(node) for node in imported(listing).nodes})


def chosen_hosts(words: Sequence[str], hosts: Hosts, taken: set[str], option: str = "--ssh ") -> list[FoundHost]:
    """The nodes of hosts that were named: those of the ssh configuration, or `[USER@]HOST`. Raises `UsageError`.

    `taken` are the names of other nodes; those of these are added. A node of another name keeps its host.
    `option` stands before a word in errors, where it was typed behind one.
    """
    found = []
    for word in dict.fromkeys(words):
        node = hosts.known.get(word) or _destination(word, hosts, option)
        name = str(node["name"])
        made = free(name, taken)
        renamed = {} if made == name else {"host": node.get("host", word)}
        found.append(FoundHost(word, {**node, "name": made, **renamed}))
    return found


def partitions(note: Note, taken: set[str]) -> list[FoundPartition]:
    """The partitions of a Slurm cluster; none where there is no `sinfo` here, or it does not answer."""
    program = shutil.which("sinfo")
    if program is None:
        return []
    said = _said(program, note)
    if said is None:
        return []
    read = node_rows(said)
    if read.unread:
        note(f"sinfo printed {len(read.unread)} lines that were not understood, such as {read.unread[0][:60]!a}")
    by_name: dict[str, list[NodeRow]] = {}
    for row in read.rows:
        by_name.setdefault(row.partition, []).append(row)
    return [_partition(name, rows, taken) for name, rows in by_name.items()]


def ray_cluster(environ: Mapping[str, str]) -> FoundRay | None:
    """The Ray cluster whose dashboard answers: that of `$RAY_API_SERVER_ADDRESS` or `$RAY_ADDRESS`, or the one here."""
    given = [environ.get(name, "") for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")]
    address = next((each for each in given if each.startswith("http://")), RAY_USUAL).rstrip("/")
    try:
        parts = urlsplit(address)
        if parts.hostname is None or parts.username is not None:
            return None
        told = json.loads(_version(parts.hostname, parts.port or 80))
        version = told["ray_version"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None
    return FoundRay(address, version if isinstance(version, str) else None, _is_own(parts.hostname))


def _version(host: str, port: int) -> bytes:
    """What a dashboard answers, within `RAY_S` in all. Raises `OSError` and others where it does not."""
    ends_at = time.monotonic() + RAY_S
    with closing(HTTPConnection(host, port, timeout=RAY_S)) as connection:
        connection.request("GET", "/api/version")
        answer = connection.getresponse()
        if answer.status != HTTPStatus.OK:
            raise ValueError(f"its status is {answer.status}")
        told = b""
        while piece := answer.read1(ANSWER_MAX):
            told += piece
            if len(told) > ANSWER_MAX or time.monotonic() > ends_at:
                raise ValueError("it answers too slowly, or too much")
        return told


def _is_own(host: str) -> bool:
    """Whether a host is this machine: one of its own addresses can be listened on."""
    if host in LOOPBACK:
        return True
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            try:
                probe.bind(address)
            except OSError:
                continue
            return True
    return False


def _said(program: str, note: Note) -> str | None:
    """What sinfo prints, at most `SINFO_MAX` bytes within `SINFO_S`; `None` where it does not answer so."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                [program, "-h", "-N", "--all", "-O", NODE_FORMAT], stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        except OSError as error:
            note(f"sinfo is here and cannot be started: {error.strerror}")
            return None
        ends_at = time.monotonic() + SINFO_S
        while process.poll() is None:
            if time.monotonic() > ends_at or os.fstat(out.fileno()).st_size > SINFO_MAX:
                process.kill()
                process.wait()
                note(f"sinfo is here and gave no answer of at most {SINFO_MAX >> 20} MiB within {SINFO_S:g} s")
                return None
            time.sleep(0.02)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            first = err.read(4096).decode(errors="replace").strip().splitlines()[:1]
            note(f"sinfo is here and did not answer: {first[0] if first else f'exit status {process.returncode}'}")
            return None
        return out.read(SINFO_MAX).decode(errors="replace")


def usual_shared_root() -> str:
    """The folder that the nodes of a cluster mostly share: the home of its user."""
    return os.path.expanduser("~")


def _port_apart(word: str) -> tuple[str, str | None]:
    """A destination and its port: of `HOST:PORT` or `[ADDRESS]:PORT`; an address with more colons has none."""
    user, sign, host = word.rpartition("@")
    match = WITH_PORT.fullmatch(host)
    if match is None:
        return word, None
    return f"{user}{sign}{match['address'] or match['host']}", match["port"]


def _destination(word: str, hosts: Hosts, option: str) -> dict[str, object]:
    """The node of `[USER@]HOST`. Raises `UsageError` where the word is neither that nor like a known host."""
    close = get_close_matches(word, hosts.known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    destination, port = _port_apart(word)
    match = DESTINATION.fullmatch(destination)
    is_address = match is not None and (match["user"] is not None or "." in match["host"] or ":" in match["host"])
    is_address = is_address and match is not None and match["host"].count(":") != 1
    if match is None or not is_address:
        raise UsageError(
            f"{option}{word!r} is not a host of your ssh configuration ({own_config()}){hint}. "
            "Give a host of it, or USER@ADDRESS"
        )
    if port is not None and not 1 <= int(port) <= PORT_MOST:
        raise UsageError(f"{option}{word!r} has the port {port}; give one from 1 to {PORT_MOST}")
    host = match["host"]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", host).lstrip("._-") or "host"
    node: dict[str, object] = {"name": name, "backend": "ssh", "host": host}
    if port is not None:
        node["port"] = int(port)
    return node if match["user"] is None else {**node, "user": match["user"]}


def _partition(name: str, rows: Sequence[NodeRow], taken: set[str]) -> FoundPartition:
    made = free(name if is_node_name(name) else re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-") or "part", taken)
    node: dict[str, object] = {"name": made, **({"partition": name} if made != name else {}), "class": "cluster"}
    gpus = Counter[str]()
    for row in rows:
        for each in filter(_is_gpu, row.gres):
            gpus[each.type or "gpu"] += each.count
    away = [row for row in rows if not row.usable]
    words = [f"{count} x {kind}" for kind, count in gpus.items()]
    return FoundPartition(name, len(rows), words, node, _why_not(rows, away), len(away))


def _why_not(rows: Sequence[NodeRow], away: Sequence[NodeRow]) -> str | None:
    """Why no job can start in a partition with these nodes, of which some are away; `None` where one can."""
    available = rows[0].available.lower()
    if available != "up":
        return f"the partition is {STANDINGS.get(available, available)}"
    if len(away) < len(rows):
        return None
    shown = [f"{row.node} is {row.state}{f' ({row.reason})' if row.reason else ''}" for row in away[:NODES_SHOWN]]
    more = f", and {len(away) - NODES_SHOWN} more" if len(away) > NODES_SHOWN else ""
    return ", ".join(shown) + more


def _is_gpu(gres: Gres) -> bool:
    return gres.kind == "gpu"


def free(name: str, taken: set[str]) -> str:
    """A name that no other node has, which is taken then."""
    made, number = name, 2
    while made in taken:
        made, number = f"{name}-{number}", number + 1
    taken.add(made)
    return made
