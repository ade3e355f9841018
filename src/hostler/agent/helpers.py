"""Connections for files: each is served by a process beside the supervisor, or by a guest who is let in."""

from __future__ import annotations

import os
import signal
from typing import List, Set

from . import compiled, environments, files, procs
from .connection import Connection
from .node import Node

_CLEAN_EVERY_S = 86400.0


class Helpers:
    """All of them. They belong to the connection of the controller that is there now, and end with it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._guests: Set[Connection] = set()
        self._cleans_at = 0.0
        self.pids: Set[int] = set()

    def serve(self, connection: Connection) -> None:
        """Give the connection to a process of its own: files take their time."""
        with connection.detach() as peer:
            streams = procs.Streams(peer.fileno(), os.devnull, self._node.path("agent.log"))
            env = {**self._node.environ, "PYTHONPATH": compiled.search_path(files.CODE)}
            try:
                command = files.command(self._node.directory)
                self.pids.add(procs.spawn(self._node.programs, command, env, "/", streams))
            except procs.SpawnError as error:
                self._node.complain("files cannot be sent or fetched: %s" % error)

    def clean_environments(self, in_use: List[str]) -> None:
        """Have Python environments removed that nothing has used for long, once a day at most."""
        root = self._node.path(environments.FOLDER)
        if self._node.loop.monotonic() < self._cleans_at or not os.path.isdir(root):
            return
        self._cleans_at = self._node.loop.monotonic() + _CLEAN_EVERY_S
        streams = procs.Streams(self._node.null, os.devnull, self._node.path("agent.log"))
        env = {**self._node.environ, "PYTHONPATH": compiled.search_path(files.CODE)}
        try:
            self.pids.add(procs.spawn(self._node.programs, environments.command(root, in_use), env, "/", streams))
        except procs.SpawnError as error:
            self._node.complain("unused Python environments cannot be removed: %s" % error)

    def let_in(self, guest: Connection) -> None:
        """This one's process serves itself, until it is hung up on."""
        self._guests.add(guest)

    def forget(self, guest: Connection) -> None:
        """It has hung up, if it was one."""
        self._guests.discard(guest)

    def end(self) -> None:
        """End those processes, and hang up on the guests."""
        for pid in self.pids:
            procs.signal_group(pid, signal.SIGTERM)
        for guest in self._guests:
            guest.close()
        self._guests.clear()
