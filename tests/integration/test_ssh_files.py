"""Work that brings its files along to nodes behind real SSH servers, and whose files come back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.backends.ssh import sshd
from tests.integration.loops import STAGES
from tests.integration.test_loop_commands import PROGRAM, own
from tests.integration.test_ssh import WITHIN_S, Far

pytestmark = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")
WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    with ExitStack() as stack:
        servers = [stack.enter_context(sshd.running(tmp_path / f"sshd-{at}")) for at in range(2)]
        found = Far(tmp_path, servers)
        yield found
        found.end()


def run(far: Far, **asked: object) -> str:
    """A fleet file with more in it, brought to its end; what was said."""
    far.write()
    with (far.folder / "fleet.yaml").open("a") as file:
        yaml.safe_dump(asked, file)
    assert far.hostler("nodes", "trust", "fleet.yaml", "--yes").returncode == 0
    up = far.up()
    said, _ = up.communicate(timeout=3 * WITHIN_S)
    assert up.returncode == 0, said
    return said


def test_a_script_brings_its_folder_and_leaves_its_files(far: Far) -> None:
    project = far.folder / "project"
    (project / "data").mkdir(parents=True)
    (project / "data" / "words").write_text("words")
    (project / "large.bin").write_bytes(b"x" * 1000)
    (project / ".hostlerignore").write_text("*.bin\n")
    (project / "job.py").write_text(
        "import os, pathlib\n"
        "assert not os.path.exists('large.bin')\n"
        "out = pathlib.Path('out', 'deep'); out.mkdir(parents=True)\n"
        "(out / 'a b.txt').write_text(open('data/words').read() * 3)\n"
    )
    jobs = [{"name": f"job-{at}", "cwd": "project", "script": "job.py", "outputs": ["out"]} for at in range(6)]
    assert "scripts: 6 of 6 done" in run(far, jobs=jobs)
    for at in range(1, 7):
        (left,) = (far.folder / "state" / "results").glob(f"j{at}.*/out/deep/a b.txt")
        assert left.read_text() == "words" * 3
    assert list(far.folder.glob("on-*/*/*/trees/j*")) == [], "what was laid out is gone"
    assert sorted(path.name for path in project.iterdir()) == [".hostlerignore", "data", "job.py", "large.bin"]


def test_a_sweep_brings_its_own_worker(far: Far) -> None:
    (far.folder / "search").mkdir()
    shutil.copy(WORKER, far.folder / "search" / "worker.py")
    planted = [3, 50_000, 99_999]
    params = {"planted": planted, "pause_s": 0.00001}
    sweep = {"name": "s", "worker": ["{python}", "worker.py"], "cwd": "search", "range": [0, 100_000], "params": params}
    said = run(far, sweeps=[sweep])
    assert "s done: 100 % of [0, 100000)" in said
    assert "3 hits" in said


def test_a_loop_whose_artifacts_travel(far: Far) -> None:
    """Games of one node are exported on another, trained on wherever, and judged: everything goes through here."""
    shutil.copy(PROGRAM, far.folder / "own_loop.py")
    (far.folder / ".hostlerignore").write_text("/on-*\n/sshd-*\n")
    config = {**own("mine"), "idle_after": {"promotions": 1}}
    for stage in STAGES:
        config[stage]["command"] = ["{python}", "own_loop.py", stage]
    said = run(far, configs=[config])
    assert "mine reached (1 promotions)" in said
    here = {path.name for path in (far.folder / "state" / "artifacts").rglob("*.*") if path.is_file()}
    there = [
        {path.name for path in folder.rglob("*.*") if path.is_file()}
        for folder in far.folder.glob("on-*/*/*/artifacts")
    ]
    assert len(there) == 2
    assert set.union(*there) <= here
    assert json.loads(far.hostler("check", "fleet.yaml", "--json").stdout)
