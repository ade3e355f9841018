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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
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
RAY_S = 2.0
RAY_USUAL = "http://127.0.0.1:8265"
ANSWER_MAX = 1 << 16
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
DESTINATION = re.compile(r"(?:(?P<user>[A-Za-z0-9_][^@\s]*)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9._:-]*)")

Note = Callable[[str], None]
"""Called with what did not answer, in words for the one who asked."""


class Hosts(NamedTuple):
    """Hosts of the user's ssh configuration."""

    known: Mapping[str, dict[str, object]]
    """The node that each becomes, by its name."""


def this_machine() -> FoundHere:
    """The CPUs and GPUs that the agent of this machine finds. Raises `LinkError` where it cannot be started."""
    with tempfile.TemporaryDirectory(prefix="hostler-init-") as folder:
        return asyncio.run(_this_machine(Path(folder)))


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


def chosen_hosts(words: Sequence[str], hosts: Hosts) -> list[FoundHost]:
    """The nodes of hosts that were named: those of the ssh configuration, or `[USER@]HOST`. Raises `UsageError`."""
    taken = {HERE}
    found = []
    for word in dict.fromkeys(words):
        node = hosts.known.get(word) or _destination(word, hosts)
        found.append(FoundHost(word, {**node, "name": _free(str(node["name"]), taken)}))
    return found


def partitions(note: Note) -> list[FoundPartition]:
    """The partitions of a Slurm cluster; none where there is no `sinfo` here, or it does not answer."""
    program = shutil.which("sinfo")
    if program is None:
        return []
    try:
        ran = subprocess.run(
            [program, "-h", "-N", "--all", "-O", NODE_FORMAT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SINFO_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        first = said.decode(errors="replace").strip().splitlines()[:1]
        note(f"sinfo is here and did not answer: {first[0] if first else error}")
        return []
    by_name: dict[str, list[NodeRow]] = {}
    for row in node_rows(ran.stdout.decode(errors="replace")).rows:
        by_name.setdefault(row.partition, []).append(row)
    taken = {HERE}
    return [_partition(name, rows, taken) for name, rows in by_name.items()]


def ray_cluster(environ: Mapping[str, str]) -> FoundRay | None:
    """The Ray cluster whose dashboard answers: that of `$RAY_API_SERVER_ADDRESS` or `$RAY_ADDRESS`, or the one here."""
    given = [environ.get(name, "") for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")]
    address = next((each for each in given if each.startswith("http://")), RAY_USUAL).rstrip("/")
    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=RAY_S)
    try:
        connection.request("GET", "/api/version")
        told = json.loads(connection.getresponse().read(ANSWER_MAX))
        version = told["ray_version"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()
    is_here = parts.hostname in {*LOOPBACK, socket.gethostname()}
    return FoundRay(address, version if isinstance(version, str) else None, is_here)


def usual_shared_root() -> str:
    """The folder that the nodes of a cluster mostly share: the home of its user."""
    return os.path.expanduser("~")


def _destination(word: str, hosts: Hosts) -> dict[str, object]:
    """The node of `[USER@]HOST`. Raises `UsageError` where the word is neither that nor like a known host."""
    close = get_close_matches(word, hosts.known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    match = DESTINATION.fullmatch(word)
    is_address = match is not None and (match["user"] is not None or "." in match["host"] or ":" in match["host"])
    if match is None or not is_address:
        raise UsageError(
            f"--ssh {word!r} is not a host of your ssh configuration ({own_config()}){hint}. "
            "Give a host of it, or USER@ADDRESS"
        )
    host = match["host"]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", host)
    node: dict[str, object] = {"name": name, "backend": "ssh", "host": host}
    return node if match["user"] is None else {**node, "user": match["user"]}


def _partition(name: str, rows: Sequence[NodeRow], taken: set[str]) -> FoundPartition:
    made = _free(name if is_node_name(name) else re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-") or "part", taken)
    node: dict[str, object] = {"name": made, **({"partition": name} if made != name else {}), "class": "cluster"}
    gpus = Counter[str]()
    for row in rows:
        for each in filter(_is_gpu, row.gres):
            gpus[each.type or "gpu"] += each.count
    return FoundPartition(name, len(rows), [f"{count} x {kind}" for kind, count in gpus.items()], node)


def _is_gpu(gres: Gres) -> bool:
    return gres.kind == "gpu"


def _free(name: str, taken: set[str]) -> str:
    """A name that no other node has."""
    made, number = name, 2
    while made in taken:
        made, number = f"{name}-{number}", number + 1
    taken.add(made)
    return made
