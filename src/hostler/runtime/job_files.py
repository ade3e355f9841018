"""Removal of snapshots, and of values of secrets that came with submissions, which no job needs any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hostler.core import Core
from hostler.model.work import SweepPayload, snapshot_of
from hostler.runtime.clock import Clock
from hostler.runtime.loops import every
from hostler.runtime.vault import Vault
from hostler.snapshots.store import SnapshotStore

LOOK_S = 3600.0
TURN_S = 900.0
UNUSED_S = 30 * 86_400.0
"""Snapshots of jobs that are over are kept for so long after their last use: such a job may be tried again."""


class SnapshotPruner:
    """Deletes snapshots once no job that is not over names them and none has used them for `UNUSED_S`."""

    def __init__(self, core: Core, store: SnapshotStore) -> None:
        self._core = core
        self._store = store

    async def run(self, clock: Clock, on_failure: Callable[[str, str], None]) -> None:
        """Look once an hour, until cancelled."""
        await every(LOOK_S, "snapshots of jobs", self.look, clock=clock, timeout_s=TURN_S, on_failure=on_failure)

    async def look(self) -> None:
        """One turn of it."""
        await asyncio.to_thread(self._store.prune, needed(self._core), UNUSED_S)


def needed(core: Core) -> set[str]:
    """The digests of the snapshots that jobs need which are not over."""
    found = (snapshot_of(job.spec.payload) for job in core.state.jobs.values() if not job.state.final)
    return {digest for digest in found if digest is not None}


class SecretPruner:
    """Deletes values that came with submissions, once no job that the core knows names them and none has used them."""

    def __init__(self, core: Core, vault: Vault) -> None:
        self._core = core
        self._vault = vault

    async def run(self, clock: Clock, on_failure: Callable[[str, str], None]) -> None:
        """Look once an hour, until cancelled."""
        await every(LOOK_S, "secrets of jobs", self.look, clock=clock, timeout_s=TURN_S, on_failure=on_failure)

    async def look(self) -> None:
        """One turn of it."""
        await asyncio.to_thread(self._vault.prune, named(self._core))


def named(core: Core) -> set[str]:
    """The secrets that loops name, and jobs whatever their state: one that is over may be retried."""
    payloads = (job.spec.payload for job in core.state.jobs.values())
    found = {name for each in payloads if not isinstance(each, SweepPayload) for name in each.secrets.values()}
    loops = (config.spec for config in core.state.configs.values())
    stages = (part.stage for each in loops for part in (each.selfplay, each.export, each.training, each.evaluation))
    return found | {name for stage in stages for name in stage.secrets.values()}
