"""Loops of other people: their own commands for every stage, and their own game for Hostler's stages."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hostler.core import Core
from hostler.core.loop.state import Config
from hostler.core.state import Job
from hostler.model.learning import ModelStatus
from hostler.model.work import JobState, StagePayload, WorkKind
from tests.integration.conftest import NODE, Fleet, View, a_fleet, asked_for
from tests.integration.loops import LOOP_PATIENCE_S, STAGES, Holds, damaged, file_of, journal_of, published, tiny

PROGRAM = Path(__file__).with_name("own_loop.py")
REPOSITORY = Path(__file__).parents[2]

BREACHES: Mapping[tuple[str, str], str] = {
    ("selfplay", "no result"): "left no result",
    ("selfplay", "no JSON"): "JSON",
    ("selfplay", "status 1"): "3 coins of 7 are gone",
    ("selfplay", "silent status 1"): "exit status 1",
    ("selfplay", "an error and status 0"): "the coins are gone",
    ("selfplay", "another schema"): "schema",
    ("selfplay", "no games told"): "games",
    ("selfplay", "an unknown field"): "elo",
    ("selfplay", "fewer games"): "it played 16 games, 32 were ordered",
    ("selfplay", "a wrong sum"): "hold 32 games and 320 positions, it says 32 and 321",
    ("selfplay", "a segment twice"): "twice",
    ("selfplay", "the segments of another job"): "was made by",
    ("export", "fewer segments"): "or of other games in them",
    ("export", "more rejected than there are"): "accepted and rejected more",
    ("export", "accepted and refused"): "is refused, yet 16 of its games are accepted",
    ("export", "another count in the dataset"): "the dataset holds 1",
    ("export", "no dataset"): "no dataset and does not say why",
    ("export", "too few accepted"): "a dataset needs 60",
    ("export", "the same dataset again"): "made before",
    ("training", "another base"): "it went on from 0000",
    ("training", "another dataset"): "it used dataset 0000",
    ("training", "fewer positions"): "positions, it read 640 and used 1",
    ("training", "fewer steps"): "it took 1 steps",
    ("training", "nothing measured"): "did not measure what came of it",
    ("training", "the base again"): "nothing was learnt",
    ("evaluation", "another match"): "ordered was",
    ("evaluation", "no games"): "ordered was",
    ("evaluation", "a group of one seat"): "a group is one from each of the",
    ("evaluation", "a tie"): "not one game from each of 2 seats",
    ("evaluation", "a wrong count of games"): "games and tells of",
    ("evaluation", "recorded unasked"): "it recorded 1 of its",
}
"""What a stage does wrong, and what must be said of it."""
FEW = {
    ("selfplay", "no result"),
    ("selfplay", "status 1"),
    ("export", "no dataset"),
    ("training", "fewer steps"),
    ("evaluation", "a tie"),
}
"""Two that any program can commit, and one of each later stage; tests/core/loop/test_contracts.py has them all."""


def own(name: str, fault: tuple[str, str] = ("", ""), **more: object) -> View:
    """A config whose stages are all commands of its owner."""
    words = {
        stage: [sys.executable, str(PROGRAM), stage, *([fault[1]] if stage == fault[0] else [])] for stage in STAGES
    }
    parts: dict[str, View] = {
        "selfplay": {"games": 32, "segment_games": 16},
        "export": {"min_games": 60, "fresh_games": 60, "window_games": 500},
        "training": {"batch": 64, "max_steps": 100, "reuse": [0.1, 10]},
        "evaluation": {"groups": 16, "precision_elo": 400, "max_groups": 16},
    }
    stages = {stage: {"command": words[stage], **part} for stage, part in parts.items()}
    return {"name": name, "players": 2, "promotion": {"elo0": 0, "elo1": 200, "max_groups": 64}, **stages, **more}


def run(fleet: Fleet) -> int:
    """Run it until it is idle."""
    return fleet.launch("--until-idle").wait(LOOP_PATIENCE_S)


def test_a_loop_of_commands_counts_all_once_though_a_stage_and_the_controller_are_killed(tmp_path: Path) -> None:
    """The controller dies while a stage is between writing a segment and naming it; then the stage dies there, too."""
    holds = Holds(tmp_path / "holds")
    config = own("coins", idle_after={"promotions": 1, "candidates": 5, "failures": 3})
    for stage in STAGES:
        config[stage]["env"] = dict(holds.env)
    holds.at("selfplay", "segment", 1)
    with a_fleet(tmp_path, configs=[config]) as fleet:
        fleet.start("--until-idle")
        process = holds.held("selfplay", fleet)
        fleet.kill()
        fleet.start("--until-idle")
        assert process.is_running()
        holds.kill("selfplay", fleet)
        assert fleet.ended() == 0, fleet.log()
        with journal_of(fleet) as (core, _):
            found = core.state.configs["coins"]
            assert stages_done(core) == set(STAGES)
            jobs = [job for job in core.state.jobs.values() if job.spec.work is WorkKind.SELFPLAY]
        assert found.promotions >= 1
        (killed,) = [job for job in jobs if job.failures]
        assert dict(killed.failures) == {"signal": 1}
        # It is begun anew, unless games of others have brought the loop to its goal meanwhile.
        assert (killed.attempts, killed.state) in [(2, JobState.DONE), (1, JobState.CANCELLED)]
        there, counted = published(fleet, ".segment.npz"), set(found.segments)
        assert counted <= there
        # What its killed process had named counts for nobody, when the job was called off before it was begun anew.
        off = {order(job)["seed"] for job in jobs if job.state is JobState.CANCELLED}
        assert {int(file_of(fleet, name).read_text().rpartition(" ")[2]) for name in there - counted} <= off
        played = sum(job.result["games"] for job in jobs if job.result is not None)
        assert sum(segment.games for segment in found.segments.values()) == played
        # The killed program leaves its draft, under a name that is no artifact's.
        assert [name for name in damaged(fleet) if not name.startswith(".")] == []


@pytest.mark.long
def test_a_game_that_is_no_part_of_hostler_goes_through_its_stages(tmp_path: Path) -> None:
    game = {"factory": "tests.workloads.alphazero.trivial:make", "params": {"cells": 25}, "players": 2}
    config = tiny({}, name="spacing", idle_after={"promotions": 1, "candidates": 1, "failures": 3}, **game)
    node = {**NODE, "env": {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}}
    with a_fleet(tmp_path, nodes=[node], configs=[config]) as fleet:
        status = run(fleet)
        with journal_of(fleet) as (core, _):
            candidate = list(core.state.configs["spacing"].models.values())[1]
            assert stages_done(core) == set(STAGES)
            assert not [job for job in core.state.jobs.values() if job.state is JobState.FAILED]
        # Who has the last move in this game is decided early: a better policy may or may not win more.
        assert candidate.status is (ModelStatus.PROMOTED if status == 0 else ModelStatus.REJECTED), fleet.log()
        assert "groups" in (candidate.why or "")
        assert damaged(fleet) == []


def order(job: Job) -> Mapping[str, Any]:
    """What a stage's job was told to do."""
    assert isinstance(job.spec.payload, StagePayload)
    return job.spec.payload.order


def stages_done(core: Core) -> set[str]:
    """Stages of which a job is done."""
    return {job.spec.work.value for job in core.state.jobs.values() if job.state is JobState.DONE}


@pytest.fixture(scope="module")
def breaches(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[tuple[str, str], Config]]:
    """What became of a loop with each fault that is asked for."""
    goal = {"promotions": 5, "candidates": 5, "failures": 1}
    names = {fault: f"c{number}" for number, fault in enumerate(asked_for(request, "fault", BREACHES))}
    configs = [own(name, fault, idle_after=goal) for fault, name in names.items()]
    with a_fleet(tmp_path_factory.mktemp("breaches"), configs=configs) as fleet:
        assert run(fleet) == 1, fleet.log()
        assert f"{len(names)} of {len(names)} configs missed their goal" in (fleet.path / "up.log").read_text()
        with journal_of(fleet) as (core, _):
            yield {fault: core.state.configs[name] for fault, name in names.items()}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, id="-".join(each), marks=[] if each in FEW else pytest.mark.long) for each in BREACHES],
)
def test_a_command_that_breaks_its_contract_fails_loudly(
    breaches: Mapping[tuple[str, str], Config], fault: tuple[str, str]
) -> None:
    config = breaches[fault]
    assert set(config.rests) == {WorkKind(fault[0])}
    assert BREACHES[fault] in config.rests[WorkKind(fault[0])].why
