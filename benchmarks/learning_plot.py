"""The picture of learning.py: the current model's rating over time and over CPU-seconds, among the anchors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hostler.report.drawing import BLUE, GREEN, GREY, legend, style

SIZE_IN = (11.0, 4.2)
SPARE_ELO = 60.0


@dataclass(frozen=True, slots=True)
class Point:
    """A rating as it was known after so many minutes and CPU-seconds."""

    minute: float
    cpu_s: float
    elo: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Promotion:
    """Model `number` became the current one after so many minutes and CPU-seconds."""

    minute: float
    cpu_s: float
    number: int


def draw(points: Sequence[Point], promotions: Sequence[Promotion], anchors: dict[str, float], path: Path) -> None:
    """Write the picture as SVG; the same numbers give the same file."""
    with style():
        figure = Figure(figsize=SIZE_IN, layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _panel(left, points, [point.minute for point in points])
        _panel(right, points, [point.cpu_s for point in points])
        _mark(left, [(each.minute, each.number) for each in promotions])
        _mark(right, [(each.cpu_s, each.number) for each in promotions])
        for axes in (left, right):
            _anchors(axes, anchors)
        _limit(left, points, anchors)
        left.set_xlabel("minutes")
        right.set_xlabel("CPU-seconds of all jobs")
        left.set_ylabel("Elo")
        legend(left)
        figure.savefig(path, format="svg", metadata={"Creator": None, "Date": None})


def _panel(axes: Axes, points: Sequence[Point], at: Sequence[float]) -> None:
    low, high = [point.low for point in points], [point.high for point in points]
    axes.fill_between(at, low, high, step="post", color=BLUE, alpha=0.18, linewidth=0, label="95 % interval")
    axes.step(at, [point.elo for point in points], where="post", color=BLUE, linewidth=1.4, label="current model")


def _mark(axes: Axes, promotions: Sequence[tuple[float, int]]) -> None:
    for index, (at, number) in enumerate(promotions):
        axes.axvline(at, color=GREEN, linewidth=0.8, linestyle=":", label=None if index else "promotion")
        axes.text(at, 0.01, f" {number}", color=GREEN, fontsize=7, transform=axes.get_xaxis_transform())


def _anchors(axes: Axes, anchors: dict[str, float]) -> None:
    for name, elo in anchors.items():
        axes.axhline(elo, color=GREY, linewidth=0.8, linestyle="--")
        axes.text(1.0, elo, f"{name} ", color=GREY, fontsize=8, ha="right", va="bottom", transform=axes.get_yaxis_transform())  # noqa: E501  # fmt: skip


def _limit(axes: Axes, points: Sequence[Point], anchors: dict[str, float]) -> None:
    """All values and anchors; the first intervals, which are wide, are cut off."""
    values = [*(point.elo for point in points), *anchors.values()]
    axes.set_ylim(min(values) - SPARE_ELO, max(values) + SPARE_ELO)
