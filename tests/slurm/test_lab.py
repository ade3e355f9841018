"""The lab itself: it does what a Slurm does, faults are what they say, and nothing of it is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from tests.patience import PATIENCE_S
from tests.slurm import lab as module
from tests.slurm.daemons import marked, until
from tests.slurm.lab import Lab, available, clear_abandoned

F = TypeVar("F", bound=Callable[..., None])
ROOT = Path(__file__).resolve().parents[2]
LACKING = available()
UNACCOUNTED = available(accounting=True)


def needs_slurm(test: F) -> F:
    """A test that brings up a Slurm by itself."""
    return pytest.mark.slurm(pytest.mark.skipif(LACKING is not None, reason=LACKING or "")(test))


def needs_accounting(test: F) -> F:
    """The same with accounting."""
    return pytest.mark.slurm(pytest.mark.skipif(UNACCOUNTED is not None, reason=UNACCOUNTED or "")(test))


@pytest.mark.parametrize(
    ("partition", "gres", "devices"),
    [
        ("gpu-train", "gpu:h100:2", "0,1"),
        ("gpu-train", "gpu:1", "0"),
        ("gpu-selfplay", "gpu:a10:3", "0,1,2"),
        ("gpu-gh200", "gpu:gh200:1", "0"),
    ],
)
def test_a_job_sees_the_gpus_it_was_given(slurm: Lab, partition: str, gres: str, devices: str) -> None:
    job = slurm.submit("echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES", "-p", partition, f"--gres={gres}")
    slurm.wait_for(job, "COMPLETED")
    node, seen = slurm.output(job).split()
    assert seen == devices
    assert node in slurm.said("sinfo", "-h", "-N", "-p", partition, "-o", "%N").split()


def test_two_jobs_on_a_node_get_different_gpus(slurm: Lab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    jobs = [slurm.submit(_lasting_until(gate), "-p", "gpu-selfplay", "--gres=gpu:a10:2") for _ in range(3)]
    slurm.wait_for(jobs[0], "RUNNING")
    slurm.wait_for(jobs[1], "RUNNING")
    used = slurm.said("sinfo", "-h", "-p", "gpu-selfplay", "-O", "GresUsed:40").strip()
    assert used == "gpu:a10:4(IDX:0-3)"
    assert slurm.state(jobs[2]) == "PENDING"
    gate.touch()
    slurm.wait_for(jobs[2], "COMPLETED")


def test_a_job_without_gpus_sees_none(slurm: Lab) -> None:
    job = slurm.submit('echo "[${CUDA_VISIBLE_DEVICES:-}]"')
    slurm.wait_for(job, "COMPLETED")
    assert slurm.output(job) == "[]\n"
    assert slurm.fields(job)["Partition"] == "cpu-eval"


def test_a_partition_that_is_down_runs_nothing(slurm: Lab) -> None:
    job = slurm.submit("true", "-p", "closed")
    until(lambda: slurm.fields(job)["Reason"] == "PartitionDown", "it waits", PATIENCE_S)
    assert slurm.state(job) == "PENDING"


def test_tasks_of_an_array(slurm: Lab) -> None:
    script = "echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID; exit $((SLURM_ARRAY_TASK_ID % 2))"
    array = slurm.submit(script, "--array=0-3%2")
    until(lambda: not slurm.run("squeue", "-h", "-j", array).stdout, "all have ended", PATIENCE_S, slurm.logs)
    assert [slurm.output(f"{array}_{task}") for task in range(4)] == [f"{array} {task}\n" for task in range(4)]
    ended = slurm.said("squeue", "-h", "-t", "all", "-j", array, "-o", "%K %T").splitlines()
    assert sorted(ended) == ["0 COMPLETED", "1 FAILED", "2 COMPLETED", "3 FAILED"]


def test_scancel_ends_the_processes(slurm: Lab) -> None:
    job = slurm.submit("trap '' TERM; echo $$; while :; do sleep 1; done")
    until(lambda: slurm.output(job), "it runs", PATIENCE_S, slurm.logs)
    pid = int(slurm.output(job))
    slurm.run("scancel", job, check=True)
    slurm.wait_for(job, "CANCELLED")
    until(lambda: not _lives(pid), "its process has ended", PATIENCE_S)


def test_a_node_that_is_down_fails_its_jobs(slurm: Lab) -> None:
    kept = slurm.submit("sleep 600", "--no-requeue", "-w", "cpu-1")
    again = slurm.submit("echo run ${SLURM_RESTART_COUNT:-0}; sleep 600", "--requeue", "-w", "cpu-1")
    slurm.wait_for(kept, "RUNNING")
    until(lambda: slurm.output(again), "both run", PATIENCE_S, slurm.logs)
    slurm.node_down("cpu-1")
    slurm.wait_for(kept, "NODE_FAIL")
    slurm.wait_for(again, "PENDING")
    assert slurm.node_states()["cpu-1"] == "down"
    slurm.node_up("cpu-1")
    until(lambda: "run 1" in slurm.output(again), "it runs again", PATIENCE_S, slurm.logs)


def test_jobs_outlive_slurmctld(slurm: Lab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = slurm.submit(f"{_lasting_until(gate)}; echo done")
    slurm.wait_for(job, "RUNNING")
    slurm.slurmctld.stop()
    assert slurm.run("scontrol", "ping").returncode == 1
    slurm.start_slurmctld()
    assert slurm.state(job) == "RUNNING"
    gate.touch()
    slurm.wait_for(job, "COMPLETED")
    assert slurm.output(job) == "done\n"


@needs_slurm
def test_a_relapse_starts_a_job_again_as_if_for_the_first_time() -> None:
    with Lab.running() as lab:
        job = lab.submit("echo run ${SLURM_RESTART_COUNT:-0} $$; sleep 600", "--hold", "--open-mode=append")
        lab.remember()
        lab.run("scontrol", "release", job, check=True)
        until(lambda: lab.output(job), "it runs", PATIENCE_S, lab.logs)
        lab.relapse()
        lab.run("scontrol", "release", job, check=True)
        until(lambda: lab.output(job).count("run 0") == 2, "it runs again", PATIENCE_S, lab.logs)
        first, second = (int(line.split()[-1]) for line in lab.output(job).splitlines() if line.startswith("run 0"))
        assert _lives(second)
        until(lambda: not _lives(first), "the first was killed", PATIENCE_S, lab.logs)


@needs_slurm
def test_a_relapse_gives_an_id_again() -> None:
    with Lab.running() as lab:
        lab.remember()
        one = lab.submit("sleep 600", "--job-name=one")
        lab.wait_for(one, "RUNNING")
        until(lambda: "slurmstepd" in _names(lab), "it runs", PATIENCE_S, lab.logs)
        lab.relapse()
        assert lab.run("squeue", "-h", "-j", one).returncode == 1
        # slurmctld has jobs that it does not know ended on their nodes: who got the id before would end with it.
        until(lambda: "slurmstepd" not in _names(lab), "the end of the job that is not known", PATIENCE_S, lab.logs)
        other = lab.submit("sleep 600", "--job-name=other")
        assert other == one
        assert lab.wait_for(other, "RUNNING")["JobName"] == "other"


def test_jobs_outlive_slurmd(slurm: Lab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = slurm.submit(f"{_lasting_until(gate)}; echo done", "-w", "cpu-2")
    slurm.wait_for(job, "RUNNING")
    slurm.slurmds["cpu-2"].kill()
    slurm.start_slurmd("cpu-2")
    gate.touch()
    slurm.wait_for(job, "COMPLETED")
    assert slurm.output(job) == "done\n"


def test_reset_mends_everything(slurm: Lab) -> None:
    slurm.submit("sleep 600", "--array=0-9%2")
    slurm.node_down("cpu-1")
    slurm.run("scontrol", "update", "NodeName=gpu-a1", "State=DRAIN", "Reason=fans", check=True)
    slurm.slurmds["gh-1"].kill()
    slurm.slurmctld.stop()
    slurm.reset()
    assert set(slurm.node_states().values()) == {"idle"}
    assert slurm.said("squeue", "-h") == ""


def test_accounting_knows_what_has_ended(slurm_accounted: Lab) -> None:
    lab = slurm_accounted
    jobs = [lab.submit(script, "--comment=hostler:a|b", "--qos=train") for script in ("true", "exit 3", "kill -9 $$")]
    lab.wait_for(jobs[0], "COMPLETED")
    asked = "sacct", "-X", "-n", "-P", "-j", ",".join(jobs), "--format=State,ExitCode,Account,QOS,Comment"
    rest = "research|train|hostler:a|b"
    told = [f"COMPLETED|0:0|{rest}", f"FAILED|3:0|{rest}", f"FAILED|0:9|{rest}"]
    until(lambda: lab.said(*asked).splitlines() == told, "it knows", PATIENCE_S, lambda: lab.said(*asked))


def test_accounting_catches_up(slurm_accounted: Lab) -> None:
    lab = slurm_accounted
    lab.slurmdbd.kill()
    job = lab.submit("true")
    lab.wait_for(job, "COMPLETED")
    assert lab.run("sacct", "-X", "-n", "-P", "-j", job).returncode == 1
    lab.start_slurmdbd()
    asked = "sacct", "-X", "-n", "-P", "-j", job, "--format=State"
    until(lambda: lab.said(*asked) == "COMPLETED", "it knows", PATIENCE_S, lab.logs)


def test_train_pushes_scavengers_aside(slurm_accounted: Lab) -> None:
    lab = slurm_accounted
    whole = ("-p", "gpu-gh200", "--gres=gpu:gh200:1")
    weak = lab.submit("echo run ${SLURM_RESTART_COUNT:-0}; sleep 600", "--qos=scavenger", "--requeue", *whole)
    until(lambda: lab.output(weak), "it runs", PATIENCE_S, lab.logs)
    strong = lab.submit("sleep 600", "--qos=train", *whole)
    lab.wait_for(strong, "RUNNING")
    assert lab.state(weak) == "PENDING"
    lab.run("scancel", strong, check=True)
    until(lambda: "run 1" in lab.output(weak), "it runs again", PATIENCE_S, lab.logs)


@needs_slurm
def test_nothing_is_left() -> None:
    with Lab.running() as lab:
        job = lab.submit("setsid sleep 600 & echo $!; disown; sleep 600", "--export=NONE")
        until(lambda: lab.output(job), "it runs", PATIENCE_S, lab.logs)
        wanted = {"munged", "slurmctld", "slurmd", "slurmstepd", "sleep"}
        until(lambda: wanted <= _names(lab), "all kinds of processes are found", PATIENCE_S, lab.logs)
        left = int(lab.output(job))
    assert marked(str(lab.place.conf)) == []
    assert not _lives(left)
    assert not lab.folder.exists()


@needs_slurm
def test_nothing_is_left_of_a_failed_start() -> None:
    folders = []
    with pytest.raises(AssertionError, match="slurmctld has ended by itself") as failure:  # noqa: PT012
        lab = Lab(extra="SelectType=select/nonsense\n")
        folders.append(lab.folder)
        with _closing(lab):
            lab.start()
    assert "select/nonsense" in str(failure.value)
    assert not folders[0].exists()
    assert marked(str(folders[0])) == []


@needs_slurm
def test_two_side_by_side() -> None:
    with Lab.running() as one, Lab.running() as other:
        jobs = [lab.submit("sleep 600") for lab in (one, other)]
        assert jobs == ["1", "1"]
        other.run("scancel", "1", check=True)
        other.wait_for("1", "CANCELLED")
        assert one.wait_for("1", "RUNNING")["JobState"] == "RUNNING"


@needs_slurm
def test_what_a_killed_process_has_left_is_cleared_away() -> None:
    words = (
        "import os, signal; from tests.slurm.lab import Lab; lab = Lab(); lab.start(); print(lab.folder, flush=True)"
    )
    words += "; lab.submit('sleep 600'); os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder = Path(done.stdout.strip())
    # Another lab may have come first: every start clears.
    clear_abandoned()
    assert not folder.exists()
    assert marked(str(folder)) == []


@needs_slurm
@pytest.mark.skipif(os.geteuid() != 0, reason="every other test shows it: this is an ordinary user")
def test_an_ordinary_user_has_one_too() -> None:
    words = "from tests.slurm.lab import Lab\nwith Lab.running() as lab:\n"
    words += " job = lab.submit('id -u', '-p', 'gpu-train', '--gres=gpu:1'); lab.wait_for(job, 'COMPLETED')\n"
    words += " print(lab.output(job))"
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    python = [*nobody, sys.executable]
    if subprocess.run([*python, "-c", "import tests.slurm.lab"], cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("an ordinary user cannot read these sources or this Python")
    done = subprocess.run([*python, "-c", words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "65534"


@needs_accounting
def test_a_prepared_database_is_used_again(tmp_path: Path) -> None:
    with Lab.running(accounting=True, cache=tmp_path) as first:
        assert first.submit("true") == "1"
    made = (tmp_path / "db").stat().st_mtime_ns
    with Lab.running(accounting=True, cache=tmp_path) as second:
        assert second.said("sacct", "-X", "-n", "-P") == ""
        assert "scavenger" in second.said("sacctmgr", "-n", "-P", "show", "qos", "format=Name")
    assert (tmp_path / "db").stat().st_mtime_ns == made


def test_where_there_is_none_the_reason_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATH", "/nowhere")
    reason = available()
    assert reason is not None
    assert "slurmctld" in reason
    assert "apt-get install" in reason
    assert shutil.which("slurmctld", path="/nowhere") is None


@contextmanager
def _closing(lab: Lab) -> Iterator[None]:
    try:
        yield
    finally:
        lab.close()


def _lasting_until(gate: Path) -> str:
    """A line of a script that lasts until the file exists."""
    return f"while [ ! -e {gate} ]; do sleep 0.1; done"


def _names(lab: Lab) -> set[str]:
    """The names of a lab's processes; a process that ends while they are listed is left out."""
    names = set()
    for process in lab.processes():
        with suppress(psutil.Error):
            names.add(process.name())
    return names


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
