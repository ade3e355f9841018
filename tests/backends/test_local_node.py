"""The agent of this machine: what is put into its folder before it is started."""

from __future__ import annotations

import asyncio
import errno
import marshal
import os
import signal
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from hostler.agent import compiled
from hostler.backends.base import Store
from hostler.backends.local import LocalNode, node as local
from hostler.model.commands import ChunkOrder, WorkerOrder
from hostler.model.errors import FilesError
from hostler.snapshots.store import SnapshotStore


def read(zipapp: Path) -> tuple[dict[str, bytes], dict[str, object]]:
    """The sources in a zipapp, and the code objects of what is compiled in it, by file name."""
    with zipfile.ZipFile(zipapp) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    codes = {name: marshal.loads(data[16:]) for name, data in files.items() if name.endswith(".pyc")}
    return {name: data for name, data in files.items() if name not in codes}, codes


async def connected(folder: Path, python: str = sys.executable) -> Path:
    """Where the agent lies that was started, and has been ended again."""
    store = Store(results=folder / "results", artifacts=folder / "artifacts")
    node = LocalNode("here", folder / "here", controller="c", store=store, cpu_slots=1, gpus=False, python=python)
    channel = await node.connect(1)
    channel.close()
    (path,) = (folder / "here" / "code").glob("*/agent.pyz")
    agents = [each for each in processes() if str(path) in words(each)]
    assert agents
    for each in agents:
        with suppress(ProcessLookupError):  # one of them ends with the other
            os.kill(each, signal.SIGTERM)
    return path


def processes() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def words(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return []


async def test_local_agent_starts_from_code_that_is_compiled(tmp_path: Path) -> None:
    path = await connected(tmp_path)
    sources, codes = await asyncio.to_thread(read, Path(compiled.path_of(str(path))))
    assert sources == (await asyncio.to_thread(read, path))[0], "the sources differ"
    modules = [name for name in sources if name.endswith(".py")]
    assert sorted(codes) == sorted(f"{name}c" for name in modules)
    # Compared as code: its bytes depend on which of its strings are used elsewhere in the process that writes them.
    stale = [
        name
        for name in modules
        if codes[f"{name}c"] != compile(sources[name], f"agent.pyz/{name}", "exec", dont_inherit=True)
    ]
    assert stale == []


async def test_agent_of_another_python_is_left_to_compile_itself(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    path = await connected(tmp_path, str(other))
    assert list(path.parent.iterdir()) == [path]


async def test_local_agent_starts_where_compiled_code_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(local, "compiled_zipapp", full)
    path = await connected(tmp_path)
    assert list(path.parent.iterdir()) == [path]


def worker(snapshot: str) -> WorkerOrder:
    return WorkerOrder(
        id="w-j1-here-cpu0", queue="cpu0", argv=("true",), env={}, digest="d", params={}, silence_s=1.0, start_s=1.0,
        snapshot=snapshot, sweep="j1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "is_refused"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (OSError(errno.ENAMETOOLONG, "File name too long"), True),
        (FilesError("a content is damaged"), True),
    ],
)
async def test_worker_whose_snapshot_cannot_be_laid_out_is_refused_unless_that_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, is_refused: bool
) -> None:
    def lay_out(self: SnapshotStore, digest: str, target: Path) -> None:
        raise fault

    monkeypatch.setattr(SnapshotStore, "lay_out", lay_out)
    store = Store(results=tmp_path / "results", artifacts=tmp_path / "artifacts")
    node = LocalNode("here", tmp_path / "here", controller="c", store=store, cpu_slots=1, gpus=False)
    chunk = ChunkOrder(id="j1.1", start=0, stop=1)
    if is_refused:
        (refused,) = await node.lend(worker("ab" * 32), [chunk])
        assert (refused.worker, str(fault) in refused.error) == ("w-j1-here-cpu0", True)
    else:
        with pytest.raises(OSError, match="No space left"):
            await node.lend(worker("ab" * 32), [chunk])


async def test_unused_environments_of_this_machine_are_removed_and_others_stay(tmp_path: Path) -> None:
    store = Store(results=tmp_path / "results", artifacts=tmp_path / "artifacts")
    node = LocalNode("here", tmp_path / "here", controller="c", store=store, cpu_slots=1, gpus=False)
    root = tmp_path / "here" / "environments"
    for key, age_s in {"old": 7200.0, "used": 60.0}.items():
        (root / key / "env" / "bin").mkdir(parents=True)
        marked = root / key / "complete"
        marked.touch()
        os.utime(marked, (time.time() - age_s,) * 2)
    removed = await node.drop_environments(1 << 50, unused_s=3600.0)
    assert (list(removed.gone), removed.left) == (["old"], {})
    assert removed.free_bytes > 0
    assert sorted(each.name for each in root.iterdir() if each.suffix != ".lock") == ["used"]
