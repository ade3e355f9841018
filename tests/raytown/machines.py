"""A Ray cluster on this machine, run by a Python that has Ray: one head and some nodes. Told by lines what to do.

``machines.py PORT AGENT_PORT CPUS[/GPUS] ...``, ports of the dashboard and its agent, the GPUs made up; commands:
``kill N`` (by SIGKILL), ``add CPUS``, ``apart CPUS FOLDER`` (a node that has another folder of that path), ``quit``.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

NEW_MOUNTS, RECURSIVE, PRIVATE = 0x20000, 0x4000, 0x40000
"""Of Linux: CLONE_NEWNS, MS_REC, MS_PRIVATE."""
STORE = 80 * 1024**2


def main() -> None:
    """Until told to quit, or until nobody is there to tell."""
    from ray.cluster_utils import Cluster  # type: ignore[import-not-found]

    port, agent_port, machines = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    head: dict[str, Any] = {"num_cpus": 0, "num_gpus": 0, "object_store_memory": STORE}
    head |= {"include_dashboard": True, "include_log_monitor": False}  # nobody reads what it would pass on
    dashboard = {"dashboard_host": "127.0.0.1", "dashboard_port": port, "dashboard_agent_listen_port": agent_port}
    cluster = Cluster(initialize_head=True, head_node_args={**head, **dashboard})
    nodes = [add(cluster, at, count) for at, count in enumerate(machines)]
    say(up=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "quit":
            break
        if word == "kill":
            cluster.remove_node(nodes[int(rest[0])], allow_graceful=False)
        elif word == "add":
            nodes.append(add(cluster, len(nodes), rest[0]))
        elif word == "apart":
            nodes.append(add_apart(cluster, len(nodes), *rest))
        say(done=word)
    cluster.shutdown()


def add(cluster: Any, at: int, has: str) -> Any:
    """A node, with a label of its own."""
    cpus, _, gpus = has.partition("/")
    given = {"num_cpus": int(cpus), "num_gpus": int(gpus or 0), "labels": {"place": f"p{at}"}}
    return cluster.add_node(**given, object_store_memory=STORE)


def add_apart(cluster: Any, at: int, has: str, folder: str) -> Any:
    """A node that sees an empty file system of its own in a folder: mounts are a thread's, and of who it begins."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/mnt") as before:
        steps = (
            libc.unshare(NEW_MOUNTS),
            libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None),
            libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, None),
        )
        try:
            if any(steps):
                raise OSError(ctypes.get_errno(), f"{folder} cannot be set apart")
            return add(cluster, at, has)
        finally:
            libc.setns(before.fileno(), 0)


def say(**words: Any) -> None:
    """One line for whoever started this."""
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()
