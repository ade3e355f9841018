"""A self-improvement loop on a real Slurm: each stage in its own partition, and the promoted model back here."""

from __future__ import annotations

from pathlib import Path

from hostler.model.learning import ModelStatus
from hostler.model.work import JobState, WorkKind
from tests.integration.loops import CONFIG, LOOP_PATIENCE_S, damaged, file_of, journal_of, tiny
from tests.slurm.fleets import ClusterFleet, a_cluster_fleet, when
from tests.slurm.lab import Lab

STAGES = {
    "gpu-train": {"work": ["training", "export"]},
    "gpu-selfplay": {"work": ["selfplay"], "slurm": {"max_jobs": 2}},
    "cpu-eval": {"work": ["evaluation"], "slurm": {"max_jobs": 2}},
}

STAGE_KINDS = {WorkKind.SELFPLAY, WorkKind.EXPORT, WorkKind.TRAINING, WorkKind.EVALUATION}


def test_a_loop_comes_to_a_promoted_model(tmp_path: Path, slurm_accounted: Lab) -> None:
    resources = {kind: {"memory_gb": 4, "cpus_per_gpu": 2} for kind in ("training", "selfplay", "evaluation", "export")}
    cluster = {"account": "research", "qos": "normal", "resources": resources}
    loop = tiny(
        {"OMP_NUM_THREADS": "1"},
        selfplay={"games": 48, "segment_games": 16},
        idle_after={"promotions": 1, "candidates": 5, "failures": 3},
    )
    with a_cluster_fleet(
        tmp_path, slurm_accounted, partitions=tuple(STAGES), nodes=STAGES, slurm=cluster, configs=[loop]
    ) as fleet:
        fleet.launch("--until-idle")
        assert fleet.controller is not None
        assert fleet.controller.wait(4 * LOOP_PATIENCE_S) == 0, fleet.log()
        _is_as_asked(fleet)


def _is_as_asked(fleet: ClusterFleet) -> None:
    with journal_of(fleet) as (core, _):
        config, jobs = core.state.configs[CONFIG], core.state.jobs
    assert config.promotions == 1
    assert damaged(fleet) == []
    for name in [name for name, model in config.models.items() if model.status is ModelStatus.PROMOTED]:
        assert file_of(fleet, name).stat().st_size > 0
    assert {each.spec.work for each in jobs.values() if each.state is JobState.DONE} >= STAGE_KINDS
    assert {event["device"].partition("/")[0] for event in fleet.story("attempt.leased")} == set(STAGES)
    modes = {event["node"]: event["mode"] for event in fleet.story("batch.requested")}
    assert modes == {"gpu-train": "job", "gpu-selfplay": "array", "cpu-eval": "job"}
    when(lambda: not fleet.slurm_jobs(), "an empty queue", fleet)
    assert not fleet.story("result.refused")
