"""The loop around a view: drawn anew whenever something changes, until somebody ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from hostler.cli.watching.follow import Follower, Sight
from hostler.cli.watching.layout import Line

if TYPE_CHECKING:
    from rich.console import Console

    from hostler.client import View

T = TypeVar("T")

PATIENCE_S = 20.0
"""How long an answer may take before the controller counts as lost."""
DRAW_S = 1.0
"""Ages grow though nothing happens."""

Draw: TypeAlias = Callable[[Sight[T], Sequence["View"], float, int, int | None], Sequence[Line]]
"""What was seen, the newest entries, the time, width, and height if that is bounded: to lines."""


def show(
    first: T, look: Callable[[], T], stream: Callable[[], Iterator[View]], draw: Draw[T], *, every_s: float
) -> None:
    """Show a view on the terminal until it is interrupted; where there is no terminal, once."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        once(first, draw, console.width)
        return
    with Follower(first, look, stream, every_s) as follower:
        _keep_showing(follower, draw, console)


def once(first: T, draw: Draw[T], width: int) -> None:
    """Print what was seen, all of it."""
    now = time.time()
    for line in draw(Sight(first, now), (), now, width, None):
        print(line.text)


def _keep_showing(follower: Follower[T], draw: Draw[T], console: Console) -> None:
    from rich.live import Live
    from rich.text import Text

    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            width, height = console.size
            lines = draw(follower.sight, follower.entries, time.time(), width, height)
            text = Text("\n", no_wrap=True).join(Text(line.text, style=line.style) for line in lines)
            live.update(text, refresh=True)
            follower.wait(DRAW_S)
