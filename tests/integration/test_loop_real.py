"""A real loop on 19 cells, killed and spoilt wherever it can be: it comes to its goal, and says what was in its way."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from hostler.core.loop.state import Config
from hostler.model.codec import digest
from hostler.model.events import AttemptLeased, Entry, JobDone, JobSubmitted
from hostler.model.learning import ModelStatus
from hostler.model.work import WorkKind
from tests.integration.conftest import WORKER, Fleet, Hostler, View, a_fleet, parent, small_disk, until
from tests.integration.loops import (
    CONFIG,
    LOOP_PATIENCE_S,
    STAGES,
    Holds,
    config_of,
    damaged,
    file_of,
    flip,
    journal_of,
    order_of,
    published,
    soon,
    stage_jobs,
    tiny,
)
from tests.integration.test_disk import fill
from tests.livefolders import files_below

pytestmark = pytest.mark.long

CHECKPOINT_EVERY = 20
SWEEP: View = {
    "name": "sweep",
    "payload": {
        "kind": "sweep",
        "schema": 1,
        "start": 0,
        "stop": 1000,
        "worker": [sys.executable, str(WORKER)],
        "params": {"planted": [7]},
        "digest": digest({"planted": [7]}),
    },
}
LATER: dict[str, View] = {
    "selfplay": {"engine": "gumbel", "simulations": 4, "games": 32, "segment_games": 8},
    "export": {"min_games": 40, "fresh_games": 40},
}
"""The loop goes on with games of its models."""


class Killed:
    """A loop that came to its first promotion although everything of it was killed once, and its journal."""

    def __init__(self, fleet: Fleet, holds: Holds) -> None:
        self.fleet, self.holds = fleet, holds
        self.supervisors: list[psutil.Process] = []
        self.adopted: list[psutil.Process] = []
        self.status = self._run()
        with journal_of(fleet) as (core, entries):
            self.config: Config = core.state.configs[CONFIG]
            self.jobs = core.state.jobs
            self.entries: list[Entry] = entries

    def of(self, stage: WorkKind) -> list[Any]:
        """Jobs of a stage."""
        return [job for job in self.jobs.values() if job.spec.work is stage]

    def _run(self) -> int:
        fleet, holds = self.fleet, self.holds
        for stage, point, time in (("training", "model", 0), ("selfplay", "segment", 2), ("evaluation", "result", 0)):
            holds.at(stage, point, time)
        fleet.start("--until-idle")
        self._kill_supervisor()
        self.adopted = [holds.held(stage, fleet) for stage in ("selfplay", "evaluation")]
        self._kill_controller()
        holds.at("export", "dataset")
        holds.at("training", "checkpoint", 1)
        for stage in ("selfplay", "evaluation", "export", "training"):
            holds.kill(stage, fleet)
        assert fleet.controller is not None
        return fleet.controller.wait(LOOP_PATIENCE_S)

    def _kill_supervisor(self) -> None:
        """While it has the first training, which lives on."""
        process = self.holds.held("training", self.fleet)
        self.supervisors = supervisors(self.fleet)
        for each in self.supervisors:
            with suppress(psutil.NoSuchProcess):  # a short-lived fork of the agent may be among them
                each.kill()
        until(lambda: set(supervisors(self.fleet)) - set(self.supervisors), "another supervisor", log=self.fleet.log)
        self.adopted.append(process)
        assert process.is_running()
        self.holds.release("training")

    def _kill_controller(self) -> None:
        self.fleet.kill()
        self.fleet.start("--until-idle")
        assert all(process.is_running() for process in self.adopted)


def supervisors(fleet: Fleet) -> list[psutil.Process]:
    """The processes of agents that have the stages: each is the child of one that looks after it."""
    agents = fleet.agents()
    pids, parents = {process.pid for process in agents}, {parent(process) for process in agents}
    return [process for process in agents if parent(process) in pids and process.pid not in parents]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    path = tmp_path_factory.mktemp("killed")
    holds = Holds(path / "holds")
    config = tiny(holds.env, idle_after={"promotions": 1, "candidates": 5, "failures": 3})
    with a_fleet(path, configs=[config]) as fleet:
        yield Killed(fleet, holds)


def test_whatever_is_killed_the_loop_comes_to_its_goal(killed: Killed) -> None:
    assert killed.status == 0, killed.fleet.log()
    assert killed.config.promotions == 1
    assert "everything is done" in killed.fleet.log()


def test_each_stage_was_killed_once_and_done_in_its_second_life(killed: Killed) -> None:
    for stage in (WorkKind.SELFPLAY, WorkKind.EXPORT, WorkKind.TRAINING, WorkKind.EVALUATION):
        again = [job for job in killed.of(stage) if job.attempts > 1]
        assert [(job.attempts, dict(job.failures)) for job in again] == [(2, {"signal": 1})], stage


def test_supervisor_and_controller_cost_no_attempt(killed: Killed) -> None:
    assert killed.supervisors
    first = killed.of(WorkKind.TRAINING)[0]
    assert (first.attempts, dict(first.failures)) == (1, {})


def test_every_game_is_counted_once(killed: Killed) -> None:
    segments = killed.config.segments
    assert set(segments) == published(killed.fleet, ".segment.npz")
    done = [job for job in killed.of(WorkKind.SELFPLAY) if job.result is not None]
    assert sum(segment.games for segment in segments.values()) == sum(job.result["games"] for job in done)
    by_job = [[each for each in segments.values() if each.job == job.id] for job in done]
    assert [len(mine) for mine in by_job] == [job.result["segments"] for job in done]


def test_training_went_on_from_its_checkpoint_and_never_twice_at_once(killed: Killed) -> None:
    (model,) = (
        model for model in killed.config.models.values() if model.status is ModelStatus.PROMOTED and model.number
    )
    assert model.training.resumed_from == CHECKPOINT_EVERY
    trainings = [job.id for job in killed.of(WorkKind.TRAINING)]
    over = {entry.event.job: entry.seq for entry in killed.entries if isinstance(entry.event, JobDone)}
    asked = {entry.event.job: entry.seq for entry in killed.entries if isinstance(entry.event, JobSubmitted)}
    assert all(over[one] < asked[next_] for one, next_ in pairwise(trainings))


def test_nothing_is_half_published(killed: Killed) -> None:
    assert damaged(killed.fleet) == []
    assert published(killed.fleet, ".dataset.npz") == set(killed.config.datasets)
    assert published(killed.fleet, ".safetensors") == set(killed.config.models)
    assert list((killed.fleet.state / "artifacts" / "work").iterdir()) == [], "what was kept between lives is gone"


@pytest.fixture(scope="module")
def later(killed: Killed) -> Killed:
    """The same loop without a goal, its games those of its model: a damaged segment is in its first export's window."""
    fleet, holds = killed.fleet, killed.holds
    fleet.settle(configs=[tiny(holds.env, **LATER)])
    holds.at("export", "reading")
    fleet.start()
    return killed


def test_without_a_goal_it_goes_on(later: Killed) -> None:
    config = later.fleet.client.config(CONFIG)
    assert (config["state"], config["goal"]) == ("open", None)
    (job,) = soon(lambda: stage_jobs(later.fleet, "selfplay", "running")[:1], "self-play", later.fleet)
    assert order_of(later.fleet, job["id"])["player"] == f"gumbel-4@{config['current']}"


def test_a_damaged_segment_is_refused_by_name_and_the_rest_goes_on(later: Killed) -> None:
    fleet = later.fleet
    later.holds.held("export", fleet)
    # The controller hears of the start of a process after the process may have come to where it is held.
    (job,) = soon(lambda: stage_jobs(fleet, "export", "running"), "the export as a running job", fleet)
    offered = [each["sha256"] for each in order_of(fleet, job["id"])["segments"]]
    spoilt = file_of(fleet, offered[-1])
    flip(spoilt)
    later.holds.release("export")
    assert soon(lambda: fleet.job(job["id"])["ended_at"] and fleet.job(job["id"])["state"], "its end", fleet) == "done"
    segments = config_of(fleet).segments
    assert spoilt.name in (segments[offered[-1]].refused or "")
    assert "damaged" in (segments[offered[-1]].refused or "")
    assert sum(segments[name].accepted or 0 for name in offered[:-1]) >= LATER["export"]["min_games"]
    soon(lambda: [each for each in stage_jobs(fleet, "training") if number(each) > number(job)], "a training", fleet)
    soon(lambda: [each for each in stage_jobs(fleet, "selfplay", "done") if number(each) > number(job)], "games", fleet)


def test_after_a_rollback_games_are_of_the_older_model(later: Killed, hostler: Hostler) -> None:
    fleet = later.fleet
    newest = max(number(job) for job in fleet.client.all_jobs())
    said = hostler(fleet, "model", "rollback", CONFIG, "0", "--why", "to see whether it can")
    assert said.status == 0, said.err
    first = fleet.client.models(CONFIG)[0]
    assert first["current"]
    assert fleet.client.config(CONFIG)["current"] == first["sha256"]
    done = soon(lambda: [job for job in stage_jobs(fleet, "selfplay", "done") if number(job) > newest], "games", fleet)
    assert order_of(fleet, done[0]["id"])["player"].endswith(first["sha256"])
    assert any("to see whether it can" in each.why for each in config_of(fleet).switches)  # it may go on at once


def test_without_its_model_stages_rest_and_say_why_and_nothing_else_suffers(later: Killed, hostler: Hostler) -> None:
    fleet = later.fleet
    spoilt: dict[Path, bytes] = {}
    rest = soon(lambda: spoil_until_it_rests(fleet, spoilt), "a rest that has grown", fleet)
    assert "damaged" in rest["why"]
    said = hostler(fleet, "train", "list")
    assert said.status == 0, said.err
    assert "rests for" in said.out
    assert any(file.name in "".join(said.out.split()) for file in spoilt)
    beside = fleet.python("pass"), *fleet.client.submit_jobs([SWEEP])
    assert [fleet.over(job)["job"]["state"] for job in beside] == ["done", "done"]
    for file, content in spoilt.items():
        file.write_bytes(content)


def test_sigterm_lets_what_runs_end_and_other_settings_end_a_rest(later: Killed) -> None:
    fleet = later.fleet
    fleet.signal(signal.SIGTERM)
    assert fleet.ended() == 0
    fleet.settle(configs=[tiny(later.holds.env, **LATER, weight=2.0)])
    later.holds.at("selfplay", "segment")
    fleet.start()
    process = later.holds.held("selfplay", fleet)
    (job,) = soon(lambda: of_process(fleet, "selfplay", process.pid), "the held job as a running one", fleet)
    running = [each["id"] for each in stage_jobs(fleet, "selfplay", "running")]
    fleet.signal(signal.SIGTERM)
    until(lambda: fleet.printed().count("draining") == 2, "the word that it drains", log=fleet.log)
    assert process.is_running()
    later.holds.release("selfplay")
    assert fleet.controller is not None
    assert fleet.controller.wait(LOOP_PATIENCE_S) == 0
    with journal_of(fleet) as (core, entries):
        assert {str(core.state.jobs[each].state) for each in running} == {"done"}
        (done,) = (each.seq for each in entries if isinstance(each.event, JobDone) and each.event.job == job)
        assert not [each for each in entries if each.seq > done and isinstance(each.event, AttemptLeased)]


def test_all_of_it_has_left_nothing_half_done(later: Killed) -> None:
    files = {f"{name}.segment.npz": segment for name, segment in config_of(later.fleet).segments.items()}
    (spoilt,) = (name for name, segment in files.items() if f"{name} is damaged" in (segment.refused or ""))
    assert damaged(later.fleet) == [spoilt]


def test_a_disk_that_is_full_during_export(tmp_path: Path) -> None:
    holds = Holds(tmp_path / "holds")
    little: View = {stage: {"resources": {"disk_gb": 0.0}} for stage in STAGES}
    (tmp_path / "state").mkdir(mode=0o700)
    with (
        small_disk(tmp_path / "state" / "artifacts", "8m") as disk,
        a_fleet(tmp_path, configs=[tiny(holds.env, **little)]) as fleet,
    ):
        holds.at("export", "reading")
        fleet.start()
        holds.held("export", fleet)
        ballast = fill(disk)
        holds.release("export")
        rest = soon(lambda: resting(fleet, "export"), "the export that fails", fleet)
        assert ".dataset.npz" in rest["why"]
        assert "No space left" in rest["why"]
        assert "bytes are free" in rest["why"]
        assert fleet.client.history(CONFIG)["datasets"] == []
        ballast.unlink()
        assert not [path for path in files_below(disk) if ".dataset.npz" in path.name]
        soon(lambda: fleet.client.history(CONFIG)["datasets"], "a dataset, once there is room", fleet)
        fleet.signal(signal.SIGTERM)
        assert fleet.ended() == 0


def spoil_until_it_rests(fleet: Fleet, spoilt: dict[Path, bytes]) -> View | None:
    """Damage the current model, whichever it is: a candidate under way may still take its place.

    The rest of a stage that has failed more than once because of that, and rests longer for it.
    """
    config = fleet.client.config(CONFIG)
    file = file_of(fleet, config["current"])
    if file not in spoilt:
        spoilt[file] = file.read_bytes()
        flip(file)
    rests = [rest for rest in config["resting"] if rest["failures"] > 1]
    return next((rest for rest in rests if any(file.name in rest["why"] for file in spoilt)), None)


def resting(fleet: Fleet, stage: str) -> View | None:
    """The rest of a stage."""
    rests = fleet.client.config(CONFIG)["resting"]
    return next((rest for rest in rests if rest["stage"] == stage), None)


def of_process(fleet: Fleet, stage: str, pid: int) -> list[str]:
    """The running jobs of a stage whose process this is; a job that ends while it is looked at is left out."""
    details = [fleet.client.job(job["id"]) for job in stage_jobs(fleet, stage, "running")]
    return [each["job"]["id"] for each in details if each["attempt"] is not None and each["attempt"]["pid"] == pid]


def number(job: View) -> int:
    """Jobs are numbered as they come."""
    return int(job["id"][1:])
