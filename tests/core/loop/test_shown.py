"""What people are shown of loops, and what the state keeps of them."""

from __future__ import annotations

import pytest

from hostler.core.loop.claims import velocity_of
from hostler.core.loop.views import config_view
from hostler.core.views import job_detail, queue_rows
from hostler.learning.ratings import fit, fit_live
from hostler.model import inputs
from hostler.model.work import WorkKind
from tests.core.loop.builders import NAME, loop, order_of, played, small


def test_the_queue_is_shown_while_a_stage_rests() -> None:
    world = loop(small())
    job = world.until_running(WorkKind.TRAINING)
    world.end(job, {"schema": 1, "error": "the disk is full"}, exit_code=1)
    (rest,) = config_view(world.config(), world.now).resting
    assert "the disk is full" in rest.why
    rows = queue_rows(world.core.state, world.core.index, 100)
    assert [row.work for row in rows] == [WorkKind.SELFPLAY]


def test_a_finished_export_is_remembered_without_its_segments() -> None:
    world = loop(small(), devices=2)
    job = world.until_running(WorkKind.EXPORT)
    assert order_of(job)["segments"]
    world.end(job, world.report(job))
    detail = job_detail(world.core.state, world.core.index, world.core.state.jobs[job.id])
    assert "segments" not in detail.spec.payload.order
    assert detail.spec.payload.order["stage"] == "export"


def test_a_dataset_larger_than_its_segments_is_refused() -> None:
    world = loop(small(), devices=2)
    job = world.until_running(WorkKind.EXPORT)
    report = world.report(job)
    report["dataset"]["positions"] = 2**61
    world.end(job, report)
    assert not world.config().datasets
    assert str(2**61) in (world.core.state.jobs[job.id].why or "")


def test_velocity_counts_a_model_when_it_became_current() -> None:
    world = loop(small(), devices=2)
    world.until(lambda: len(world.config().switches) >= 2 and velocity_of(world.config()) is not None)
    config, found = world.config(), velocity_of(world.config())
    assert found is not None
    first, *_, last = [each for each in config.switches if config.ratings.get(config.evaluated_as(each.model))]
    assert found.days == pytest.approx((last.at - first.at) / 86_400)


def test_players_who_take_part_no_more_keep_the_scale_where_it_was() -> None:
    ladder = [played(f"m{n + 1}", f"m{n}", [True, True, False]) for n in range(6)]
    matches = [played("m0", "random", [True, True, False]), *ladder]
    whole = fit(matches, {"random": 0.0}, [])
    frozen = {f"m{n}": whole[f"m{n}"].elo for n in range(3)}  # type: ignore[union-attr]
    live = fit_live(
        [each for each in matches if {each.a, each.b} - frozen.keys() - {"random"}], {"random": 0.0}, frozen
    )
    assert not frozen.keys() & live.keys()
    assert live["m6"].elo == pytest.approx(whole["m6"].elo, abs=60)  # type: ignore[union-attr]


def test_an_unrated_player_is_not_forgotten_when_a_fit_does_not_know_it() -> None:
    world = loop(small(), devices=2)
    world.until(lambda: any(world.config().ratings.values()))
    config = world.config()
    player, known = next((name, rating) for name, rating in config.ratings.items() if rating is not None)
    config.matches.append(played("x", "y", [True]))
    world.tell(inputs.Fitted(config=NAME, matches=len(config.matches), ratings={player: None, "x": None}))
    assert config.ratings[player] == known
    assert config.ratings["x"] is None
