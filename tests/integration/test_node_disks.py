"""The artifact folder of a node behind a real SSH server is cleaned; what work needs there is sent again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.model.errors import LinkError, NotFound
from tests.backends.ssh import sshd
from tests.integration.conftest import PATIENCE_S, HostlerIn, Said, until
from tests.integration.loops import LOOP_PATIENCE_S, STAGES
from tests.integration.test_loop_commands import PROGRAM, own
from tests.integration.test_ssh import Far

pytestmark = [pytest.mark.long, pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")]
OLD_S = 5 * 3600.0
ANY_DISK_IS_FULL = {"disk_warning": 1e-6, "disk_clean": 2e-6, "disk_critical": 1.0, "disk_roomy_gb": 1e6}
SEGMENT, DATASET = ".segment.npz", ".dataset.npz"


class Rig(Far):
    """One node behind SSH, two more stores, and a loop that learns."""

    def settle(self, *work: str, **settings: Any) -> None:
        """Write the fleet file; the node does this work."""
        (server,) = self.servers
        shutil.copy(PROGRAM, self.folder / "own_loop.py")
        (self.folder / ".hostlerignore").write_text("/on-*\n/sshd-*\n/shelf\n/attic\n")
        config = {**own("mine"), "idle_after": {"promotions": 1}}
        for stage in STAGES:
            config[stage]["command"] = ["{python}", "own_loop.py", stage]
        node = {"name": "rig-0", "backend": "ssh", "host": "127.0.0.1", "port": server.port, "cpu_slots": 1}
        own_keys = {"identity": f"{server.folder}/client", "dir": f"{self.folder}/on-0", "work": list(work)}
        stores = []
        for name in ("shelf", "attic"):
            (self.folder / name).mkdir(exist_ok=True)
            stores.append({"name": name, "kind": "directory", "path": name, "domain": name, "reserve_gb": 0.0})
        fleet = {
            "name": "far",
            "state_dir": "state",
            "api": {"port": 0},
            "ssh": {"config": [], "known_hosts": [], "connect_s": PATIENCE_S},
            "nodes": [{**node, **own_keys}],
            "stores": stores,
            "configs": [config],
            "replication": {"dataset": {"copies": 2}},
            **settings,
        }
        (self.folder / "fleet.yaml").write_text(yaml.safe_dump(fleet))

    def begin(self, *options: str) -> subprocess.Popen[str]:
        """Start a controller, which goes on until it is stopped."""
        command = [sys.executable, "-m", "hostler.cli", "up", "fleet.yaml", *options]
        with (self.folder / "up.log").open("ab") as log:
            started = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, text=True, stdin=subprocess.DEVNULL
            )
        self.started.append(started)
        return started

    def dataset(self, **settings: Any) -> str:
        """A loop that has a dataset, with all of its copies, and may not train on it; a controller runs."""
        self.settle("training", **settings)
        assert self.hostler("node", "trust", "fleet.yaml", "--yes").status == 0
        self.begin()
        self.until(lambda: self.entries("config.model"), "the first model")
        self.stop()
        self.settle("selfplay", "export", "evaluation", **settings)
        self.begin()
        self.until(lambda: self.there(DATASET), "a dataset on the node")
        (dataset,) = self.there(DATASET)
        self.until(lambda: self.copied(dataset), "its copies")
        return dataset

    def told(self, *words: str) -> Said:
        """What the controller answers to a command."""
        return self.hostler(*words, "--state-dir", "state")

    def stop(self) -> None:
        """End the controller; the agent stays."""
        self.started[-1].kill()
        self.started[-1].wait()

    def entries(self, kind: str) -> list[dict[str, Any]]:
        """Events of a kind, as far as there is a controller."""
        with suppress(LinkError):
            found = [dict(each["event"]) for each in self.client.entries()]
            return [each for each in found if each["kind"] == kind]
        return []

    def there(self, ending: str) -> dict[str, Path]:
        """Artifacts of the node, by name."""
        found = (self.folder / "on-0").glob(f"*/*/artifacts/objects/*/*{ending}")
        return {path.name: path for path in found}

    def age(self) -> None:
        """All that lies there was not used for hours."""
        for path in self.there("").values():
            at = path.stat().st_mtime - OLD_S
            os.utime(path, (at, at))

    def until(self, true: Callable[[], object], what: str) -> None:
        until(true, what, LOOP_PATIENCE_S, lambda: (self.folder / "up.log").read_text()[-4000:])

    def copied(self, name: str) -> bool:
        """Whether an artifact is wherever it is wanted."""
        with suppress(LinkError, NotFound):
            return int(self.client.artifact(name[:64])["artifact"]["counted"]) >= 2
        return False


@pytest.fixture
def rig(tmp_path: Path, hostler_in: HostlerIn) -> Iterator[Rig]:
    with sshd.running(tmp_path / "sshd-0") as server:
        found = Rig(tmp_path, [server], hostler_in)
        yield found
        found.end()


def test_what_goes_from_a_node_is_sent_again_when_a_training_needs_it(rig: Rig) -> None:
    dataset = rig.dataset()
    rig.until(lambda: all(map(rig.copied, rig.there(SEGMENT))), "copies of all games")
    assert "nothing may go" in rig.told("disk", "plan", "--node", "rig-0").out, "all of it was used of late"

    rig.age()
    shown = rig.told("disk", "plan", "--node", "rig-0")
    assert (shown.status, shown.err) == (0, "")
    assert all(len(line) <= 80 for line in shown.out.splitlines())
    assert "cache" in shown.out
    assert "deleted" in rig.told("disk", "clean", "--node", "rig-0").out
    assert dataset in rig.there(DATASET), "nothing goes without a yes"
    done = rig.told("disk", "clean", "--node", "rig-0", "--yes")
    assert (done.status, done.err) == (0, "")
    assert "undo" not in done.out
    assert rig.there(DATASET) == {}
    (first, *_) = rig.entries("files.dropping")
    assert dataset in {each["path"].rpartition("/")[2] for each in first["files"]}
    assert all(len(each["proof"]) >= 2 for each in first["files"])
    assert rig.entries("files.dropped")[0]["node"] == "rig-0"
    assert "clean_disk" in rig.told("token", "audit").out
    wrong = rig.told("disk", "plan", "--node", "nobody")
    assert (wrong.status != 0, "hostler node list" in wrong.err) == (True, True)
    rig.stop()

    rig.settle(*STAGES)
    rig.begin("--until-idle")
    assert rig.started[-1].wait(LOOP_PATIENCE_S) == 0, (rig.folder / "up.log").read_text()[-4000:]
    assert dataset in rig.there(DATASET), "it was sent again"
    assert "mine reached (1 promotions)" in (rig.folder / "up.log").read_text()


def test_a_node_whose_disk_is_too_full_is_cleaned_by_itself_and_works_on(rig: Rig) -> None:
    full = {"retention": {"mode": "clean"}, "scheduling": {"targets": ANY_DISK_IS_FULL}}
    dataset = rig.dataset(**full)
    # After a round in which nothing could go a controller rests for ten minutes: so it starts when all is old.
    rig.stop()
    rig.age()
    rig.begin()
    rig.until(lambda: rig.entries("files.dropped"), "the end of what was not used for hours")
    rig.until(lambda: not rig.there(DATASET), "the end of the dataset")
    rig.stop()
    rig.settle(*STAGES, **full)
    rig.begin("--until-idle")
    assert rig.started[-1].wait(LOOP_PATIENCE_S) == 0, (rig.folder / "up.log").read_text()[-4000:]
    assert dataset in rig.there(DATASET), "it was sent again"
