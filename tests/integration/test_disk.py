"""A full disk: said, waited out, and nothing that was confirmed is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.conftest import Fleet, Hostler, Said, a_fleet, small_disk, until

PAD = "x" * 100_000


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with small_disk(tmp_path_factory.mktemp("small") / "disk", "24m") as made:
        yield made


SMALL = {"targets": {"disk_free_gb": 0, "disk_roomy_gb": 0, "disk_full_within_s": 1}}
"""So small a disk would be critical from the first."""


def fill(disk: Path) -> Path:
    """Leave no byte on it; returns the file that does."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        # Whoever works there may delete something meanwhile, such as a log of the journal: then it is filled again.
        while os.statvfs(disk).f_bavail >= 16:
            with suppress(OSError):
                while True:
                    file.write(b"\0" * 65536)
    return ballast


def submitted_until_full(fleet: Fleet, hostler: Hostler) -> tuple[list[str], Said]:
    """Submit large jobs until one is refused: the ids that were confirmed, and the refusal."""
    confirmed: list[str] = []
    for _ in range(200):
        said = hostler(fleet, "submit", "--own-dir", "--key", f"k{len(confirmed)}", "--", "true", PAD)
        if said.status != 0:
            return confirmed, said
        confirmed.append(said.out.strip())
    raise AssertionError("the disk does not become full")


@pytest.mark.long
def test_a_full_disk_is_waited_out(disk: Path, tmp_path: Path, hostler: Hostler) -> None:
    with a_fleet(tmp_path, state=disk / "state", scheduling=SMALL) as fleet:
        fleet.start()
        first = fleet.script("true", key="first")
        assert fleet.over(first)["job"]["state"] == "done"
        ballast = fill(disk)
        confirmed, said = submitted_until_full(fleet, hostler)
        assert (said.status, said.out) == (1, "")
        assert "the disk is full. Free some space" in said.err
        assert fleet.controller is not None
        assert fleet.controller.poll() is None, fleet.log()
        assert hostler(fleet, "status").status == 0, "it still answers"
        assert "disk is full" in fleet.log(), "the controller says so, too"
        ballast.unlink()
        until(lambda: "over: the journal" in fleet.log(), "the word that it goes on", log=fleet.log)
        late = fleet.script("true", key="later")
        for job in (*confirmed, late):
            assert fleet.over(job)["job"]["state"] == "done"
        refused = f"k{len(confirmed)}"
        assert fleet.over(refused)["job"]["state"] == "done", "taken, and now done"
        fleet.kill()
        fleet.start()
        assert {fleet.job(job)["state"] for job in (first, *confirmed, late, refused)} == {"done"}


def test_a_controller_does_not_start_on_a_full_disk(disk: Path, tmp_path: Path, hostler: Hostler) -> None:
    with a_fleet(tmp_path, state=disk / "other") as fleet:
        words = ("up", "--state-dir", str(fleet.state), "--port", "0", "--until-idle", str(fleet.file))
        ballast = fill(disk)
        said = hostler(fleet, *words)
        assert said.status == 1
        assert "Traceback" not in said.err
        assert "space" in said.err, said.err
        ballast.unlink()
        assert hostler(fleet, *words).status == 0
