"""Work that brings its files along to nodes behind real SSH servers, and whose files come back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.backends.ssh import sshd
from tests.integration.conftest import WHOLE_RUN_S, WORKER, HostlerIn
from tests.integration.loops import STAGES
from tests.integration.test_loop_commands import PROGRAM, own
from tests.integration.test_ssh import Far
from tests.livefolders import files_below

pytestmark = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")


@pytest.fixture
def far(tmp_path: Path, hostler_in: HostlerIn) -> Iterator[Far]:
    with ExitStack() as stack:
        servers = [stack.enter_context(sshd.running(tmp_path / f"sshd-{at}")) for at in range(2)]
        found = Far(tmp_path, servers, hostler_in)
        yield found
        found.end()


def run(far: Far, work: Sequence[str] = ("", ""), **asked: object) -> str:
    """A fleet file with more in it, brought to its end; what was said."""
    far.write(work=work)
    with (far.folder / "fleet.yaml").open("a") as file:
        yaml.safe_dump(asked, file)
    assert far.hostler("node", "trust", "fleet.yaml", "--yes").status == 0
    up = far.up()
    said, _ = up.communicate(timeout=WHOLE_RUN_S)
    assert up.returncode == 0, said
    return said


def test_scripts_and_sweeps_bring_their_files_and_leave_what_they_made(far: Far) -> None:
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
    jobs = [{"name": f"job-{at}", "cwd": "project", "script": "job.py", "outputs": ["out"]} for at in range(3)]
    (far.folder / "search").mkdir()
    shutil.copy(WORKER, far.folder / "search" / "worker.py")
    params = {"planted": [3, 5_000, 9_999], "pause_s": 0.00001}
    sweep = {"name": "s", "worker": ["{python}", "worker.py"], "cwd": "search", "range": [0, 10_000], "params": params}
    said = run(far, jobs=jobs, sweeps=[sweep])
    assert "scripts: 3 of 3 done" in said
    assert "s done: 100 % of [0, 10000)" in said
    assert "3 hits" in said
    left = list((far.folder / "state" / "results").glob("j*.*/out/deep/a b.txt"))
    assert [file.read_text() for file in left] == ["words" * 3] * len(jobs)
    assert list(far.folder.glob("on-*/*/*/trees/j*")) == [], "what was laid out is gone"
    assert sorted(path.name for path in project.iterdir()) == [".hostlerignore", "data", "job.py", "large.bin"]


@pytest.mark.long
def test_a_loop_whose_artifacts_travel(far: Far) -> None:
    """Games of one node are exported on another, trained on wherever, and judged: everything goes through here."""
    shutil.copy(PROGRAM, far.folder / "own_loop.py")
    (far.folder / ".hostlerignore").write_text("/on-*\n/sshd-*\n")
    config = {**own("mine"), "idle_after": {"promotions": 1}}
    for stage in STAGES:
        config[stage]["command"] = ["{python}", "own_loop.py", stage]
    said = run(far, ("selfplay, evaluation", "export, training"), configs=[config])
    assert "mine reached (1 promotions)" in said
    here = {path.name for path in files_below(far.folder / "state" / "artifacts")}
    there = [
        {path.name for path in files_below(folder) if "." in path.name}
        for folder in far.folder.glob("on-*/*/*/artifacts")
    ]
    assert len(there) == 2
    assert set.union(*there) <= here
    assert json.loads(far.hostler("check", "fleet.yaml", "--json").out)
