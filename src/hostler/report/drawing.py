"""What all plots have in common: size, colours, axes of time, and the way to SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

DAY_S = 86400.0
WIDTH_IN, HEIGHT_IN = 7.6, 3.0
WHOLE_WIDTH_IN = 15.6
"""Of a picture that stands alone in its row: two others and what lies between them."""
# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
GREY, PALE = "#777777", "#D8D8D8"

# So much fits into a row of a legend, each label with its symbol.
ROW_CHARACTERS, SYMBOL_CHARACTERS, LABEL_CHARACTERS, COLUMNS = 100, 7, 28, 2

_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: it can be searched and read aloud
    "svg.hashsalt": "hostler",  # the same numbers give the same picture
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.parse_math": False,  # names belong to whoever wrote them
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "grid.color": "#EBEBEB",
    "legend.frameon": False,
    "legend.fontsize": 8.0,
}
_SIZE = re.compile(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"')
# Every picture counts its groups from 1, and a page holds many; what pictures refer to is named by its content.
_GROUP_ID = re.compile(r'<g id="[^"]*"')


class Plot:
    """One picture; `axes` from top to bottom, one time or step axis for all of them."""

    def __init__(self, panels: int = 1, height_in: float = HEIGHT_IN, width_in: float = WIDTH_IN) -> None:
        self.figure = Figure(figsize=(width_in, height_in), layout="constrained")
        grid = self.figure.subplots(panels, 1, sharex=True, squeeze=False)
        self.axes: list[Axes] = [row[0] for row in grid]

    def svg(self) -> str:
        """The picture as an `<svg>` element that fills the width it is given, with nothing outside it."""
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        self.figure.savefig(buffer, format="svg", metadata=nothing)
        element = buffer.getvalue()
        element = _GROUP_ID.sub("<g", element[element.index("<svg") :])
        return _SIZE.sub(r'\1 role="img"', element, count=1)


@contextmanager
def style() -> Iterator[None]:
    """Everything drawn within looks as plots here look."""
    with matplotlib.rc_context(_STYLE):
        yield


def days(seconds: Sequence[float]) -> list[float]:
    """Unix seconds as what axes of time count: days since 1970, UTC."""
    return [each / DAY_S for each in seconds]


def time_axis(axes: Axes, begin: float, end: float) -> None:
    """Let the horizontal axis be time, from `begin` to `end`; at least ten minutes, so that there are labels."""
    spare = max((end - begin) * 0.02, 300.0)
    axes.set_xlim(*days([begin - spare, end + spare]))
    locator = AutoDateLocator(minticks=4, maxticks=9)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def legend(axes: Axes) -> None:
    """Say what is what, above the picture, where nothing is covered."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        wide = sum(len(label) + SYMBOL_CHARACTERS for label in labels) > ROW_CHARACTERS
        columns = COLUMNS if wide else len(labels)
        axes.legend(handles, labels, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, borderaxespad=0.1)


def named(name: str) -> str:
    """A name as a label: in letters that every font has. Matplotlib leaves out labels that begin with `_`."""
    label = name.encode("unicode_escape").decode().lstrip("_") or "?"
    return label if len(label) <= LABEL_CHARACTERS else f"{label[: LABEL_CHARACTERS - 3]}..."
