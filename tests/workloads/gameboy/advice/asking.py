"""The section `advice`, as tests want it."""

from __future__ import annotations

from typing import Any

from hostler.workloads.gameboy.advice.settings import Asking, read_advice

SECTION = {
    "url": "http://127.0.0.1:9/v1",
    "model": "small",
    "calls_per_s": 10,
    "of": ["room_x", "room_y", "taken"],
    "prompt": "Room {room_x}, {room_y}; {taken} keys were found. Which button?",
    "observe": True,
    "shaping": {"weight": 0.5, "cap": 4, "decay_updates": 10},
}


def section(**changes: Any) -> dict[str, Any]:
    """With these changes; `None` takes a key out."""
    return {key: each for key, each in {**SECTION, **changes}.items() if each is not None}


def asking(**changes: Any) -> Asking:
    """The same, read."""
    return read_advice(section(**changes))
