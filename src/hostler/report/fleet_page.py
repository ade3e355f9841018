"""From the measures of virtual runs to one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from hostler.model.simulated import Measures, Waits, busy_share, useful_share
from hostler.model.units import printable
from hostler.report import fleet_plots
from hostler.report.drawing import style
from hostler.report.page import LONGEST, UNKNOWN, Picture

TEMPLATE = "fleet.html.j2"
QUOTA_ERROR = "points, largest of the tiers: half the sum of |had - meant|, the time that would have to be moved"


def make_fleet_page(runs: Sequence[tuple[str, Measures]], comparison: Sequence[Sequence[str]], version: str) -> str:
    """A page of these runs, each with its title.

    `comparison` has the rows of a table that sets them side by side, titles first; empty with a single run.
    """
    with style():
        parts = [_part(title, measured) for title, measured in runs]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.finalize = _clean
    environment.filters.update(share=share, minutes=minutes, hours=hours, number=number)
    template = environment.from_string(resources.files("hostler.report").joinpath(TEMPLATE).read_text("utf-8"))
    return template.render(runs=parts, comparison=[list(row) for row in comparison], version=version)


def share(value: float | None) -> str:
    """A share in per cent."""
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def minutes(seconds: float | None) -> str:
    """Seconds as minutes."""
    return UNKNOWN if seconds is None else f"{seconds / 60:.1f}"


def hours(seconds: float | None) -> str:
    """Seconds as hours."""
    return UNKNOWN if seconds is None else f"{seconds / 3600:.1f}"


def number(value: float | None) -> str:
    """A number with so many digits as it needs."""
    return UNKNOWN if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _clean(value: Any) -> Any:
    return printable(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


def _part(title: str, measured: Measures) -> Mapping[str, Any]:
    return {
        "title": title,
        "measured": measured,
        "facts": list(_facts(measured)),
        "pictures": list(_pictures(measured)),
        "tiers": [
            {"name": name, "devices": devices, "busy": busy_share(devices), "useful": useful_share(devices)}
            for name, devices in measured.tiers.items()
        ],
    }


def _facts(measured: Measures) -> Iterator[tuple[str, str, str]]:
    """Name, value and unit of what stands above the pictures."""
    yield "busy", share(measured.busy), "of the devices' time"
    yield "useful", share(measured.useful_share), "of the work that was possible; the rest: idle, start-up, lost"
    error = max((value for value in measured.quota_error.values() if value is not None), default=None)
    yield "quota error", UNKNOWN if error is None else f"{error:.1f}", QUOTA_ERROR
    training = _told(measured, "training")
    yield "training waits", minutes(training.mean_s if training else None), "minutes on average"
    yield "of these, 95 %", minutes(training.p95_s if training else None), "minutes at most"
    yield "games", number(measured.games_per_h), "an hour"
    priced = f"{measured.priced_nodes} of {len(measured.nodes)} nodes priced"
    theirs = f" on the {priced}" if 0 < measured.priced_nodes < len(measured.nodes) else ""
    yield "cost", number(measured.cost), priced
    yield "cost per unit", number(measured.cost_per_unit), f"per 100 power hours of useful work{theirs}"
    starved = max((config.longest_without_s for config in measured.configs), default=None)
    yield "starvation", hours(starved), "hours, longest that a config had no work"
    yield "preemptions", str(measured.preemptions), f"{hours(sum(measured.lost_s.values()))} device hours lost in all"


def _told(measured: Measures, kind: str) -> Waits | None:
    return next((each for each in measured.waits if each.kind == kind), None)


def _pictures(measured: Measures) -> Iterator[Picture]:
    drawn: tuple[tuple[str, str, Callable[[Measures], str | None], str], ...] = (
        ("What the devices did", "By kind of work. White is idle.", fleet_plots.gantt_by_kind, "Nothing ran."),
        ("For whom", "By training config; grey is work for none.", fleet_plots.gantt_by_config, "Nothing ran."),
        ("Occupancy", "Share of each tier's devices, by kind of work.", fleet_plots.occupancy_plot, "Nothing ran."),
        ("Quotas", "Shares of the time that configs had on a tier.", fleet_plots.quota_plot, "There are no quotas."),
    )
    for title, caption, draw, otherwise in drawn:
        svg = draw(measured)
        # The element is matplotlib's, which escapes what it writes.
        yield Picture(title, caption, None if svg is None else Markup(svg), otherwise)  # noqa: S704
