"""The pictures of a search for a seed. Each is an `<svg>` element, or `None` where there is nothing to draw."""

from __future__ import annotations

import math
from collections import Counter

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hostler.report.drawing import BLUE, GREEN, GREY, ORANGE, PALE, RED, WHOLE_WIDTH_IN, Plot, legend
from hostler.report.searches import SearchTold

SETTLED = 0.01
"""A survivor means something where fewer wrong ones are expected."""
LEAST_E = -40.0
"""E-values below ten to this are all the same to a reader."""
MOST_BARS = 60
MOST_POINTS = 4000
POISSON_SPAN = 4.0
FEWEST_COUNTS = 4


def survivors_plot(search: SearchTold) -> str | None:
    """E-values of the survivors over the range, with the lines that part evidence from chance."""
    if not search.survivors:
        return None
    plot = Plot(height_in=3.2, width_in=WHOLE_WIDTH_IN)
    (axes,) = plot.axes
    places = [(each.item - search.start) / (search.stop - search.start) for each in search.survivors]
    exponents = [max(math.log10(max(each.e_value, 1e-300)), LEAST_E) for each in search.survivors]
    axes.axhspan(0.0, max(1.0, *exponents) + 1, color=PALE, alpha=0.5, linewidth=0, label="E ≥ 1: chance")
    axes.axhline(math.log10(SETTLED), color=RED, linewidth=0.9, linestyle="--", label="E = 0.01")
    axes.plot(places, exponents, "o", color=BLUE, markersize=5, label="survivors")
    axes.set_ylim(min(-3.0, *exponents) - 1, max(1.0, *exponents) + 1)
    axes.set_xlim(-0.01, 1.01)
    axes.set_xlabel(f"place in the range, from {search.start} to {search.stop}")
    _powers_of_ten(axes, "E-value")
    legend(axes)
    return plot.svg()


def chance_plot(search: SearchTold) -> str | None:
    """What chance gives, as a distribution, beside what survived here and in the control."""
    expected = search.expected_so_far
    if search.done_share == 0.0:
        return None
    plot = Plot()
    (axes,) = plot.axes
    here = len(search.survivors)
    control = search.control[0] if search.control else 0
    least = max(0, math.floor(expected - POISSON_SPAN * math.sqrt(expected)))
    most = max(math.ceil(expected + POISSON_SPAN * math.sqrt(expected)), least + FEWEST_COUNTS)
    step = max(1, (most - least) // MOST_BARS)
    counts = list(range(least, most + 1, step))
    heights = [sum(_poisson(count + i, expected) for i in range(step)) for count in counts]
    axes.bar(counts, heights, step * 0.9, align="edge" if step > 1 else "center", color=PALE, label="by chance")
    axes.axvline(here, color=BLUE, linewidth=1.6, label=f"survived: {here}")
    if search.control:
        axes.axvline(control, color=ORANGE, linewidth=1.6, linestyle="--", label=f"control: {control}")
    axes.set_ylabel("probability")
    axes.set_xlabel("survivors")
    axes.set_ylim(0.0, 1.05 * max(heights))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes)
    return plot.svg()


def evidence_plot(search: SearchTold) -> str | None:
    """How many wrong items survive with so many known draws; where the record stands."""
    if not search.curve:
        return None
    plot = Plot()
    (axes,) = plot.axes
    axes.plot([each.draws for each in search.curve], [each.log10_expected for each in search.curve], color=BLUE)
    axes.axhline(math.log10(SETTLED), color=RED, linewidth=0.9, linestyle="--", label="0.01 survivors by chance")
    axes.axvline(search.known, color=GREEN, linewidth=1.2, label=f"this record: {search.known} known draws")
    axes.set_xlabel("known draws")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _powers_of_ten(axes, "expected by chance")
    legend(axes)
    return plot.svg()


def record_plot(search: SearchTold) -> str | None:
    """The draws in their order; strokes below for those that nobody knows."""
    if not search.draws:
        return None
    plot = Plot()
    (axes,) = plot.axes
    shown = list(enumerate(search.draws))[:MOST_POINTS]
    known = [(place, draw) for place, draw in shown if draw is not None]
    unknown = [place for place, draw in shown if draw is None]
    # Axes count in floats, and draws may be larger than these are exact: what is shown is a share of the values.
    shares = [(draw - search.lowest) / search.values for _, draw in known]
    axes.plot([place for place, _ in known], shares, ".", color=BLUE, markersize=4, label="draws")
    if unknown:
        axes.plot(unknown, [-0.04] * len(unknown), "|", color=GREY, markersize=6, label="unknown")
    axes.set_ylim(-0.08, 1.04)
    axes.set_yticks([0.0, 1.0], [str(search.lowest), str(search.lowest + search.values - 1)])
    axes.set_xlabel("number of the draw")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes)
    return plot.svg()


def frequencies_plot(search: SearchTold) -> str | None:
    """How often the values came, in groups alike in size, against what equal chances give."""
    known = [draw for draw in search.draws if draw is not None]
    groups = min(MOST_BARS, search.values, max(2, len(known) // 5))
    if len(known) < 2 * FEWEST_COUNTS or groups < 2:
        return None
    plot = Plot()
    (axes,) = plot.axes
    counts = Counter((draw - search.lowest) * groups // search.values for draw in known)
    axes.bar(range(groups), [counts[group] for group in range(groups)], 0.9, align="edge", color=BLUE)
    axes.axhline(len(known) / groups, color=RED, linewidth=0.9, linestyle="--", label="equal chances")
    axes.set_xticks([0, groups], [str(search.lowest), str(search.lowest + search.values - 1)])
    axes.set_ylabel("draws")
    axes.set_xlabel(f"values, in {groups} groups")
    legend(axes)
    return plot.svg()


def ledger_plot(search: SearchTold) -> str:
    """What of the range is searched."""
    plot = Plot(height_in=0.9, width_in=WHOLE_WIDTH_IN)
    (axes,) = plot.axes
    total = search.stop - search.start
    axes.barh([0], [1.0], color=PALE)
    for start, stop in search.done:
        axes.barh([0], [(stop - start) / total], left=[(start - search.start) / total], color=GREEN)
    axes.set_yticks([])
    axes.set_xlim(0.0, 1.0)
    axes.set_xticks([0.0, 1.0], [str(search.start), str(search.stop)])
    axes.grid(visible=False)
    return plot.svg()


def _poisson(count: int, expected: float) -> float:
    if expected == 0.0:
        return 1.0 if count == 0 else 0.0
    return math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))


def _powers_of_ten(axes: Axes, what: str) -> None:
    axes.set_ylabel(what)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda exponent, _: f"1e{exponent:.0f}"))
