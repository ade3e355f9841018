"""The supervisor's side of the step before attempts: which of them need it, and what came of it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Dict, Optional, Tuple

from . import compiled, files, procs, setup
from .node import Node
from .procs import Streams
from .protocol import AttemptSpec

_MOST_CHECKED = 1000

Checked = Tuple[str, ...]


class Setups:
    """Of all attempts of this agent. What was checked once for a snapshot is not checked again."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._checked: "OrderedDict[Checked, None]" = OrderedDict()
        self._pending: Dict[str, Checked] = {}

    def is_needed(self, spec: AttemptSpec, env: Dict[str, str]) -> bool:
        """Whether the attempt cannot be started at once."""
        if spec.setup is None:
            return False
        if spec.setup["file"] is not None or spec.setup["checked_as"] is None:
            return True
        checked = (spec.setup["checked_as"], env.get("PATH", ""), env.get("PYTHONPATH", ""), *spec.argv)
        if checked in self._checked:
            return False
        self._pending[spec.id] = checked
        return True

    def start(self, spec: AttemptSpec, env: Dict[str, str], folder: str, cgroup: str) -> int:
        """Start the step; returns the pid, which is that of the attempt's process later. Raises SpawnError, OSError.

        ``cgroup`` is where it goes when the attempt's process begins; empty: nowhere.
        """
        assert spec.setup is not None
        path = compiled.search_path(files.CODE)
        wanted = {**spec.setup, "build_s": spec.build_s}
        before = setup.command(path, wanted, self._node.directory, folder, cgroup)
        output = "%s/%s" % (folder, setup.STREAM)
        streams = Streams(self._node.null, output, output)
        return procs.spawn(self._node.programs, [*before, *spec.argv], env, spec.cwd or folder, streams)

    def forget(self, name: str) -> None:
        """The attempt has ended."""
        self._pending.pop(name, None)

    def verdict(self, spec: AttemptSpec, folder: str, code: Optional[int]) -> Tuple[Optional[str], Optional[str]]:
        """Reason and error of an attempt whose process has ended, if that was in this step."""
        checked = self._pending.get(spec.id)
        found = None if spec.setup is None else setup.outcome(folder)
        if found is None:
            if spec.setup is not None and setup.is_silent(folder, code):
                return setup.SPAWN, "the attempt could not be set up, and nothing could be written: is the disk full?"
            return None, None
        if found.reason is None and checked is not None:
            self._checked[checked] = None
            while len(self._checked) > _MOST_CHECKED:
                self._checked.popitem(last=False)
        return (found.reason, found.error) if code == setup.FAILED else (None, None)
