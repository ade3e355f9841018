"""A cluster behind its login node, from a machine that does not see its shared folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd
from tests.integration.conftest import WORKER
from tests.slurm.fleets import ClusterFleet, a_cluster_fleet, when
from tests.slurm.lab import Lab

pytestmark = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")
GPU = {"resources": {"device": "gpu"}}


def login(folder: Path, lab: Lab, programs: Path | None = None) -> str:
    """What a session on the login node is given."""
    path = lab.env["PATH"] if programs is None else f"{programs}:{lab.env['PATH']}"
    return f"SetEnv SLURM_CONF={lab.env['SLURM_CONF']} PATH={path}"


@pytest.fixture
def server(tmp_path: Path, slurm: Lab) -> Iterator[Sshd]:
    """The login node."""
    with sshd.running(tmp_path / "login", login(tmp_path, slurm)) as made:
        yield made


@pytest.fixture
def fleet(tmp_path: Path, slurm: Lab, server: Sshd) -> Iterator[ClusterFleet]:
    """A fleet that knows the cluster by its login node alone."""
    with a_cluster_fleet(tmp_path, slurm, login=server) as made:
        yield made


def test_folders_go_there_and_outputs_come_back(fleet: ClusterFleet, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "data.txt").write_text("from here")
    jobs = [
        {"name": "copy", "argv": ["sh", "-c", "cat data.txt > out.txt; pwd"], "cwd": str(folder), "outputs": ["*.txt"]}
    ]
    fleet.settle_more(jobs=jobs)
    fleet.launch("--until-idle")
    assert fleet.ended() == 0, fleet.log()
    (out,) = fleet.state.glob("results/*/out.txt")
    assert out.read_text() == "from here"
    assert not (folder / "out.txt").exists()


def test_a_sweep_is_searched_by_pilots(fleet: ClusterFleet) -> None:
    worker = ["{python}", WORKER.name]
    sweep = {"name": "s", "range": [0, 400], "worker": worker, "params": {"planted": [7]}, "cwd": str(WORKER.parent)}
    fleet.settle_more(sweeps=[{**sweep, "files": [WORKER.name]}])
    fleet.launch("--until-idle")
    assert fleet.ended() == 0, fleet.log()
    assert {event["mode"] for event in fleet.story("batch.requested")} == {"pilot"}
    assert [hit["at"] for event in fleet.story("chunk.done") for hit in event["hits"]] == [7]


def test_a_login_node_that_is_gone_for_a_while_costs_nothing(fleet: ClusterFleet, server: Sshd, tmp_path: Path) -> None:
    fleet.start()
    job = fleet.script(*fleet.noting(f"while [ ! -e {fleet.shared}/go ]; do sleep 0.1; done"), **GPU)
    fleet.state_of(job, "running")
    server.kill()
    when(lambda: fleet.story("node.unreachable"), "word of it", fleet)
    (fleet.shared / "go").touch()
    when(lambda: fleet.ran() == ["begun", "ended"], "the end of the work", fleet)
    with sshd.running(tmp_path / "login", login(tmp_path, fleet.lab), port=server.port):
        assert fleet.over(job)["job"]["state"] == "done"
        assert fleet.job(job)["attempts"] == 1


def test_a_login_node_whose_answers_are_slow_or_cut_loses_nothing(tmp_path: Path, slurm: Lab) -> None:
    programs = tmp_path / "there"
    programs.mkdir()
    with (
        sshd.running(tmp_path / "login", login(tmp_path, slurm, programs)) as server,
        a_cluster_fleet(tmp_path, slurm, login=server) as fleet,
    ):
        fleet.programs = programs
        turns = f"n=$(cat {programs}/n 2>/dev/null || echo 0); echo $((n + 1)) > {programs}/n"
        fleet.instead_of("squeue", f'{turns}; [ $((n % 2)) = 0 ] && sleep 2; "$REAL" "$@" | head -c $((n * 40))')
        fleet.instead_of("sbatch", 'sleep 3; exec "$REAL" "$@"')
        fleet.start()
        jobs = [fleet.script(*fleet.noting("sleep 1", f"ran{at}"), **GPU) for at in range(3)]
        assert [fleet.over(job)["job"]["state"] for job in jobs] == ["done"] * 3
        assert [fleet.ran(f"ran{at}") for at in range(3)] == [["begun", "ended"]] * 3
