"""Lines that a training might tell."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

SIGNATURE = b"\x89PNG\r\n\x1a\n"

ADVICE = {
    "asked": 50,
    "cached": 30_000,
    "unknown": 1200,
    "success": 0.86,
    "resting": 0.25,
    "calls": {"answered": {"calls": 43, "mean_s": 0.25, "longest_s": 2.0}, "timeout": {"calls": 7, "mean_s": 5.0}},
    "waits": {"within": {"0.25": 40, "1": 41, "2.5": 43, "10": 50}, "calls": 50, "seconds": 46.0},
    "trouble": "no answer within 5 s",
    "alarm": None,
}
"""What may be told of a language model that advises."""


def chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk of a PNG with its sum."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int = 8, height: int = 6, grey: int = 1, more: bytes = b"") -> bytes:
    """A small picture in one of four greys; `more` stands before its end."""
    head = struct.pack(">IIBBBBB", width, height, 2, 0, 0, 0, 0)
    rows = (b"\0" + bytes([grey * 0b01010101]) * -(-width // 4)) * height
    return SIGNATURE + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + more + chunk(b"IEND", b"")


def base64_of(data: bytes) -> str:
    """As it stands in a line."""
    return base64.b64encode(data).decode()


def told(updates: int, **changes: Any) -> dict[str, Any]:
    """What is told after that many updates: 2,000 steps each, which take 2 s; one picture, of one environment after the
    other."""
    spent = {
        name: updates * part for name, part in {"emulate": 0.6, "encode": 0.2, "policy": 0.4, "transport": 0.1}.items()
    }
    return {
        "rl": 1,
        "at": 1000.0 + 2 * updates,
        "of": 1_000_000,
        "envs": 16,
        "steps": 2000 * updates,
        "updates": updates,
        "episodes": 10 * updates,
        "places": 7.5,
        "reward": 12.25,
        "seconds": 2.0 * updates,
        "spent": {**spent, "learn": updates * 0.7},
        "parts": {"rooms": 70.0 * updates, "keys": 5.0, "falls": -3.5},
        "shares": {"rooms": 0.9, "keys": 0.06, "falls": 0.04},
        "alarms": ["rooms"],
        "map": [["room_x", 4], ["room_y", 4]],
        "explored": {"0": 10 * updates, "1": 5 * updates, "4": updates},
        "pictures": {str(updates % 16): base64_of(png(grey=updates % 4))},
        "update": {"loss": 0.1, "entropy": 1.2, "divergence": 0.01, "clipped": 0.1, "explained": None},
        **changes,
    }


def line(value: Any) -> bytes:
    """As it is written."""
    return json.dumps(value).encode() + b"\n"


def output(updates: int, begin: int = 1) -> bytes:
    """What a training has written after that many updates."""
    return b"".join(line(told(number)) for number in range(begin, updates + 1))
