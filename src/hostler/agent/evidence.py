"""What a failed process said last, as text that is safe to keep and to show.

A program may write anything: bytes that are no text, colours, progress bars, and more of all that than anybody wants
in a journal. What is kept is bounded by its length as JSON.
"""

from __future__ import annotations

import re
from typing import Optional

from . import logs
from .protocol import encode

LIMIT_BYTES = 2048
"""Of the text as JSON, without its quotes."""
_READ_BYTES = 4 * LIMIT_BYTES
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def last_words(path: str) -> Optional[str]:
    """The end of an output file, also where it has just been rotated; None if there is none."""
    data = logs.tail(path, _READ_BYTES)
    if len(data) < _READ_BYTES:
        data = logs.tail(path + ".1", _READ_BYTES - len(data)) + data
    return cleaned(data) or None


def cleaned(data: bytes) -> str:
    """The end of these bytes as a terminal would show it, no longer than ``LIMIT_BYTES`` as JSON.

    Half a character at the beginning is left out; what is no UTF-8 is marked by U+FFFD.
    """
    text = data.lstrip(bytes(range(0x80, 0xC0))).decode("utf-8", "replace")
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).split("\n"))
    return _shortened(_CONTROLS.sub("", "\n".join(lines)).rstrip())


def _shortened(text: str) -> str:
    text = text[-LIMIT_BYTES:]
    while len(encode(text)) - 2 > LIMIT_BYTES:
        excess = len(encode(text)) - 2 - LIMIT_BYTES
        text = text[max(1, excess // 12) :]  # no character takes more than 12 bytes
    return text
