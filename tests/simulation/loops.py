"""Training configs for virtual fleets, with everything small."""

from __future__ import annotations

from typing import Any

from hostler.model.learning import (
    ConfigSpec,
    EvaluationSpec,
    ExportSpec,
    GameRef,
    Goal,
    PromotionSpec,
    SelfplaySpec,
    StageSpec,
    TrainingSpec,
)

ANCHORS = {"random": -200.0, "greedy": 100.0}
STAGE = StageSpec(command=("virtual",))


def config(name: str = "tiny_2p", *, players: int = 2, goal: Goal | None = None, **fields: Any) -> ConfigSpec:
    """A config that comes to its first candidate within some hundred games."""
    return ConfigSpec(
        name=name,
        game=GameRef(factory="virtual:game", params={"players": players}, players=players, anchors=ANCHORS),
        selfplay=SelfplaySpec(stage=STAGE, games=32, segment_games=8),
        export=ExportSpec(stage=STAGE, min_games=60, fresh_games=60, window_games=400),
        training=TrainingSpec(stage=STAGE, batch=64, max_steps=400),
        evaluation=EvaluationSpec(stage=STAGE, groups=12, precision_elo=120.0, max_groups=48),
        promotion=PromotionSpec(elo0=0.0, elo1=80.0, max_groups=120),
        goal=goal,
        **fields,
    )
