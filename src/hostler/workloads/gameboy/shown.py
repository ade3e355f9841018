"""What may stand in the lines that a training tells: whoever shows them reads no more, and games that would tell more
are refused before they are learnt. Both take these numbers from here; docs/reference/rl.md has the lines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod

LINE_MAX = 1 << 20
"""In bytes: what is longer is refused unread."""
NUMBER_MAX = 1e15
NAME_MAX = 100
NAMES_MAX = 64
"""Components, or things that time is spent for."""
PLACES_MAX = 1 << 16
PICTURES_MAX = 64
ENVS_MAX = 1_000_000
AXES_MAX = 8

PICTURES_TOLD = 32
"""In a line of ours at most: it is to be read, and kept."""
COMPONENTS_MAX = NAMES_MAX - 2
"""Of a game: advice may be another one, and calls for it another alarm."""

_PICTURE_BYTES = 2200
"""Of a picture of 72 × 80 pixels in four greys, however it looks, with the number of its environment."""
_REST_BYTES = 32 << 10
"""All that does not depend on the game, advice among it."""
_COUNT_DIGITS = 14
"""Of the steps of the longest training."""
_NUMBER_BYTES = 26


def unshowable(components: Sequence[str], axes: Sequence[tuple[str, int]]) -> str | None:
    """Why a game with these components of its reward, and this map of `(name, width)`, cannot be shown; `None`: it can.

    The words begin with where that stands in the game's file.
    """
    if len(components) > COMPONENTS_MAX:
        return (
            f"reward.components: there are {len(components)}, and no more than {COMPONENTS_MAX} can be shown "
            f"({NAMES_MAX} names in all, two of them for advice); put some together"
        )
    named = [*((f"reward.components.{each}", each) for each in components), *(("map", name) for name, _ in axes)]
    for where, name in named:
        if not 0 < len(name) <= NAME_MAX:
            return f"{where}: its name has {len(name)} characters, and 1 to {NAME_MAX} can be shown"
    if len(axes) > AXES_MAX:
        return f"map: there are {len(axes)} values, and no more than {AXES_MAX} can be shown; name fewer"
    return _too_long(components, axes)


def line_bytes(components: Sequence[str], axes: Sequence[tuple[str, int]]) -> int:
    """What a line of such a game may have, with every place come to as often as can be."""
    places = prod(width for _, width in axes)
    of_components = sum(3 * _bytes(each) + 2 * _NUMBER_BYTES for each in components)  # parts, shares, alarms
    of_axes = sum(_bytes(name) + _NUMBER_BYTES for name, _ in axes)
    of_places = places * (len(f'"{places}": , ') + _COUNT_DIGITS)
    return of_components + of_axes + of_places + PICTURES_TOLD * _PICTURE_BYTES + _REST_BYTES


def _too_long(components: Sequence[str], axes: Sequence[tuple[str, int]]) -> str | None:
    found = line_bytes(components, axes)
    if found <= LINE_MAX:
        return None
    widths = " × ".join(str(width) for _, width in axes)
    return (
        f"map: {widths} = {prod(width for _, width in axes)} places, and each line that tells in how many episodes "
        f"they were come to may have {found} bytes; no more than {LINE_MAX} can be shown. Name fewer values, or say "
        "what they are below"
    )


def _bytes(name: str) -> int:
    return len(json.dumps(name)) + len(": , ")
