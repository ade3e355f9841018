"""The pictures of a virtual run: who was where when, how busy the tiers were, what the quotas came to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from hostler.model.simulated import DeviceUse, Measures, Span
from hostler.model.work import WorkKind
from hostler.report.drawing import (
    BLUE,
    GREEN,
    GREY,
    HEIGHT_IN,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SKY,
    WHOLE_WIDTH_IN,
    Plot,
    legend,
    named,
)

HOUR_S, DAY_S = 3600.0, 86_400.0
ROW_IN, FRAME_IN = 0.19, 1.1
DPI = 150
AWAY = "#F3D9D2"
CUT = "#F7E3A1"
KIND_COLOURS: Mapping[WorkKind, str] = {
    WorkKind.SELFPLAY: SKY,
    WorkKind.TRAINING: BLUE,
    WorkKind.EVALUATION: GREEN,
    WorkKind.EXPORT: GREY,
    WorkKind.SWEEP: PURPLE,
    WorkKind.SCRIPT: ORANGE,
    WorkKind.RL: RED,
}
CONFIG_COLOURS = (
    "#4477AA", "#66CCEE", "#228833", "#CCBB44", "#EE6677", "#AA3377",
    "#332288", "#88CCEE", "#44AA99", "#DDCC77", "#CC6677", "#882255",
)  # fmt: skip
"""Paul Tol's `bright` and `muted`; with more configs they come again."""
BINS = 168


def gantt_by_kind(measured: Measures) -> str | None:
    """A row for each device, coloured by what kind of work it did."""
    present = {span.kind for span in measured.spans}
    legend_of = {str(kind): KIND_COLOURS[kind] for kind in WorkKind if kind in present}
    return _gantt(measured, lambda span: KIND_COLOURS[span.kind], legend_of)


def gantt_by_config(measured: Measures) -> str | None:
    """A row for each device, coloured by the training config it worked for."""
    colours = config_colours(measured)
    return _gantt(measured, lambda span: PALE if span.config is None else colours[span.config], colours)


def config_colours(measured: Measures) -> dict[str, str]:
    """A colour for each config, the same in all pictures of a run."""
    names = [config.config for config in measured.configs]
    return {name: CONFIG_COLOURS[number % len(CONFIG_COLOURS)] for number, name in enumerate(names)}


def occupancy_plot(measured: Measures) -> str | None:
    """How much of each tier did what, hour by hour."""
    tiers = {name: devices for name, devices in measured.tiers.items() if any(each.gpu for each in devices)}
    if not tiers or not measured.spans:
        return None
    plot = Plot(panels=len(tiers), height_in=1.2 + 1.5 * len(tiers))
    width_s = max(measured.span_s / BINS, 1.0)
    kinds = [kind for kind in WorkKind if any(span.kind is kind for span in measured.spans)]
    for axes, (name, devices) in zip(plot.axes, tiers.items(), strict=True):
        shares = _shares(measured.spans, devices, kinds, width_s, measured.span_s)
        at = [(number + 0.5) * width_s / DAY_S for number in range(len(shares[kinds[0]]))]
        axes.stackplot(
            at, *(shares[kind] for kind in kinds), labels=list(kinds), colors=[KIND_COLOURS[kind] for kind in kinds]
        )
        axes.set_ylim(0, 1)
        axes.set_ylabel(f"tier {name}")
        axes.set_xlim(0, measured.span_s / DAY_S)
    plot.axes[-1].set_xlabel("days")
    legend(plot.axes[0])
    return plot.svg()


def quota_plot(measured: Measures) -> str | None:
    """What each quota was meant to get, and what it got."""
    quotas = measured.quotas
    if not quotas:
        return None
    plot = Plot(height_in=max(HEIGHT_IN, 0.8 + 0.28 * len(quotas)))
    (axes,) = plot.axes
    rows = range(len(quotas))
    got = [0.0 if quota.achieved is None else 100 * quota.achieved for quota in quotas]
    axes.barh(rows, got, color=BLUE, height=0.55, label="had")
    aims = [100 * quota.target for quota in quotas]
    axes.plot(aims, rows, "|", color=RED, markersize=14, markeredgewidth=2.5, label="meant")
    axes.set_yticks(list(rows), [named(f"{quota.pattern}, tier {quota.tier}") for quota in quotas])
    axes.invert_yaxis()
    axes.set_xlabel("% of the tier's time that configs had")
    legend(axes)
    return plot.svg()


def _gantt(measured: Measures, colour: Callable[[Span], str], legend_of: Mapping[str, str]) -> str | None:
    devices = _rows(measured)
    if not devices or not measured.spans:
        return None
    plot = Plot(height_in=FRAME_IN + ROW_IN * len(devices), width_in=WHOLE_WIDTH_IN)
    plot.figure.set_dpi(DPI)
    (axes,) = plot.axes
    rows = {device.device: row for row, device in enumerate(devices)}
    _draw_cut(axes, measured, devices)
    _draw_away(axes, measured, devices)
    by_colour: defaultdict[str, list[Span]] = defaultdict(list)
    for span in measured.spans:
        if span.device in rows:
            by_colour[colour(span)].append(span)
    for each, spans in by_colour.items():
        boxes = [_box(rows[span.device], span.begin, span.end) for span in spans]
        axes.add_collection(
            PolyCollection(boxes, facecolors=each, edgecolors="white", linewidths=0.15, rasterized=True)
        )
    _label(axes, measured, devices)
    handles = [Patch(color=shade, label=named(name)) for name, shade in legend_of.items()]
    handles += [Patch(color=CUT, label="idle, out of reach"), Patch(color=AWAY, label="node away")]
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=min(len(handles), 8))
    return plot.svg()


def _rows(measured: Measures) -> list[DeviceUse]:
    """The devices from above to below: the strongest tier first, nodes together."""
    order = sorted(measured.counted, key=lambda each: (each.tier or 9, each.node, each.device))
    return list(order)


def _draw_cut(axes: Axes, measured: Measures, devices: Sequence[DeviceUse]) -> None:
    """Below everything else: it shows where a device was idle because nobody could reach its node."""
    cuts = {node.node: node.cut for node in measured.nodes}
    boxes = [_box(row, *cut) for row, device in enumerate(devices) for cut in cuts.get(device.node, ())]
    axes.add_collection(PolyCollection(boxes, facecolors=CUT, edgecolors="none", rasterized=True))


def _draw_away(axes: Axes, measured: Measures, devices: Sequence[DeviceUse]) -> None:
    there = {node.node: node.there for node in measured.nodes}
    boxes = []
    for row, device in enumerate(devices):
        reached = 0.0
        for begin, end in (*there.get(device.node, ()), (measured.span_s, measured.span_s)):
            if begin > reached:
                boxes.append(_box(row, reached, begin))
            reached = max(reached, end)
    axes.add_collection(PolyCollection(boxes, facecolors=AWAY, edgecolors="none", rasterized=True))


def _box(row: int, begin: float, end: float) -> list[tuple[float, float]]:
    left, right, top, bottom = begin / DAY_S, end / DAY_S, row - 0.4, row + 0.4
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _label(axes: Axes, measured: Measures, devices: Sequence[DeviceUse]) -> None:
    labels = [f"{device.device}  {device.model or ''}".strip() for device in devices]
    axes.set_yticks(range(len(devices)), [_short(label) for label in labels], fontsize=7)
    axes.set_ylim(len(devices) - 0.5, -0.5)
    axes.set_xlim(0, measured.span_s / DAY_S)
    axes.set_xlabel("days")
    axes.grid(axis="y", visible=False)
    for row, (upper, lower) in enumerate(pairwise(devices)):
        if upper.tier != lower.tier:
            axes.axhline(row + 0.5, color=GREY, linewidth=0.8)


def _short(label: str) -> str:
    shown = label.encode("unicode_escape").decode()
    return shown if len(shown) <= 44 else f"{shown[:41]}..."


def _shares(
    spans: Iterable[Span], devices: Sequence[DeviceUse], kinds: Sequence[WorkKind], width_s: float, end_s: float
) -> dict[WorkKind, list[float]]:
    """Of each kind: the share of the devices that did it, bin by bin; several at once on one count each their part."""
    bins = max(int(end_s // width_s), 1)
    mine = {device.device for device in devices}
    found = {kind: [0.0] * bins for kind in kinds}
    for span in spans:
        if span.device in mine:
            _spread(found[span.kind], span, width_s)
    whole = width_s * len(mine)
    for number in range(bins):
        total = sum(found[kind][number] for kind in kinds) / whole
        for kind in kinds:
            found[kind][number] /= whole * max(total, 1.0)
    return found


def _spread(into: list[float], span: Span, width_s: float) -> None:
    first, last = int(span.begin // width_s), int(span.end // width_s)
    for number in range(first, min(last + 1, len(into))):
        begin, end = number * width_s, (number + 1) * width_s
        into[number] += max(min(span.end, end) - max(span.begin, begin), 0.0) * span.weight
