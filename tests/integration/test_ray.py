"""A share of a real Ray cluster as a node: work runs there, and survives what may be killed."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.conftest import PATIENCE_S, WORKER, Fleet, a_fleet, command, parent, signal_each, until
from tests.livefolders import contents_below
from tests.raytown.town import TOKEN, Town, free_port, gate, town

pytestmark = pytest.mark.services

HOLD = "echo x >>{0}/ran; while [ ! -e {0}/go ]; do sleep 0.1; done; echo over"
RAY_SHOWS = ("/api/jobs/", "/api/v0/tasks?limit=1000", "/api/v0/actors?limit=1000", "/api/v0/workers?limit=1000")


@contextmanager
def a_share(path: Path, python: str, address: str, sweeps: Sequence[Any] = (), **asked: Any) -> Iterator[Fleet]:
    """A fleet of one node, a share of a cluster."""
    (path / "token").write_text(TOKEN + "\n")
    more = {"address": address, "token_file": "token", "cpus": 2, "poll_s": 0.5, **asked}
    share = {"name": name_of(path), "backend": "ray", "python": python, "dir": str(path / "far"), "ray": more}
    # The settings refuse port 0 here: pilots call the same port after the controller was started anew.
    with a_fleet(path, nodes=[share], sweeps=list(sweeps), dialin={"listen": f"127.0.0.1:{free_port()}"}) as made:
        yield made


def name_of(path: Path) -> str:
    """The node of a test: jobs of others may come back to life in the cluster's memory after they were deleted."""
    return f"s{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def jobs(there: Town, path: Path) -> list[dict[str, Any]]:
    """What was submitted for the share, whatever has become of it."""
    return there.jobs(f"hostler-{name_of(path)}-")


def pilots(there: Town, path: Path) -> list[str]:
    """The same, in Ray's words."""
    return [str(job["status"]) for job in jobs(there, path)]


def trouble(fleet: Fleet) -> str:
    """What the node says of itself."""
    return str(fleet.client.nodes()[0]["trouble"])


def events(fleet: Fleet) -> str:
    """What was told."""
    return command("events", "--state-dir", str(fleet.state), "--json").out


def test_work_runs_in_a_job_of_the_cluster_and_its_files_come_back(ray_town: Town, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "in").write_text("what was brought\n")
    with a_share(tmp_path, ray_town.python, ray_town.address, idle_s=1) as fleet:
        fleet.start()
        assert pilots(ray_town, tmp_path) == [], "nothing is held while there is nothing to do"
        said = "tr a-z A-Z <in >back; echo address $RAY_ADDRESS; env | grep -c HOSTLER_CALL; exit 0"
        job = fleet.script("sh", "-c", said, cwd=str(tmp_path / "work"), outputs=["back"])
        done = fleet.over(job)
        assert done["job"]["state"] == "done", fleet.log()
        assert (fleet.state / "results" / f"{job}.1" / "back").read_text() == "WHAT WAS BROUGHT\n"
        kept = fleet.state / "logs" / f"{job}.1" / "out"
        until(kept.exists, "its output", log=fleet.log)
        out = kept.read_text()
        assert [len(line.split()) for line in out.splitlines()] == [2, 1], "it finds the cluster"
        assert out.split()[2] == "0", "and has no secret of ours"
        assert len(pilots(ray_town, tmp_path)) == 1
        until(lambda: pilots(ray_town, tmp_path) == ["SUCCEEDED"], "the end of an idle pilot", log=fleet.log)
        again = fleet.python("print(6 * 7)")
        assert fleet.over(again)["job"]["state"] == "done"
        assert len(pilots(ray_town, tmp_path)) == 2, "what comes next has another one"
        assert TOKEN not in events(fleet)


def test_secret_reaches_its_job_and_nothing_that_ray_shows_or_keeps(ray_town: Town, tmp_path: Path) -> None:
    value = "planted-in-ray-0c7e41"
    says = f"echo $WANDB_API_KEY >{tmp_path}/seen; {HOLD.format(tmp_path)}"
    with a_share(tmp_path, ray_town.python, ray_town.address) as fleet:
        fleet.start()
        fleet.client.set_secret("wandb", value)
        told = {"name": "uses", "argv": ["sh", "-c", says], "env": {"WANDB_API_KEY": {"secret": "wandb"}}}
        (job,) = fleet.client.submit_jobs([told])
        until((tmp_path / "ran").exists, "its start", log=fleet.log)
        assert (tmp_path / "seen").read_text() == f"{value}\n"
        shown = [str(jobs(ray_town, tmp_path)), *(str(ray_town.ask("GET", path)) for path in RAY_SHOWS)]
        for each in jobs(ray_town, tmp_path):
            shown.append(str(ray_town.ask("GET", f"/api/jobs/{each['submission_id']}/logs")))
        assert "hostler-" in shown[0], "the pilot is among what is searched"
        kept = [path for folder in (ray_town.folder, tmp_path / "far", fleet.state) for path in _with(folder, value)]
        (tmp_path / "go").touch()
        assert fleet.over(job)["job"]["state"] == "done", fleet.log()
    assert [each for each in shown if value in each] == []
    assert [path.name for path in kept] == ["secrets.json"]


def _with(folder: Path, value: str) -> list[Path]:
    """Files below a folder that hold a value."""
    return [path for path, data in contents_below(folder) if value.encode() in data]


def test_work_that_uses_ray_finds_the_whole_cluster(ray_town: Town, tmp_path: Path) -> None:
    says = (
        "import os, ray; ray.init(); f = ray.remote(num_cpus=2)(lambda: os.getcwd()); "
        "print(ray.cluster_resources()['CPU']); print(ray.get(f.remote())); "
        "print(ray.get_runtime_context().runtime_env)"
    )
    with a_share(tmp_path, ray_town.python, ray_town.address) as fleet:
        fleet.start()
        job = fleet.script(ray_town.python, "-c", says)
        assert fleet.over(job)["job"]["state"] == "done", [
            data.decode() for path, data in contents_below(fleet.path / "far") if path.name == "err"
        ]
        kept = fleet.state / "logs" / f"{job}.1" / "out"
        until(kept.exists, "its output", log=fleet.log)
        total, _, env = kept.read_text().splitlines()[-3:]
        assert float(total) == 4
        assert "working_dir" not in env, "what is the pilot's own does not go to all of the cluster"


def test_a_gpu_of_the_cluster_is_shown_to_the_work_that_has_it(ray_python_found: str, tmp_path: Path) -> None:
    with town(ray_python_found, ("2/4",)) as there, a_share(tmp_path, there.python, there.address, gpus=2) as fleet:
        taken = b'{"submission_id": "taken", "entrypoint": "sleep 3600", "entrypoint_num_gpus": 1}'
        there.ask("POST", "/api/jobs/", taken)
        until(lambda: there.jobs("taken")[0]["status"] == "RUNNING", "another's job")
        fleet.start()
        shown = [fleet.script("sh", "-c", "echo $CUDA_VISIBLE_DEVICES", resources={"device": "gpu"}) for _ in range(2)]
        seen = set()
        for job in shown:
            assert fleet.over(job)["job"]["state"] == "done"
            kept = fleet.state / "logs" / f"{job}.1" / "out"
            until(kept.exists, "its output", log=fleet.log)
            seen.add(kept.read_text().strip())
        assert seen <= {"1", "2", "3"}, "0 is another's"


def test_a_share_of_a_cluster_that_grows_waits_for_a_machine_that_has_it(ray_python_found: str, tmp_path: Path) -> None:
    """Ray's autoscaler is played by hand: it begins the machine once a pilot waits for it."""
    with (
        town(ray_python_found, (2,)) as there,
        a_share(tmp_path, there.python, there.address, cpus=4, grows=True) as fleet,
    ):
        fleet.start()
        job = fleet.script("sh", "-c", "exit 0")
        until(lambda: pilots(there, tmp_path) == ["PENDING"], "a pilot that nothing has room for", log=fleet.log)
        until(lambda: "waits in the Ray cluster for 4 CPUs" in trouble(fleet), "why the node is down", log=fleet.log)
        there.tell("add", "4")
        assert fleet.over(job)["job"]["state"] == "done", fleet.log()
        assert len(pilots(there, tmp_path)) == 1


def test_a_sweep_is_searched_there_whole(ray_town: Town, tmp_path: Path) -> None:
    sweep: dict[str, Any] = {"name": "s", "range": [0, 5000], "cwd": str(WORKER.parent), "files": [WORKER.name]}
    sweep |= {"worker": ["{python}", WORKER.name], "params": {"planted": [7, 4999]}}
    with a_share(tmp_path, ray_town.python, ray_town.address, sweeps=[sweep]) as fleet:
        fleet.launch("--until-idle")
        assert fleet.ended() == 0, fleet.log()
        assert "s done: 100 % of [0, 5000)" in fleet.log()
        assert "2 hits" in fleet.log()
        until(lambda: pilots(ray_town, tmp_path) == ["SUCCEEDED"], "the end of the pilot with its controller")


@pytest.mark.parametrize("where", ["request", "answer"])
def test_a_controller_that_is_killed_as_it_submits_has_one_job_at_the_end(
    ray_town: Town, tmp_path: Path, where: str
) -> None:
    with gate(ray_town.address) as between, a_share(tmp_path, ray_town.python, between.address) as fleet:
        between.hold = where  # type: ignore[assignment]
        fleet.start()
        job = fleet.script("sh", "-c", HOLD.format(tmp_path))
        assert between.held.wait(PATIENCE_S), fleet.log()
        fleet.kill()
        assert len(pilots(ray_town, tmp_path)) == int(where == "answer")
        between.hold = ""
        between.let_go.set()
        fleet.start()
        until(lambda: (tmp_path / "ran").exists(), "the job's beginning", log=fleet.log)
        (tmp_path / "go").touch()
        assert fleet.over(job)["job"]["state"] == "done"
        assert len(pilots(ray_town, tmp_path)) == 1
        assert (tmp_path / "ran").read_text() == "x\n"


def test_a_killed_controller_finds_its_pilot_and_what_runs_there(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address) as fleet:
        fleet.start()
        job = fleet.script("sh", "-c", HOLD.format(tmp_path))
        until(lambda: (tmp_path / "ran").exists(), "the job's beginning", log=fleet.log)
        fleet.kill()
        fleet.start()
        (tmp_path / "go").touch()
        assert fleet.over(job)["job"]["state"] == "done"
        assert (tmp_path / "ran").read_text() == "x\n", "it ran once"
        assert len(pilots(ray_town, tmp_path)) == 1


def test_a_killed_pilot_ends_what_it_ran_and_another_takes_its_place(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address) as fleet:
        fleet.start()
        job = fleet.script("sh", "-c", HOLD.format(tmp_path), retry={"backoff_s": 0.1})
        pid = fleet.pid(job)
        until(lambda: _pilot_process(tmp_path), "the process of the pilot", log=fleet.log).kill()
        until(lambda: not psutil.pid_exists(pid), "the end of what it ran", log=fleet.log)
        (tmp_path / "go").touch()
        assert fleet.over(job)["job"]["state"] == "done"
        assert len(pilots(ray_town, tmp_path)) == 2
        assert "FAILED" in pilots(ray_town, tmp_path)
        assert "is over: FAILED" in events(fleet)


def test_a_job_that_is_stopped_in_ray_is_seen(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address) as fleet:
        fleet.start()
        job = fleet.script("sh", "-c", HOLD.format(tmp_path), retry={"backoff_s": 0.1})
        fleet.pid(job)
        ray_town.stop_all()
        (tmp_path / "go").touch()
        assert fleet.over(job)["job"]["state"] == "done"
        assert len(pilots(ray_town, tmp_path)) == 2


def test_more_than_any_machine_has_is_refused_at_once(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address, cpus=4) as fleet:
        fleet.launch()
        until(lambda: _is_there(fleet) and "None" not in trouble(fleet), "a refusal", log=fleet.log)
        assert "4 CPUs on one node are asked for, and the largest has 2" in trouble(fleet)
        assert pilots(ray_town, tmp_path) == []


def test_check_asks_the_cluster(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address, cpus=4) as fleet:
        said = command("check", str(fleet.file))
        assert (said.status, "Ray 2." in said.out, "3 nodes: 4 CPUs" in said.out) == (1, True, True), said
        assert "wrong: " + name_of(tmp_path) + ": 4 CPUs on one node are asked for, and the largest has 2" in said.out
        (tmp_path / "token").write_text("another\n")
        said = command("check", str(fleet.file))
        assert (said.status, "the token that was shown counts for nothing there" in said.out) == (1, True), said
        (tmp_path / "token").write_text(TOKEN + "\n")
    with a_share(tmp_path, ray_town.python, ray_town.address) as fleet:
        assert command("check", str(fleet.file)).status == 0


def test_a_cancelled_job_that_waits_for_the_cluster_leaves_nothing_there(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address) as fleet:
        taken = b'{"submission_id": "taken-%d", "entrypoint": "sleep 3600", "entrypoint_num_cpus": 2}'
        for at in range(2):
            ray_town.ask("POST", "/api/jobs/", taken % at)
        try:
            fleet.start()
            job = fleet.script("true")
            until(lambda: "waits in the Ray cluster for 2 CPUs" in trouble(fleet), "a reason", log=fleet.log)
            fleet.client.cancel(job)
            ray_town.stop_all()
            assert fleet.over(job)["job"]["state"] == "cancelled"
        finally:
            ray_town.stop_all()


def test_a_head_that_hangs_disturbs_nothing_that_runs(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address) as fleet:
        fleet.start()
        job = fleet.script("sh", "-c", HOLD.format(tmp_path))
        fleet.pid(job)
        head = [each for each in ray_town.head() if "dashboard.py" in " ".join(_words(each))]
        assert head
        try:
            signal_each(head, signal.SIGSTOP)
            until(lambda: "cannot be asked" in events(fleet), "that it is noticed", log=fleet.log)
            (tmp_path / "go").touch()
            assert fleet.over(job)["job"]["state"] == "done"
        finally:
            signal_each(head, signal.SIGCONT)
        assert len(pilots(ray_town, tmp_path)) == 1


def test_a_machine_that_dies_is_told_of_and_its_work_goes_on_elsewhere(ray_python_found: str, tmp_path: Path) -> None:
    with town(ray_python_found, (2, 2)) as there, a_share(tmp_path, there.python, there.address) as fleet:
        fleet.start()
        job = fleet.script("sh", "-c", HOLD.format(tmp_path), retry={"backoff_s": 0.1})
        pid = fleet.pid(job)
        (pilot,) = jobs(there, tmp_path)
        place = next(node for node in there.nodes() if node["node_id"] == pilot["driver_node_id"])["labels"]["place"]
        there.tell("kill", place[1:])
        until(lambda: "of the Ray cluster is dead" in events(fleet), "that it is told", log=fleet.log)
        until(lambda: not psutil.pid_exists(pid), "the end of what ran there", log=fleet.log)
        (tmp_path / "go").touch()
        assert fleet.over(job)["job"]["state"] == "done"
        assert len(pilots(there, tmp_path)) == 2


def test_a_cluster_that_was_started_anew_is_given_its_work_again(ray_python_found: str, tmp_path: Path) -> None:
    with town(ray_python_found, (2,)) as before, a_share(tmp_path, before.python, before.address) as fleet:
        fleet.start()
        job = fleet.script("sh", "-c", HOLD.format(tmp_path), retry={"backoff_s": 0.1})
        fleet.pid(job)
        before.close()
        until(lambda: "cannot be asked" in events(fleet), "that it is noticed", log=fleet.log)
        assert fleet.job(job)["state"] == "running", "that nobody answers is no end of anything"
        with town(ray_python_found, (2,), before.port) as after:
            (tmp_path / "go").touch()
            until(lambda: jobs(after, tmp_path), "another pilot", log=fleet.log)
            assert fleet.over(job)["job"]["state"] == "done"
            assert "is not known to the Ray cluster any more" in events(fleet)


def _is_there(fleet: Fleet) -> bool:
    try:
        return bool(fleet.client.nodes())
    except Exception:  # noqa: BLE001 - it starts
        return False


def _pilot_process(path: Path) -> psutil.Process | None:
    """The one process of the pilot that is no fork of it; none while a fork without its parent is listed as well."""
    mine = {each.pid: each for each in psutil.process_iter() if _is_pilot(each, path)}
    parents = {pid: parent(each) for pid, each in mine.items()}
    found = [mine[pid] for pid, above in parents.items() if above is not None and above not in mine]
    return found[0] if len(found) == 1 else None


def _is_pilot(process: psutil.Process, path: Path) -> bool:
    words = _words(process)
    return "pilot" in words and any(word.startswith(str(path)) for word in words)


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
