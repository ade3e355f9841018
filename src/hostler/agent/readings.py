"""Reading what tools for devices print: numbers, amounts with units, and JSON. What is no number is None, never 0."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, Optional

from .protocol import Json

MIB = 1 << 20
MOST_PROCESSES = 32
"""Told of one device."""

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?\Z")
_BEGINNING = re.compile(r"[\[{]")
_MOST_BEGINNINGS = 50
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*[A-Za-z%°]*\Z")


def number(text: str) -> Optional[float]:
    """A number that is not negative and of sane size."""
    return float(text) if _NUMBER.match(text) and len(text) < 20 else None


def amount(told: Any) -> Optional[float]:
    """The number in ``42``, ``"42"``, ``"42 MB"`` or ``{"value": 42, "unit": "MB"}``."""
    if isinstance(told, dict):
        told = told.get("value")
    if isinstance(told, bool) or not isinstance(told, (int, float, str)):
        return None
    found = _AMOUNT.match(str(told).strip())
    return None if found is None else number(found.group(1))


def whole(value: Optional[float], unit: int = 1) -> Optional[int]:
    """So many units as a whole number."""
    return None if value is None else int(value * unit)


def share(percent: Optional[float]) -> Optional[float]:
    """0 to 1, of a percentage that is one."""
    return percent / 100 if percent is not None and percent <= 100 else None


def json_in(text: str) -> Any:
    """The JSON object or list in a text, which warnings may precede and follow; None if there is none."""
    for start in islice(_BEGINNING.finditer(text), _MOST_BEGINNINGS):
        try:
            return json.JSONDecoder().raw_decode(text, start.start())[0]
        except (ValueError, RecursionError):
            continue
    return None


def member(value: Any, *path: str) -> Any:
    """What lies at a path of keys; None if nothing does."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def sample(kind: str, index: int, busy: Optional[float], used_bytes: Optional[int], celsius: Optional[float]) -> Json:
    """A device as the ``telemetry`` message tells of it."""
    return {
        "index": index,
        "kind": kind,
        "utilization": busy,
        "vram_used_bytes": used_bytes,
        "temperature_c": celsius,
    }
