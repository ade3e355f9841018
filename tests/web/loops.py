"""Histories of training configs, made up; and a desk that shows them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hostler.model.errors import Conflict, NotFound
from hostler.model.inputs import Asked, Input, RollBack
from hostler.model.learning import CurvePoint, Goal, Losses, ModelStatus, Rating
from hostler.model.views import (
    ConfigHistory,
    ConfigView,
    DatasetView,
    HourView,
    ModelView,
    RatingPoint,
    RestView,
    Status,
    TrialView,
    VelocityView,
)
from hostler.model.work import WorkKind
from tests.web.core_desk import CoreDesk

NOON = 1_750_000_000.0 // 86400 * 86400 + 43200
"""Noon of some day, UTC."""
HOUR = 3600.0
HOSTILE = "x\x1b[2J\n</title><script>alert(1)</script>\u202e; rm -rf ~"


def sha(name: object) -> str:
    """A SHA-256 that depends on `name` alone."""
    return hashlib.sha256(str(name).encode()).hexdigest()


def rating(elo: float, half: float, games: int = 200) -> Rating:
    """A rating known to `half` Elo."""
    return Rating(elo=elo, low=elo - half, high=elo + half, games=games)


def empty_view(name: str) -> ConfigView:
    """A config that was declared and of which nothing is known yet."""
    return ConfigView(
        name=name,
        game={"factory": "hostler.workloads.beacons.game:make", "params": {"board": "hex8", "players": 2}},
        players=2,
        weight=1.0,
        retired=False,
        state="open",
        next="training: there is no model yet",
        current=None,
        generation=None,
        since=None,
        player=None,
        rating=None,
        velocity=None,
        trial=None,
        games=0,
        games_per_h=None,
        fresh_games=0,
        data_age_s=None,
        accepted_share=None,
        duplicate_share=None,
        datasets=0,
        models=0,
        promotions=0,
        rejections=0,
        stages={},
        resting=(),
        goal=None,
    )


def empty(name: str) -> ConfigHistory:
    """The history of `empty_view`."""
    return ConfigHistory(config=empty_view(name), models=(), datasets=(), ratings=(), players={}, hours=())


def busy(name: str, generations: int = 12) -> ConfigHistory:
    """A config that has learnt: every third candidate was rejected, the newest is on trial."""
    models = tuple(_model(name, number, generations) for number in range(generations))
    promoted = [model for model in models if model.status is ModelStatus.PROMOTED]
    last = promoted[-1]
    models = tuple(replace(model, current=model is last) for model in models)
    ratings = tuple(
        RatingPoint(at=model.decided_at or model.made_at, player=f"gumbel-64@{model.sha256}", rating=model.rating)
        for model in promoted
        if model.rating is not None
    )
    datasets = tuple(_dataset(name, number) for number in range(1, generations))
    hours = tuple(
        HourView(at=NOON + hour * HOUR, games=0 if hour == 3 else 180 + 17 * hour % 60, positions=11000, cpu_s=3000.0)
        for hour in range(generations)
    )
    view = replace(
        empty_view(name),
        next="evaluation: the trial of model 11 goes on",
        current=last.sha256,
        generation=last.number,
        since=last.decided_at,
        player=f"gumbel-64@{last.sha256}",
        rating=last.rating,
        velocity=VelocityView(per_day=812.4, low=655.0, high=969.9),
        trial=TrialView(
            candidate=models[-1].sha256,
            against=last.sha256,
            groups=37,
            score=0.5541,
            llr=1.234,
            lower=-2.944,
            upper=2.944,
        ),
        games=12_345,
        games_per_h=187.3,
        fresh_games=260,
        data_age_s=1260.0,
        accepted_share=0.983,
        duplicate_share=0.012,
        datasets=len(datasets),
        models=len(models),
        promotions=len(promoted) - 1,
        rejections=sum(model.status is ModelStatus.REJECTED for model in models),
        stages={WorkKind.SELFPLAY: 2, WorkKind.EVALUATION: 1},
        goal=Goal(promotions=20),
    )
    players: dict[str, Rating | None] = {
        f"gumbel-64@{model.sha256}": model.rating for model in models if model.rating is not None
    }
    players |= {"random": rating(0, 0, 4000), "greedy": rating(385, 0, 900), "mc-200": rating(760.5, 0, 900)}
    return ConfigHistory(config=view, models=models, datasets=datasets, ratings=ratings, players=players, hours=hours)


def losing(name: str, words: str = HOSTILE) -> ConfigHistory:
    """A config that gets worse, rests after failures, and says it with hostile words."""
    made = busy(name, 6)
    ratings = tuple(replace(point, rating=rating(300 - 40 * number, 60)) for number, point in enumerate(made.ratings))
    view = replace(
        made.config,
        name=name,
        next=f"export rests: {words}",
        rating=ratings[-1].rating,
        velocity=VelocityView(per_day=-41.5, low=-120.0, high=37.0),
        trial=None,
        data_age_s=200_000.0,
        duplicate_share=0.4,
        resting=(RestView(stage=WorkKind.EXPORT, failures=3, until=NOON + 1e6, why=words),),
        retired=True,
        state="retired",
    )
    models = tuple(replace(model, why=words if model.why else None) for model in made.models)
    return replace(made, config=view, models=models, ratings=ratings)


def _model(name: str, number: int, generations: int) -> ModelView:
    at = NOON + number * HOUR
    decided = number < generations - 1
    rejected = decided and number % 3 == 2
    status = ModelStatus.REJECTED if rejected else ModelStatus.PROMOTED if decided else ModelStatus.CANDIDATE
    return ModelView(
        config=name,
        number=number,
        sha256=sha((name, number)),
        bytes=345_678,
        made_at=at,
        base=None if number == 0 else sha((name, number - 1)),
        dataset=None if number == 0 else sha((name, number, "dataset")),
        steps=0 if number == 0 else 1200,
        status=status,
        current=False,
        decided_at=at + 1800 if decided else None,
        why=_why(number, status),
        rating=rating(900 * (1 - math.exp(-number / 4)) - (90 if rejected else 0), 35 + 200 / (number + 1))
        if decided
        else None,
        before=None if number == 0 else Losses(policy=4.1 - 0.08 * number, value=0.66 - 0.01 * number),
        after=None if number == 0 else Losses(policy=3.9 - 0.08 * number, value=0.64 - 0.01 * number),
        curve=() if number == 0 else tuple(_curve(number)),
    )


def _why(number: int, status: ModelStatus) -> str | None:
    return {
        ModelStatus.REJECTED: "llr -2.96 <= -2.94 after 112 groups: no better than 0 Elo (score 0.487)",
        ModelStatus.PROMOTED: "the first model"
        if number == 0
        else "llr 2.97 >= 2.94 after 48 groups: better by 50 Elo (score 0.594)",
    }.get(status)


def _curve(number: int) -> Sequence[CurvePoint]:
    return [
        CurvePoint(
            step=step,
            policy=4.1 - 0.08 * number - step / 6000 + 0.02 * math.sin(step),
            value=0.66 - 0.01 * number - step / 40_000,
            validation_policy=4.12 - 0.08 * number - step / 6500 if step % 300 == 0 else None,
            validation_value=0.67 - 0.01 * number - step / 45_000 if step % 300 == 0 else None,
        )
        for step in range(0, 1201, 100)
    ]


def _dataset(name: str, number: int) -> DatasetView:
    return DatasetView(
        config=name,
        sha256=sha((name, number, "dataset")),
        made_at=NOON + number * HOUR - 600,
        games=190 * number,
        positions=11_400 * number,
        segments=12 * number,
        offered=200 * number,
        rejected={"duplicate": 3 * number, "length": 7 * number},
        quality={"replay": 1.0, "unique": 0.985 - 0.01 * (number % 3), "strength": None if number < 3 else 0.95},
        bootstrap=number < 3,
    )


class LoopDesk(CoreDesk):
    """A desk with made-up configs; a roll-back is noted and, within reason, done."""

    def __init__(self, *histories: ConfigHistory) -> None:
        super().__init__()
        self.histories = {each.config.name: each for each in histories}
        self.rolled_back: list[RollBack] = []

    def status(self) -> Status:
        return replace(super().status(), at=NOON + 11.4 * HOUR)

    def configs(self) -> Sequence[ConfigView]:
        return [each.config for each in self.histories.values()]

    def config(self, name: str) -> ConfigView:
        return self.history(name).config

    def history(self, name: str) -> ConfigHistory:
        if name not in self.histories:
            raise NotFound(f"there is no training config {name!r}; `hostler train list` lists them")
        return self.histories[name]

    def models(self, name: str | None = None) -> Sequence[ModelView]:
        return [view for each in self._named(name) for view in each.models]

    def datasets(self, name: str | None = None) -> Sequence[DatasetView]:
        return [view for each in self._named(name) for view in each.datasets]

    def _named(self, name: str | None) -> Sequence[ConfigHistory]:
        return list(self.histories.values()) if name is None else [self.history(name)]

    async def tell(self, *inputs: Input) -> Sequence[Any]:
        given = inputs[0].given if isinstance(inputs[0], Asked) else inputs[0]
        if not isinstance(given, RollBack):
            return await super().tell(*inputs)
        try:
            return [self._roll_back(given)]
        except (NotFound, Conflict) as error:
            return [error]

    def _roll_back(self, given: RollBack) -> str:
        made = self.history(given.config)
        earlier = [model for model in made.models if model.status is ModelStatus.PROMOTED and not model.current]
        found = [model for model in reversed(earlier) if model.sha256.startswith(given.model or "")]
        if not found:
            raise NotFound(f"{given.config} has no earlier model {given.model!r}")
        self.rolled_back.append(given)
        view = replace(made.config, current=found[0].sha256, generation=found[0].number)
        self.histories[given.config] = replace(made, config=view)
        return found[0].sha256
