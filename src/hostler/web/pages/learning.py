"""Learning: each training config's loop, whether it really learns, and the tests that its promotions rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.views import ConfigHistory, ConfigView
from hostler.web.desk import Desk
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip

AGE_STEP_S = 10.0


async def list_parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """Every config in a row."""
    rows = [_row(each, desk.status().at) for each in desk.configs()]
    return [strip(desk.status()), Part("configs", "parts/configs.html", {"rows": rows})]


def list_frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Nothing that could be chosen."""
    return {"title": "Learning"}


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """One config: numbers, curves, models with what became of them."""
    history = desk.history(subject.name or "")
    row = _row(history.config, desk.status().at)
    return [
        strip(desk.status()),
        Part("numbers", "parts/config_numbers.html", row, kind="numbers"),
        Part("curves", "parts/curves.html", _curves(history), kind="panel curves"),
        Part("trial", "parts/trial.html", {"trial": history.config.trial, "resting": history.config.resting}),
        Part("models", "parts/models.html", {"models": list(history.models)[::-1], "config": history.config.name}),
    ]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Which config it is."""
    view = desk.config(subject.name or "")
    return {"title": f"Learning: {view.name}", "config": view.name}


LEARNING = Page("learning", "learning.html", list_parts, list_frame)
CONFIG = Page("config", "config.html", parts, frame)


def _row(view: ConfigView, now: float) -> Mapping[str, Any]:
    """A config, rounded to what is seen."""
    velocity = view.velocity
    data_at = None if view.data_age_s is None else round((now - view.data_age_s) / AGE_STEP_S) * AGE_STEP_S
    return {
        "name": view.name,
        "state": view.state,
        "next": view.next,
        "retired": view.retired,
        "generation": view.generation,
        "since": view.since,
        "rating": view.rating,
        "velocity": velocity,
        "learns": None if velocity is None else _verdict(velocity.low, velocity.high),
        "games": view.games,
        "games_per_h": None if view.games_per_h is None else round(view.games_per_h),
        "fresh_games": view.fresh_games,
        "data_at": data_at,
        "accepted_share": view.accepted_share,
        "duplicate_share": view.duplicate_share,
        "promotions": view.promotions,
        "rejections": view.rejections,
        "stages": {str(stage): count for stage, count in view.stages.items() if count},
        "resting": len(view.resting),
        "weight": view.weight,
        "goal": view.goal,
    }


def _verdict(low: float, high: float) -> str:
    """What the interval of the slope allows to say."""
    if low > 0:
        return "gains"
    return "loses" if high < 0 else "cannot be told"


def _curves(history: ConfigHistory) -> Mapping[str, Any]:
    """Only what tells that there is more to draw: the curves themselves come from the API."""
    newest = history.ratings[-1] if history.ratings else None
    newest_hour = history.hours[-1] if history.hours else None
    losses = [model for model in history.models if model.after is not None]
    return {
        "config": history.config.name,
        "ratings": len(history.ratings),
        "newest": None if newest is None else (newest.at, newest.rating.elo, newest.rating.low, newest.rating.high),
        "losses": len(losses),
        "hours": len(history.hours),
        "hour": None if newest_hour is None else (newest_hour.at, newest_hour.games),
    }
