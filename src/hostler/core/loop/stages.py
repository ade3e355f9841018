"""From what a config needs to the job that does it: the order of each stage, complete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostler.core.loop.state import RECORDED, Config, Dataset, Segment, Trial
from hostler.learning.plan import best_opponents
from hostler.model.codec import digest
from hostler.model.learning import ModelStatus, Rating, StageSpec, player_of
from hostler.model.work import FailureClass, JobSpec, Retry, StagePayload, WorkKind
from hostler.policy.pacing import Pace, steps_allowed

ACCEPTED_AT_LEAST = 0.75
"""Share of what was accepted last time that the quality gate is counted on to accept of games it has not seen."""
WINDOW_SEGMENTS = 2000
"""Most segments of a window. An export tells of each in some 300 bytes, and a result may have a mebibyte."""
TRAININGS_MAX = 2
"""Trainings that may fail on a dataset. The second has another seed: that nothing was learnt can be chance."""


def job_for(config: Config, stage: WorkKind, now: float) -> JobSpec:
    """The job that does a stage of a config as things stand."""
    spec = stage_spec(config, stage)
    payload = StagePayload(
        kind=stage.value,  # type: ignore[arg-type]  # the four kinds that are stages
        schema=1,
        config=config.spec.name,
        argv=spec.command,
        env=spec.env,
        secrets=spec.secrets,
        cwd=spec.cwd,
        order={**_frame(config, stage), **ORDERS[stage](config)},
    )
    return JobSpec(
        name=f"{stage} {config.spec.name}",
        payload=payload,
        resources=spec.resources,
        priority=config.spec.priority,
        retry=_retry(spec.retry),
        walltime_s=spec.walltime_s,
        batch=spec.batch,
    )


def stage_spec(config: Config, stage: WorkKind) -> StageSpec:
    """How the stage of a config runs."""
    spec = config.spec
    return {
        WorkKind.SELFPLAY: spec.selfplay.stage,
        WorkKind.EXPORT: spec.export.stage,
        WorkKind.TRAINING: spec.training.stage,
        WorkKind.EVALUATION: spec.evaluation.stage,
    }[stage]


def window(config: Config) -> list[Segment]:
    """The newest segments that are not refused, oldest first: up to as many games as the window holds.

    Training uses every position of a dataset, so the window ends sooner where new positions do not allow as many steps
    as that takes; but not before there are enough games for a dataset at all. Nor does it ever hold more positions
    than the longest training visits, unless those fewest games do.
    """
    chosen: list[Segment] = []
    games, promising, positions, whole = 0, 0, 0.0, 0
    trainable, spec = _trainable_positions(config), config.spec
    most = spec.training.max_steps * spec.training.batch
    for segment in (each for each in reversed(config.segments.values()) if each.refused is None):
        whole += segment.positions
        enough = promising >= spec.export.min_games and (positions >= trainable or whole > most)
        if enough or games >= spec.export.window_games or len(chosen) == WINDOW_SEGMENTS:
            break
        chosen.append(segment)
        games += segment.games
        promising += segment.promising
        positions += segment.positions * segment.promising / segment.games
    return chosen[::-1]


def promising(config: Config) -> list[Segment]:
    """Segments of the window whose generator will not be found too weak."""
    strength = _strength(config)
    if strength is None:
        return window(config)
    welcome = {player for player, elo in strength["players"].items() if elo >= strength["floor"]}
    if config.spec.export.include_evaluation:
        welcome.add(RECORDED)
    return [each for each in window(config) if each.player in welcome]


def generator_refused(config: Config) -> str | None:
    """Why the games that self-play would make now would be refused, whatever they are like."""
    strength, player = _strength(config), selfplay_player(config)
    if strength is None:
        return None
    elo, floor = strength["players"].get(player), strength["floor"]
    if elo is None:
        return f"self-play by {player} has no rating to set beside the current model's: its games would be refused"
    if elo >= floor:
        return None
    known = f"{elo:.0f} Elo, floor {floor:.0f}"
    return f"self-play by {player} is too weak for the current model ({known}): its games would be refused"


def selfplay_player(config: Config) -> str:
    """Who plays in self-play now."""
    spec = config.spec.selfplay
    return spec.engine if spec.engine != "gumbel" else player_of(spec.engine, spec.simulations, config.current)


def waiting_dataset(config: Config) -> Dataset | None:
    """The newest dataset, if no training has used it. One on which trainings have failed is spent: others will come."""
    newest = next(reversed(config.datasets.values()), None)
    waits = newest is not None and not newest.trained and newest.failures < TRAININGS_MAX
    return newest if waits else None


def untrained_positions(config: Config) -> tuple[int, int]:
    """Positions that no training has had: those the quality gate accepted, and those it has not seen yet."""
    accepted = unseen = 0.0
    trained = _newest_trained(config)
    for segment in reversed(config.segments.values()):
        if segment.sha256 == trained:
            break
        if segment.accepted is None:
            unseen += segment.positions
        else:
            accepted += segment.positions * segment.accepted / segment.games
    return int(accepted), int(unseen)


def steps_for(config: Config) -> int:
    """Steps that training may take of the dataset that waits; 0 where they would not do for all its positions.

    Where even the most steps of a training do not do, it is for the stage to say so.
    """
    dataset, bounds = waiting_dataset(config), pace(config)
    if dataset is None:
        return 0
    accepted, _ = untrained_positions(config)
    steps = steps_allowed(bounds, accepted)
    return steps if steps * bounds.batch >= dataset.ref.positions or steps == bounds.max_steps else 0


def pace(config: Config) -> Pace:
    """The bounds on training per new position."""
    training = config.spec.training
    least, most = training.reuse
    return Pace(least=least, most=most, batch=training.batch, max_steps=training.max_steps)


def _newest_trained(config: Config) -> str | None:
    """The newest segment that a training has had: the last of the window its dataset was chosen from."""
    return next((each.newest for each in reversed(config.datasets.values()) if each.trained), None)


def _trainable_positions(config: Config) -> float:
    """Positions of a dataset that the next training could use, each at least once."""
    accepted, unseen = untrained_positions(config)
    last = config.judgements[-1] if config.judgements else None
    share = ACCEPTED_AT_LEAST * (1.0 if last is None or not last.offered else last.accepted / last.offered)
    bounds = pace(config)
    return float(steps_allowed(bounds, int(accepted + share * unseen)) * bounds.batch)


def _frame(config: Config, stage: WorkKind) -> Mapping[str, Any]:
    seed = int(digest({"config": config.spec.name, "seed": config.spec.seed, "order": config.ordered})[:12], 16)
    game = {"factory": config.spec.game.factory, "params": dict(config.spec.game.params)}
    return {"schema": 1, "stage": stage.value, "config": config.spec.name, "seed": seed, "game": game}


def _selfplay(config: Config) -> Mapping[str, Any]:
    spec = config.spec.selfplay
    return {
        "player": selfplay_player(config),
        "games": spec.games,
        "segment_games": min(spec.segment_games, spec.games),
        "options": dict(spec.stage.options),
    }


def _export(config: Config) -> Mapping[str, Any]:
    spec = config.spec.export
    lengths = config.lengths
    return {
        "segments": [{"sha256": each.sha256, "games": each.games} for each in window(config)],
        "min_games": spec.min_games,
        "quality": spec.quality,
        "strength": _strength(config),
        "lengths": None if lengths is None else {"mean": lengths.mean, "sd": lengths.sd, "games": lengths.games},
        "include_evaluation": spec.include_evaluation,
        **({"options": dict(spec.stage.options)} if spec.stage.options else {}),
    }


def _training(config: Config) -> Mapping[str, Any]:
    spec = config.spec.training
    frame = {"batch": spec.batch, "options": dict(spec.stage.options), "base": config.current}
    dataset = waiting_dataset(config)
    if config.current is None or dataset is None:
        init = {"channels": spec.channels, "blocks": spec.blocks}
        return {**frame, "init": init, "dataset": None, "steps": 0}
    return {
        **frame,
        "init": None,
        "dataset": {"sha256": dataset.ref.sha256, "games": dataset.ref.games, "positions": dataset.ref.positions},
        "steps": steps_for(config),
    }


def _evaluation(config: Config) -> Mapping[str, Any]:
    spec = config.spec.evaluation
    matches = _test_matches(config, config.trial) if config.trial is not None else _ladder_matches(config)
    return {
        "matches": list(matches),
        "options": dict(spec.stage.options),
        "record": config.spec.export.include_evaluation,
    }


ORDERS = {
    WorkKind.SELFPLAY: _selfplay,
    WorkKind.EXPORT: _export,
    WorkKind.TRAINING: _training,
    WorkKind.EVALUATION: _evaluation,
}


def _test_matches(config: Config, trial: Trial) -> Iterator[Mapping[str, Any]]:
    left = config.spec.promotion.max_groups - trial.evidence.groups
    yield {
        "a": config.evaluated_as(trial.candidate),
        "b": config.evaluated_as(trial.against),
        "groups": min(config.spec.evaluation.groups, left),
    }


def _ladder_matches(config: Config) -> Iterator[Mapping[str, Any]]:
    """The current model against those who tell most about it: anchors, and models that were current before."""
    assert config.current is not None
    subject = config.evaluated_as(config.current)
    kept = (switch.model for switch in config.switches if _is_promoted(config, switch.model))
    earlier = {config.evaluated_as(model) for model in kept} - {subject}
    fixed = {name: Rating(elo=elo, low=elo, high=elo, games=0) for name, elo in config.spec.game.anchors.items()}
    ratings = {**{name: config.ratings.get(name) for name in (subject, *sorted(earlier))}, **fixed}
    groups, players = config.spec.evaluation.groups, config.spec.game.players
    for plan in best_opponents(subject, ratings, (*fixed, *sorted(earlier)), groups, players=players):
        yield {"a": subject, "b": plan.opponent, "groups": plan.groups}


def _strength(config: Config) -> Mapping[str, Any] | None:
    """What the quality gate asks of generators; nothing before the first promotion."""
    if not config.is_bootstrapped or config.current is None:
        return None
    rating = config.ratings.get(config.evaluated_as(config.current))
    if rating is None:
        # Nothing is known but that the current model won its test: only its own games will do.
        return {"floor": 0.0, "players": {_generator(config, config.current): 0.0}}
    players = {_generator(config, config.current): rating.elo, **config.spec.game.anchors}
    if "greedy" in players:
        # The fast engine draws from what `greedy` takes the best of: where nobody has rated it, that must do.
        players.setdefault("heuristic", players["greedy"])
    for name in dict.fromkeys(switch.model for switch in config.switches):  # of all models these alone can be promoted
        rated = config.ratings.get(config.evaluated_as(name))
        if rated is not None and _is_promoted(config, name):
            players[_generator(config, name)] = rated.elo
    return {"floor": rating.elo - config.spec.export.max_gap_elo, "players": players}


def _is_promoted(config: Config, model: str) -> bool:
    return config.models[model].status is ModelStatus.PROMOTED


def _generator(config: Config, model: str) -> str:
    return player_of("gumbel", config.spec.selfplay.simulations, model)


def _retry(asked: Retry) -> Retry:
    """A stage that says what is wrong would say it again of the same order; the loop makes another after a rest."""
    budgets = {FailureClass.RESULT: 1, **asked.max_attempts}
    return Retry(max_attempts=budgets, backoff_s=asked.backoff_s, backoff_max_s=asked.backoff_max_s)
