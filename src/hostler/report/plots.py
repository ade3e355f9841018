"""The pictures of a training config's history. Each is an `<svg>` element, or `None` where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from hostler.model.learning import CurvePoint, ModelStatus
from hostler.model.views import ConfigHistory, DatasetView, ModelView, RatingPoint
from hostler.report.drawing import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SKY,
    WHOLE_WIDTH_IN,
    Plot,
    days,
    legend,
    named,
    time_axis,
)

LEAST_SPAN_ELO = 100.0
HOUR_S = 3600.0
MOST_LABELS = 24
MOST_DATASETS = 60
DUPLICATE = "duplicate"
REASON_COLOURS = (RED, ORANGE, SKY, PURPLE, GREEN, GREY)
"""Of the reasons to refuse a game; the last is that of all further ones together."""


def rating_plot(history: ConfigHistory, now: float) -> str | None:
    """The current model's rating as it was known at each time, with its interval; promotions, rejections, anchors."""
    points = history.ratings
    if not points:
        return None
    plot = Plot(height_in=4.2, width_in=WHOLE_WIDTH_IN)
    (axes,) = plot.axes
    at = days([*(point.at for point in points), max(now, points[-1].at)])
    elo, low, high = _held(points)
    axes.fill_between(at, low, high, step="post", color=BLUE, alpha=0.18, linewidth=0, label="95 % interval")
    axes.step(at, elo, where="post", color=BLUE, linewidth=1.4, label="current model")
    axes.plot(at[:-1], elo[:-1], ".", color=BLUE, markersize=4)
    axes.set_ylim(*_rating_range(points))
    _mark_rejections(axes, history.models)
    _mark_promotions(axes, history.models)
    _mark_anchors(axes, history)
    axes.set_ylabel("Elo")
    time_axis(axes, points[0].at, max(now, points[-1].at))
    legend(axes)
    return plot.svg()


def losses_plot(history: ConfigHistory) -> str | None:
    """Losses over the optimiser steps of all trainings, one after the other."""
    trained = [model for model in history.models if model.curve]
    if not trained:
        return None
    plot = Plot(panels=2)
    begin = 0
    for index, model in enumerate(trained):
        colour = GREY if model.status is ModelStatus.REJECTED else BLUE
        _draw_losses(plot.axes, model.curve, begin, colour, label=index == 0)
        begin += model.steps
        for axes in plot.axes:
            axes.axvline(begin, color=PALE, linewidth=0.7)
    top, bottom = plot.axes
    top.set_ylabel("policy, nats")
    bottom.set_ylabel("value, nats")
    bottom.set_xlabel("optimiser steps of all trainings, in their order; grey: the model was rejected")
    legend(top)
    return plot.svg()


def games_plot(history: ConfigHistory, now: float) -> str | None:
    """Self-play games of each hour; the hour that is not over is hatched."""
    hours = history.hours
    if not hours:
        return None
    plot = Plot()
    (axes,) = plot.axes
    over = [hour for hour in hours if hour.at + HOUR_S <= now]
    running = [hour for hour in hours if hour.at + HOUR_S > now]
    for group, hatch, label in ((over, None, "whole hours"), (running, "////", "the hour that is not over")):
        if group:
            at = days([hour.at for hour in group])
            games = [hour.games for hour in group]
            colour = BLUE if hatch is None else "white"
            axes.bar(
                at, games, 0.9 / 24, align="edge", color=colour, edgecolor=BLUE, hatch=hatch, linewidth=0.5, label=label
            )
    axes.set_ylabel("games / h")
    axes.set_ylim(bottom=0)
    time_axis(axes, hours[0].at, max(now, hours[-1].at + HOUR_S))
    legend(axes)
    return plot.svg()


def age_plot(history: ConfigHistory, now: float) -> str | None:
    """How old the newest dataset was at each time."""
    made = [dataset.made_at for dataset in history.datasets]
    if not made:
        return None
    plot = Plot()
    (axes,) = plot.axes
    at: list[float] = []
    age: list[float] = []
    for begin, end in zip(made, [*made[1:], max(now, made[-1])], strict=True):
        at += [begin, end]
        age += [0.0, (end - begin) / HOUR_S]
    axes.plot(days(at), age, color=BLUE, linewidth=1.2)
    axes.plot(days(made), [0.0] * len(made), "|", color=BLUE, markersize=7)
    axes.set_ylabel("hours")
    axes.set_ylim(bottom=0)
    time_axis(axes, made[0], max(now, made[-1]))
    return plot.svg()


def rejections_plot(history: ConfigHistory) -> str | None:
    """What share of each dataset's window the quality gate refused, and why; duplicates at the bottom."""
    datasets = [each for each in history.datasets if each.offered][-MOST_DATASETS:]
    if not datasets:
        return None
    plot = Plot()
    (axes,) = plot.axes
    first = len(history.datasets) - len(datasets) + 1
    numbers = list(range(first, first + len(datasets)))
    below = [0.0] * len(datasets)
    for (reason, shares), colour in zip(_refused_shares(datasets), REASON_COLOURS, strict=False):
        axes.bar(numbers, shares, 0.8, bottom=below, color=colour, label=named(reason))
        below = [under + share for under, share in zip(below, shares, strict=True)]
    axes.set_ylabel("% of the games offered")
    axes.set_xlabel("dataset")
    axes.set_ylim(0, max(1.0, *(share * 1.1 for share in below)))
    axes.set_xlim(first - 0.7, numbers[-1] + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes)
    return plot.svg()


def _held(points: Sequence[RatingPoint]) -> tuple[list[float], list[float], list[float]]:
    """Elo and bounds of all points, the last of them once more: it holds until now."""
    held = [point.rating for point in (*points, points[-1])]
    return [each.elo for each in held], [each.low for each in held], [each.high for each in held]


def _rating_range(points: Sequence[RatingPoint]) -> tuple[float, float]:
    """All values, and of the intervals as much as leaves the values readable."""
    least, most = min(point.rating.elo for point in points), max(point.rating.elo for point in points)
    room = max(most - least, LEAST_SPAN_ELO)
    low = max(min(point.rating.low for point in points), least - room)
    high = min(max(point.rating.high for point in points), most + room)
    spare = max(high - low, LEAST_SPAN_ELO) * 0.06
    return low - spare, high + spare


def _mark_rejections(axes: Axes, models: Sequence[ModelView]) -> None:
    found = [
        (model.decided_at, model.rating)
        for model in models
        if model.status is ModelStatus.REJECTED and model.rating is not None and model.decided_at is not None
    ]
    if found:
        elo = [rating.elo for _, rating in found]
        axes.plot(days([at for at, _ in found]), elo, "x", color=GREY, markersize=5, label="rejected")


def _mark_promotions(axes: Axes, models: Sequence[ModelView]) -> None:
    """A line with the number of the model where it became the current one."""
    found = [
        (model.decided_at, model.number)
        for model in models
        if model.status is ModelStatus.PROMOTED and model.number and model.decided_at is not None
    ]
    every = -(-len(found) // MOST_LABELS)
    for index, (at, number) in enumerate(found):
        (when,) = days([at])
        axes.axvline(when, color=GREEN, linewidth=0.8, linestyle=":", label="promotion" if index == 0 else None)
        if index % every == 0:
            place = axes.get_xaxis_transform()
            text = axes.text(when, 0.01, f" {number}", color=GREEN, fontsize=7, transform=place, clip_on=True)
            # One that lies outside must not make room for itself.
            text.set_in_layout(False)


def _mark_anchors(axes: Axes, history: ConfigHistory) -> None:
    """Those that lie within the picture; the page lists all of them."""
    low, high = axes.get_ylim()
    for name, rating in history.players.items():
        if "@" in name or rating is None or not low <= rating.elo <= high:
            continue
        axes.axhline(rating.elo, color=GREY, linewidth=0.8, linestyle="--")
        place = axes.get_yaxis_transform()
        axes.text(1.005, rating.elo, named(name), color=GREY, fontsize=8, va="center", transform=place)


def _draw_losses(axes: Sequence[Axes], curve: Sequence[CurvePoint], begin: int, colour: str, label: bool) -> None:
    """One training: a line of its batches, dots where it was validated."""
    steps = [begin + point.step for point in curve]
    batches = [[point.policy for point in curve], [point.value for point in curve]]
    checked = [[point.validation_policy for point in curve], [point.validation_value for point in curve]]
    for panel, batch, held_out in zip(axes, batches, checked, strict=True):
        panel.plot(steps, batch, color=colour, linewidth=0.9, alpha=0.6, label="batches" if label else None)
        known = [(step, loss) for step, loss in zip(steps, held_out, strict=True) if loss is not None]
        if known:
            at, losses = zip(*known, strict=True)
            panel.plot(at, losses, "o-", color=colour, markersize=3, linewidth=1.2, label="held out" if label else None)


def _refused_shares(datasets: Sequence[DatasetView]) -> list[tuple[str, list[float]]]:
    """Percent of the games offered for each dataset, by reason: duplicates first, then the most frequent."""
    totals: dict[str, int] = {DUPLICATE: 0}
    for dataset in datasets:
        for reason, games in dataset.rejected.items():
            totals[reason] = totals.get(reason, 0) + games
    others = sorted((reason for reason in totals if reason != DUPLICATE), key=lambda reason: (-totals[reason], reason))
    shown = [DUPLICATE, *others[: len(REASON_COLOURS) - 2]]
    rest = others[len(shown) - 1 :]
    groups = [(reason, [reason]) for reason in shown] + ([("other reasons", rest)] if rest else [])
    return [(name, [_percent(dataset, reasons) for dataset in datasets]) for name, reasons in groups]


def _percent(dataset: DatasetView, reasons: Sequence[str]) -> float:
    return 100 * sum(dataset.rejected.get(reason, 0) for reason in reasons) / dataset.offered
