"""A loop, event by event: from its declaration to its goal."""

from __future__ import annotations

from hostler.model import commands, events, inputs
from hostler.model.learning import Goal, ModelStatus
from hostler.model.work import JobState, WorkKind
from tests.core.builders import replayed, snapshot
from tests.core.loop.builders import NAME, loop, match_result, order_of, small


def kinds(given: list[events.Event]) -> list[str]:
    return [event.kind for event in given]


def test_from_declaration_to_goal() -> None:
    world = loop(small(goal=Goal(promotions=1)), devices=2)
    assert kinds(world.events) == ["config.declared", "job.submitted", "attempt.leased"]
    (first,) = world.running(WorkKind.TRAINING)
    assert order_of(first) == {
        "schema": 1, "stage": "training", "config": NAME, "seed": order_of(first)["seed"],
        "game": {"factory": "virtual:game", "params": {"players": 2}},
        "batch": 64, "options": {}, "base": None, "init": {"channels": 32, "blocks": 3}, "dataset": None, "steps": 0,
    }  # fmt: skip
    assert first.spec.priority == 0
    (launch,) = world.commands
    assert isinstance(launch, commands.Launch)
    assert launch.order.inputs == order_of(first)

    world.end(first)
    assert kinds(world.events)[:4] == ["attempt.ended", "config.model", "job.done", "model.promoted"]
    (promoted,) = world.of(events.ModelPromoted)
    assert (promoted.over, promoted.groups, promoted.llr) == (None, 0, None)
    assert promoted.why.startswith("generation 0, untrained")
    zero = promoted.model
    assert world.config().current == zero
    assert world.config().promotions == 0

    # The untrained model is rated and plays against itself, on two devices.
    (ladder,) = world.running(WorkKind.EVALUATION)
    assert {match["b"] for match in order_of(ladder)["matches"]} == {"random", "greedy"}
    assert sum(match["groups"] for match in order_of(ladder)["matches"]) == 12
    (play,) = world.running(WorkKind.SELFPLAY)
    assert order_of(play)["player"] == f"gumbel-64@{zero}"
    assert (order_of(play)["games"], order_of(play)["segment_games"]) == (32, 8)
    assert len(world.waiting(WorkKind.SELFPLAY)) == 1
    assert "score" in (play.wanted or "")

    world.end(ladder)
    (fit,) = (command for command in world.commands if isinstance(command, commands.Fit))
    assert fit.matches == tuple(world.config().matches)
    assert not world.running(WorkKind.EVALUATION), "what to play next is decided with the ratings"
    world.answer_fits()
    assert world.config().ratings[f"gumbel-64@{zero}"] is not None
    assert world.config().rating_history[-1].player == f"gumbel-64@{zero}"

    world.end(play)
    (made,) = world.of(events.SegmentsMade)
    assert (made.job, made.player, len(made.segments)) == (play.id, f"gumbel-64@{zero}", 4)
    assert made.unread, "nobody has opened the files yet"
    assert world.config().fresh_games == 32
    assert world.state.jobs[play.id].result == {"segments": 4, "games": 32, "positions": 32 * 60}

    export = world.until_running(WorkKind.EXPORT)
    window = tuple(each["sha256"] for each in order_of(export)["segments"])
    assert window == tuple(world.config().segments)[:8]
    assert order_of(export)["strength"] is None
    world.end(export)
    assert kinds(world.events)[:4] == ["attempt.ended", "config.judged", "config.dataset", "job.done"]
    (judged,), (dataset,) = world.of(events.SegmentsJudged), world.of(events.DatasetMade)
    assert judged.bootstrap
    assert dataset.segments == window
    assert dataset.unread

    training = world.until_running(WorkKind.TRAINING)
    assert order_of(training)["base"] == zero
    assert order_of(training)["dataset"]["sha256"] == dataset.dataset.sha256
    assert order_of(training)["steps"] == min(dataset.dataset.positions * 8 // 64, 400)
    world.end(training)
    (model,) = world.of(events.ModelMade)
    candidate = model.training.model.sha256
    assert model.unread
    assert world.config().trial is not None
    assert world.config().models[candidate].status is ModelStatus.CANDIDATE

    assert world.until_trial() == candidate
    test = world.test_of()
    assert test is not None
    against = {"a": f"gumbel-64@{candidate}", "b": f"gumbel-64@{zero}", "groups": 12}
    assert order_of(test)["matches"] == [against]
    stale = world.waiting(WorkKind.SELFPLAY)
    world.end(test, match_result(test, a_wins=True))
    assert world.config().trial is not None, "twelve groups do not do"
    world.decide(a_wins=True)
    (won,) = world.of(events.ModelPromoted)
    assert (won.model, won.over, won.groups) == (candidate, zero, 24)
    assert won.llr is not None
    assert "score 1.000 in 24 groups" in won.why
    assert all(world.job_state(job.id) is JobState.CANCELLED for job in stale), "ordered of the model before"
    assert not world.waiting(WorkKind.SELFPLAY), "the goal needs no more games"

    # The goal wants the new model rated, too; then nothing is queued any more and what runs may end.
    assert NAME in world.core.index.open_configs
    world.until(lambda: not world.core.index.open_configs)
    world.until(lambda: not world.config().jobs)
    assert world.core.wake_at() is None
    assert replayed(world.entries).state == world.state
    assert snapshot(world.state) == world.state


def test_a_candidate_that_loses_is_rejected_and_the_loop_goes_on() -> None:
    world = loop()
    candidate = world.until_trial()
    zero = world.config().current
    assert world.decide(a_wins=False) == candidate
    (lost,) = world.of(events.ModelRejected)
    assert (lost.model, lost.over, lost.groups) == (candidate, zero, 24)
    assert "not better by 80 Elo" in lost.why
    assert world.config().current == zero
    assert world.config().trial is None
    world.until(lambda: world.config().candidates == 2)
    assert replayed(world.entries).state == world.state


def test_one_training_at_a_time_and_seeds_differ() -> None:
    world = loop(devices=5)
    seeds = set()
    for _ in range(60):
        running = [job for job in world.state.jobs.values() if not job.state.final]
        assert sum(job.spec.work is WorkKind.TRAINING for job in running) <= 1
        world.step()
    stages = [job for job in world.state.jobs.values() if job.wanted]
    seeds = {order_of(job)["seed"] for job in stages}
    assert len(seeds) == len(stages)


def test_after_a_restart_everything_goes_on_and_unfinished_fits_are_asked_for_again() -> None:
    world = loop(devices=2)
    world.until(lambda: world.fits)
    again = replayed(world.entries)
    outcome = again.handle(world.now + 1.0, inputs.Begin(version="test", epoch=2))
    fits = [command for command in outcome.commands if isinstance(command, commands.Fit)]
    assert [(fit.config, fit.matches) for fit in fits] == [(NAME, tuple(world.config().matches))]
    world.answer_fits()
    again = replayed(world.entries)
    outcome = again.handle(world.now + 1.0, inputs.Begin(version="test", epoch=2))
    assert not [command for command in outcome.commands if isinstance(command, commands.Fit)]
