"""What befalls jobs of a real cluster: nothing is lost, nothing is run twice that was not lost, and people are told."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.model.codec import plain
from hostler.settings import sweep_spec
from tests.integration.conftest import WORKER
from tests.livefolders import contents_below
from tests.patience import PATIENCE_S
from tests.slurm.fleets import ClusterFleet, a_cluster_fleet, when
from tests.slurm.lab import Lab

GPU = {"resources": {"device": "gpu"}}
UNTIL_TOLD = "while [ ! -e {}/go ]; do sleep 0.1; done"


@pytest.fixture
def fleet(tmp_path: Path, slurm: Lab) -> Iterator[ClusterFleet]:
    """A fleet on a Slurm without accounting, not started."""
    with a_cluster_fleet(tmp_path, slurm) as made:
        yield made


@pytest.fixture
def accounted(tmp_path: Path, slurm_accounted: Lab) -> Iterator[ClusterFleet]:
    """The same with accounting."""
    with a_cluster_fleet(tmp_path, slurm_accounted) as made:
        yield made


def waits(fleet: ClusterFleet) -> tuple[str, ...]:
    """A command that notes that it begins, waits until it is told to end, and notes that."""
    return fleet.noting(UNTIL_TOLD.format(fleet.shared))


def go(fleet: ClusterFleet) -> None:
    """Tell what waits to end."""
    (fleet.shared / "go").touch()


def slurm_job(fleet: ClusterFleet) -> str:
    """The one job in the queue, once it runs."""
    (job,) = when(fleet.slurm_jobs, "a job in the queue", fleet)
    return str(job)


def failures(fleet: ClusterFleet) -> list[str]:
    """Why attempts were not good, in the words that people read."""
    return [event["why"] for event in fleet.story("job.requeued")]


def test_a_node_that_is_lost_costs_the_attempt_alone(fleet: ClusterFleet) -> None:
    fleet.start()
    job = fleet.script(*waits(fleet), **GPU)
    fleet.state_of(job, "running")
    (host,) = {fleet.lab.fields(slurm_job(fleet))["NodeList"]}
    fleet.lab.node_down(host)
    when(lambda: fleet.ran().count("begun") == 2, "a second attempt", fleet)
    go(fleet)
    assert fleet.over(job)["job"]["state"] == "done"
    (why,) = failures(fleet)
    assert "NODE_FAIL" in why


def test_what_somebody_else_cancels_is_tried_again_and_said(accounted: ClusterFleet) -> None:
    accounted.start()
    job = accounted.script(*waits(accounted), **GPU)
    accounted.state_of(job, "running")
    accounted.lab.run("scancel", slurm_job(accounted), check=True)
    when(lambda: accounted.ran().count("begun") == 2, "a second attempt", accounted)
    go(accounted)
    assert accounted.over(job)["job"]["state"] == "done"
    (why,) = failures(accounted)
    assert "CANCELLED" in why


def test_a_pending_job_that_somebody_cancels_is_submitted_anew(fleet: ClusterFleet) -> None:
    taken = fleet.lab.submit("sleep 600", "--partition=gpu-train", "--gres=gpu:h100:2", "--array=0-1")
    fleet.start()
    job = fleet.script(*fleet.noting(), **GPU)
    ours = when(lambda: fleet.story("batch.submitted"), "a job that waits", fleet)[0]["as_job"]
    fleet.lab.run("scancel", ours, check=True)
    when(lambda: failures(fleet), "the loss of the first attempt", fleet)
    fleet.lab.run("scancel", taken, check=True)
    assert fleet.over(job)["job"]["state"] == "done"
    assert fleet.ran() == ["begun", "ended"]


def test_what_we_cancel_is_cancelled_there(fleet: ClusterFleet) -> None:
    fleet.start()
    runs = fleet.script(*waits(fleet), **GPU)
    fleet.state_of(runs, "running")
    fleet.lab.run("scontrol", "update", "PartitionName=cpu-eval", "State=DOWN", check=True)
    try:
        waiting = fleet.script(*fleet.noting(name="never"), resources={"device": "cpu"})
        when(lambda: len(fleet.slurm_jobs()) == 2, "the job that waits", fleet)
        for job in (runs, waiting):
            fleet.client.cancel(job)
            assert fleet.over(job)["job"]["state"] == "cancelled"
        when(lambda: not fleet.slurm_jobs(), "an empty queue", fleet)
    finally:
        fleet.lab.run("scontrol", "update", "PartitionName=cpu-eval", "State=UP", check=True)
    assert fleet.ran("never") == []


def test_slurmctld_that_is_away_costs_nothing(fleet: ClusterFleet) -> None:
    fleet.start()
    runs = fleet.script(*waits(fleet), **GPU)
    fleet.state_of(runs, "running")
    fleet.lab.slurmctld.stop()
    later = fleet.script(*fleet.noting(name="later"), resources={"device": "cpu"})
    when(lambda: fleet.story("trouble.recorded"), "word of it", fleet)
    go(fleet)
    assert fleet.over(runs)["job"]["state"] == "done"
    fleet.lab.start_slurmctld()
    assert fleet.over(later)["job"]["state"] == "done"
    assert (fleet.ran(), fleet.ran("later")) == (["begun", "ended"], ["begun", "ended"])


def test_slurmdbd_that_is_away_is_not_needed(accounted: ClusterFleet) -> None:
    accounted.start()
    accounted.lab.slurmdbd.kill()
    good = accounted.script(*accounted.noting(), **GPU)
    bad = accounted.script("sh", "-c", "exit 3", retry={"max_attempts": {"exit": 1}}, **GPU)
    lost = accounted.script(*waits(accounted), **GPU)
    assert accounted.over(good)["job"]["state"] == "done"
    assert accounted.over(bad)["job"]["failure"] == "exit"
    accounted.state_of(lost, "running")
    accounted.lab.run("scancel", *accounted.slurm_jobs(), check=True)
    when(lambda: any("CANCELLED" in why for why in failures(accounted)), "word of the end", accounted)
    go(accounted)
    assert accounted.over(lost)["job"]["state"] == "done"


def test_an_answer_of_sbatch_that_never_came_is_looked_for(fleet: ClusterFleet) -> None:
    fleet.instead_of("sbatch", '"$REAL" "$@" > /dev/null; exit 0')
    fleet.start()
    job = fleet.script(*fleet.noting(), **GPU)
    assert fleet.over(job)["job"]["state"] == "done"
    assert fleet.ran() == ["begun", "ended"]
    assert len(fleet.story("batch.submitted")) == 1


def test_a_controller_killed_before_sbatch_submits_once(fleet: ClusterFleet) -> None:
    fleet.instead_of("sbatch", f'touch {fleet.shared}/asked; sleep 600; "$REAL" "$@"')
    fleet.start()
    job = fleet.script(*fleet.noting(), **GPU)
    when((fleet.shared / "asked").exists, "the submission", fleet)
    fleet.kill()
    fleet.as_usual("sbatch")
    fleet.start()
    assert fleet.over(job)["job"]["state"] == "done"
    assert fleet.ran() == ["begun", "ended"]
    assert fleet.job(job)["attempts"] == 1


def test_a_controller_killed_after_sbatch_finds_the_job_by_its_name(fleet: ClusterFleet) -> None:
    fleet.instead_of("sbatch", f'"$REAL" "$@" > {fleet.shared}/asked; sleep 600')
    fleet.start()
    job = fleet.script(*waits(fleet), **GPU)
    when(lambda: (fleet.shared / "asked").exists() and (fleet.shared / "asked").read_text(), "the submission", fleet)
    fleet.kill()
    fleet.as_usual("sbatch")
    fleet.start()
    when(fleet.ran, "the beginning", fleet)
    go(fleet)
    assert fleet.over(job)["job"]["state"] == "done"
    assert fleet.ran() == ["begun", "ended"]
    assert len(fleet.story("batch.requested")) == 1


def test_a_job_submitted_twice_runs_once(fleet: ClusterFleet) -> None:
    fleet.instead_of("sbatch", '"$REAL" "$@" > /dev/null; "$REAL" "$@"')
    fleet.start()
    job = fleet.script(*fleet.noting("sleep 2"), **GPU)
    assert fleet.over(job)["job"]["state"] == "done"
    when(lambda: not fleet.slurm_jobs(), "an empty queue", fleet)
    assert fleet.ran() == ["begun", "ended"]


def test_commands_that_fail_now_and_then_lose_nothing(fleet: ClusterFleet) -> None:
    flaky = (
        f"n=$(cat {fleet.shared}/n 2>/dev/null || echo 0); echo $((n + 1)) > {fleet.shared}/n; [ $((n % 3)) = 1 ] && "
    )
    fleet.instead_of(
        "squeue", flaky + 'echo "slurm_load_jobs error: Socket timed out" >&2 && exit 1; exec "$REAL" "$@"'
    )
    fleet.start()
    jobs = [fleet.script(*fleet.noting("sleep 1", f"ran{at}"), **GPU) for at in range(3)]
    assert [fleet.over(job)["job"]["state"] for job in jobs] == ["done"] * 3
    assert [fleet.ran(f"ran{at}") for at in range(3)] == [["begun", "ended"]] * 3


def test_preempted_work_goes_on_with_what_it_has_saved(tmp_path: Path, slurm_accounted: Lab) -> None:
    with a_cluster_fleet(tmp_path, slurm_accounted, slurm={"qos": "scavenger", "account": "research"}) as fleet:
        _preempt(fleet)


def test_preempted_work_goes_on_also_where_slurm_begins_its_job_anew(tmp_path: Path, slurm_accounted: Lab) -> None:
    wanted = {"qos": "scavenger", "account": "research", "requeue": True}
    with a_cluster_fleet(tmp_path, slurm_accounted, slurm=wanted) as fleet:
        _preempt(fleet)
        told = fleet.lab.place.log("slurmctld.log").read_text()
        assert f"preempted JobId={fleet.story('batch.submitted')[0]['as_job']} has been requeued" in told


def _preempt(fleet: ClusterFleet) -> None:
    saves = f"trap 'echo saved >> {fleet.shared}/saved; exit 0' TERM"
    # Nothing in the background: that would be hit first, and its end be the end of a shell that waits for it.
    command = f"{saves}; echo begun >> {fleet.shared}/ran; {UNTIL_TOLD.format(fleet.shared)}"
    fleet.start()
    job = fleet.script("bash", "-c", command, checkpoints=True, **GPU)
    when(fleet.ran, "the beginning", fleet)
    everything = ("--qos=train", "--account=research", "--partition=gpu-train", "--gres=gpu:h100:2", "--array=0-1")
    rival = fleet.lab.submit("sleep 600", *everything)
    when(lambda: fleet.ran("saved"), "the last words of the preempted one", fleet)
    fleet.lab.run("scancel", rival)
    when(lambda: len(fleet.ran()) == 2, "a second attempt", fleet, 3 * PATIENCE_S)
    go(fleet)
    assert fleet.over(job)["job"]["state"] == "done"
    assert {event["failure"] for event in fleet.story("job.requeued")} == {None}, "that was nobody's fault"


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
def test_an_allocation_that_is_ended_on_its_node_is_noticed(fleet: ClusterFleet, way: signal.Signals) -> None:
    """The batch script's own process is hit, as by an administrator on the node."""
    fleet.start()
    job = fleet.script(*waits(fleet), **GPU)
    fleet.state_of(job, "running")
    fleet.lab.run("scancel", f"--signal={way.name.removeprefix('SIG')}", "--full", slurm_job(fleet), check=True)
    when(lambda: fleet.ran().count("begun") == 2, "a second attempt", fleet, 3 * PATIENCE_S)
    go(fleet)
    assert fleet.over(job)["job"]["state"] == "done"


def test_what_is_longer_than_the_partition_allows_fails_and_says_so(tmp_path: Path, slurm: Lab) -> None:
    with a_cluster_fleet(tmp_path, slurm, partitions=("short",)) as fleet:
        fleet.start()
        job = fleet.script(*waits(fleet))
        found = fleet.over_within(job, 3 * PATIENCE_S)
        assert (found["job"]["state"], found["job"]["failure"]) == ("failed", "timeout")
        assert "there is no more for it" in found["job"]["why"]
        assert fleet.ran() == ["begun"]


def test_what_saves_its_work_goes_on_when_its_time_is_over(tmp_path: Path, slurm: Lab) -> None:
    with a_cluster_fleet(tmp_path, slurm, partitions=("short",)) as fleet:
        fleet.start()
        job = fleet.script(
            "sh", "-c", f"echo begun >> {fleet.shared}/ran; {UNTIL_TOLD.format(fleet.shared)}", checkpoints=True
        )
        when(lambda: len(fleet.ran()) == 2, "a second attempt", fleet, 3 * PATIENCE_S)
        go(fleet)
        assert fleet.over(job)["job"]["state"] == "done"
        assert {event["failure"] for event in fleet.story("job.requeued")} == {None}


def test_what_is_cancelled_while_sbatch_answers_as_the_controller_ends_is_cancelled_there(fleet: ClusterFleet) -> None:
    """It is submitted, and nobody has heard yet what Slurm calls it."""
    taken = fleet.lab.submit("sleep 600", "--partition=gpu-train", "--gres=gpu:h100:2", "--array=0-1")
    rivals = when(lambda: len(found := set(fleet.slurm_jobs())) == 2 and found, "the rivals", fleet)
    fleet.instead_of(
        "sbatch", f'"$REAL" "$@" > {fleet.shared}/said; touch {fleet.shared}/asked; sleep 5; cat {fleet.shared}/said'
    )
    fleet.instead_of("squeue", f'[ -e {fleet.shared}/blind ] || exec "$REAL" "$@"')
    fleet.start()
    job = fleet.script(*fleet.noting(), **GPU)
    (fleet.shared / "blind").touch()  # else the queue tells
    when((fleet.shared / "asked").exists, "the submission", fleet)
    fleet.client.cancel(job)
    assert fleet.over(job)["job"]["state"] == "cancelled"
    fleet.signal(signal.SIGTERM)
    assert fleet.ended() == 0
    when(lambda: set(fleet.slurm_jobs()) == rivals, "a queue without it", fleet)
    fleet.lab.run("scancel", taken, check=True)
    assert fleet.ran() == []


def test_what_is_suspended_and_not_wanted_any_more_is_cancelled_there(fleet: ClusterFleet) -> None:
    """Nobody in it hears that it is to end."""
    fleet.start()
    job = fleet.script(*waits(fleet), grace_s=1, **GPU)
    fleet.state_of(job, "running")
    when(fleet.ran, "its beginning", fleet)
    ours = slurm_job(fleet)
    fleet.lab.run("scontrol", "suspend", ours, check=True)
    fleet.lab.wait_for(ours, "SUSPENDED")
    fleet.client.cancel(job)
    assert fleet.over_within(job, 3 * PATIENCE_S)["job"]["state"] == "cancelled"
    when(lambda: not fleet.slurm_jobs(), "an empty queue", fleet)
    assert fleet.ran() == ["begun"]
    assert any("SUSPENDED" in event["what"] for event in fleet.story("trouble.recorded"))


def test_a_partition_that_is_taken_out_of_the_fleet_file_leaves_nothing_in_the_queue(fleet: ClusterFleet) -> None:
    """Its cluster is known through another partition: what runs ends there, what waits is cancelled."""
    fleet.start()
    runs = fleet.script(*waits(fleet), **GPU)
    fleet.state_of(runs, "running")
    ours = slurm_job(fleet)
    fleet.lab.run("scontrol", "update", "PartitionName=gpu-train", "State=DOWN", check=True)
    try:
        later = fleet.script(*fleet.noting(name="later"), **GPU)
        when(lambda: len(fleet.slurm_jobs()) == 2, "the job that waits", fleet)
        fleet.kill()
        fleet.take_out("gpu-train")
        fleet.start()
        when(lambda: fleet.slurm_jobs() == [ours], "a queue with what runs alone", fleet)
        fleet.state_of(later, "pending")
        go(fleet)
        assert fleet.over(runs)["job"]["state"] == "done"
        assert fleet.ran() == ["begun", "ended"]
    finally:
        fleet.lab.run("scontrol", "update", "PartitionName=gpu-train", "State=UP", check=True)
    assert {event["failure"] for event in fleet.story("job.requeued")} == {None}


def test_a_chunk_that_runs_in_a_partition_that_is_taken_out_counts(fleet: ClusterFleet) -> None:
    fleet.start()
    asked = {"name": "s", "range": [0, 1], "worker": [sys.executable, str(WORKER)], **GPU}
    worker = {"params": {"planted": [0], "pause_s": 20}, "silence_s": 60}
    (sweep,) = fleet.client.submit_jobs([plain(sweep_spec({**asked, **worker}, Path.cwd()))])
    when(lambda: _is_searching(fleet), "a chunk on its way", fleet)
    fleet.kill()
    fleet.take_out("gpu-train")
    fleet.start()
    assert fleet.over(sweep)["job"]["state"] == "done"
    assert [len(fleet.story(kind)) for kind in ("chunk.leased", "chunk.done", "result.refused")] == [1, 1, 0]


def _is_searching(fleet: ClusterFleet) -> bool:
    """Whether the agent of an allocation has a chunk on its disk."""
    contents = ((path, data) for path, data in contents_below(fleet.shared) if "jobs" in path.parts)
    return any(path.name == "journal.jsonl" and b'"chunks"' in data for path, data in contents)


def test_what_is_in_another_cluster_can_be_cancelled_all_the_same(tmp_path: Path, slurm: Lab) -> None:
    """As far as anybody can tell: its folder is not that of the partition that is left."""
    own = {"gpu-train": {"slurm": {"job_dir": str(tmp_path / "shared" / "another")}}}
    with a_cluster_fleet(tmp_path, slurm, nodes=own) as fleet:
        fleet.start()
        job = fleet.script(*waits(fleet), **GPU)
        fleet.state_of(job, "running")
        fleet.kill()
        fleet.take_out("gpu-train")
        fleet.start()
        said = when(lambda: fleet.story("trouble.recorded"), "word of it", fleet)[0]["what"]
        (named,) = [line for line in said.split("`") if line.startswith("scancel")]
        assert fleet.job(job)["state"] == "running", "out of reach is not dead"
        fleet.client.cancel(job)
        assert fleet.over(job)["job"]["state"] == "cancelled"
        assert len(fleet.story("trouble.recorded")) == 1
        slurm.run(*named.split(), check=True)
        when(lambda: not fleet.slurm_jobs(), "an empty queue", fleet)


def test_jobs_of_a_cluster_that_is_not_known_any_more_are_named(tmp_path: Path, slurm: Lab) -> None:
    with a_cluster_fleet(tmp_path, slurm, partitions=("gpu-train",)) as fleet:
        fleet.start()
        job = fleet.script(*waits(fleet), **GPU)
        fleet.state_of(job, "running")
        fleet.kill()
        fleet.take_out("gpu-train", {"name": "here", "backend": "local", "gpus": "none", "cpu_slots": 1})
        fleet.start()
        said = when(lambda: fleet.story("trouble.recorded"), "word of them", fleet)[0]["what"]
        (named,) = [line for line in said.split("`") if line.startswith("scancel")]
        assert fleet.job(job)["state"] == "running", "out of reach is not dead"
        slurm.run(*named.split(), check=True)
        when(lambda: not fleet.slurm_jobs(), "an empty queue", fleet)
