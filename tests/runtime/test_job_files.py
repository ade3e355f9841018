"""Removal of job snapshots by a controller."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostler.model.codec import digest
from hostler.model.inputs import Cancel
from hostler.model.work import JobSpec, ScriptPayload, SweepPayload
from hostler.runtime.job_files import SnapshotPruner, needed
from hostler.runtime.statedir import StateDir
from hostler.snapshots.store import SnapshotStore
from tests.backends.fake import FakeNode
from tests.runtime.conftest import running, submit
from tests.snapshots.kept import kept

pytestmark = pytest.mark.anyio


def script(snapshot: str) -> ScriptPayload:
    return ScriptPayload(schema=1, argv=("true",), snapshot=snapshot)


def sweep(snapshot: str) -> SweepPayload:
    return SweepPayload(schema=1, start=0, stop=9, worker=("w",), params={}, digest=digest({}), snapshot=snapshot)


async def test_snapshot_of_a_job_that_waits_is_kept_and_others_go(directory: StateDir, tmp_path: Path) -> None:
    store = SnapshotStore(directory.snapshots)
    digests = []
    for text in ("1", "2", "3", "4"):
        (tmp_path / "f").write_text(text)
        digests.append(kept(store, tmp_path))
    first, second, third, fourth = digests
    async with running(directory, FakeNode(slots=0)) as controller:
        payloads: list[ScriptPayload | SweepPayload] = [script(first), script(second), sweep(third), sweep(fourth)]
        one, two, search, cancelled = await submit(
            controller, *(JobSpec(name="job", payload=each) for each in payloads)
        )
        for job in (two, cancelled):
            await controller.tell(Cancel(job=job))
        assert needed(controller._core) == {first, third}
        for path in directory.snapshots.rglob("*"):
            os.utime(path, (1e9, 1e9))
        await SnapshotPruner(controller._core, store).look()
        names = {path.name for path in (directory.snapshots / "manifests").iterdir()}
    assert names == {first, third}
    assert len({one, two, search, cancelled}) == 4
