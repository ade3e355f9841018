"""Is what is written on one node read on all others? And does each store keep what it is given?"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hostler.model.errors import FilesError, LinkError
from hostler.runtime.preflight.asking import in_words, on_each
from hostler.runtime.preflight.proof import Proof, error, ok, unknown
from hostler.runtime.preflight.seam import RayCluster
from hostler.stores.base import ObjectName, Store, at_once
from hostler.workloads.gameboy import reaching

PROGRAM = ("{python}", "-m", "hostler.workloads.gameboy.reaching")
PROBE_BYTES = 4096
SUFFIX = ".probe"
TRIES, BETWEEN_S = 5, 1.0
"""Over NFS it takes some seconds until one machine sees what another one has written."""
LISTED = 5


async def prove_folder(folder: Path, cluster: RayCluster | None) -> Proof:
    """The folder of the checkpoints, from every node of a Ray cluster; nothing is left in it."""
    if cluster is None:
        return unknown("store", f"{folder}: nothing here can ask the nodes", "look from a node of the cluster")
    try:
        nodes = [each.name for each in await cluster.machines()]
        return await _everywhere(cluster, str(folder), nodes)
    except LinkError as fault:
        return error("store", "unreached", f"{folder}: {fault}", "see that the cluster answers")


def prove_folder_here(folder: Path) -> Proof:
    """The same from this machine, where that is all there is. Waits for the disk."""
    try:
        same = reaching.keeps(folder)
    except OSError as fault:
        return error(
            "store", "unwritable", f"{folder}: {fault.strerror}", "make the folder, or have its rights changed"
        )
    if not same:
        return error("store", "damaged", f"{folder}: what is written reads otherwise", "replace its disk")
    return ok("store", f"{folder} can be written and read here")


def prove_store(name: str, store: Store) -> Proof:
    """A store of the fleet file: a small object is put there, read back, fetched, and deleted again. Waits for it."""
    content = secrets.token_bytes(PROBE_BYTES)
    given = ObjectName(hashlib.sha256(content).hexdigest(), SUFFIX)
    with TemporaryDirectory() as folder:
        source, back = Path(folder, "source"), Path(folder, "back")
        source.write_bytes(content)
        try:
            try:
                store.put(given, source, at_once)
                store.get(given, back, at_once)
            finally:
                store.delete(given)
        except LinkError as fault:
            return error("store", "unreached", f"{name}: {fault}", "see that it is there, and lets you in")
        except (FilesError, OSError) as fault:
            return error("store", "unwritable", f"{name}: {fault}", "see its rights, its room, and its disk")
        if back.read_bytes() != content:
            return error("store", "damaged", f"{name}: what came back is not what was put there", "replace its disk")
    return ok("store", f"{name} keeps what it is given")


async def _everywhere(cluster: RayCluster, folder: str, nodes: Sequence[str]) -> Proof:
    """Each writes, then each reads what all have written."""
    token, who = secrets.token_hex(8), nodes
    try:
        wrote = await on_each(cluster, nodes, lambda node: (*PROGRAM, "write", folder, token, node))
        failed = {node: str(told["error"]) for node, told in wrote.items() if "error" in told}
        if failed:
            fix = "mount it there, under the same path, for the user that Ray runs as"
            return error("store", "unwritable", f"cannot be written: {in_words(failed)}", fix)
        blind = await _blind(cluster, folder, token, nodes)
        who = nodes if blind else nodes[:1]  # one sees the files of all
    finally:
        await on_each(cluster, who, lambda node: (*PROGRAM, "clean", folder, token, *nodes))
    if blind:
        fix = "it is another folder on each of them: share one (NFS, a volume that many may write), or use one node"
        return error("store", "apart", f"{folder} is not the same everywhere: {in_words(blind)}", fix)
    return ok("store", f"{folder}: what each of {len(nodes)} nodes writes, all of them read")


async def _blind(cluster: RayCluster, folder: str, token: str, nodes: Sequence[str]) -> Mapping[str, str]:
    """Who does not see what others wrote, after some tries; who has seen it all is not asked again."""
    blind: dict[str, str] = {}
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(BETWEEN_S)
        asked = list(blind) or nodes
        told = await on_each(cluster, asked, lambda node: (*PROGRAM, "read", folder, token, *nodes))
        blind = {}
        for node, answer in told.items():
            missing = [each for each in nodes if each not in answer.get("read", ())]
            if missing:
                blind[node] = str(answer.get("error") or f"does not see what {' '.join(missing[:LISTED])} wrote")
        if not blind:
            break
    return blind
