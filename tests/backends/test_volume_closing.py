"""A file system that is let go of while a thread has it written through."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from hostler.backends import volumes
from hostler.backends.volumes import Volume


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Volume:
    monkeypatch.setattr(volumes, "_kind", lambda _device: "ext4")
    monkeypatch.setattr(volumes, "_tells", lambda: True)
    return Volume([str(tmp_path)])


def test_volume_closed_as_it_is_to_be_synced_syncs_no_other_descriptor(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`close` comes after `sync` has begun and before the system call."""
    synced = list[int]()

    def close_meanwhile() -> float:
        volume.close()
        return 0.0

    monkeypatch.setattr(volumes, "_waiting_bytes", close_meanwhile)
    monkeypatch.setattr(volumes.ctypes, "CDLL", lambda *_, **__: SimpleNamespace(syncfs=synced.append))
    assert not volume.sync()
    assert synced == []


def test_volume_closed_during_its_sync_is_synced_to_the_end(
    volume: Volume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[bool]()

    def syncfs(folder: int) -> int:
        volume.close()
        synced.append(os.path.samestat(os.fstat(folder), tmp_path.stat()))
        return 0

    monkeypatch.setattr(volumes, "_waiting_bytes", lambda: 0.0)
    monkeypatch.setattr(volumes.ctypes, "CDLL", lambda *_, **__: SimpleNamespace(syncfs=syncfs))
    assert volume.sync()
    assert synced == [True]
    volume.close()
