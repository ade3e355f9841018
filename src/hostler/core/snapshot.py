"""The state as bytes, so that a start need not replay everything that ever happened."""

from __future__ import annotations

import zlib

from pydantic import ValidationError

from hostler.core.state import State
from hostler.model.codec import adapter, explain
from hostler.model.errors import CorruptState

DENSEST = 256
"""Bytes of a state for each byte of a snapshot, at most: more than level 1 ever gains. What claims to be denser would
cost a thousand times its size before anybody knew that it is damaged."""
FORMAT = b"hostler-state-2\n"
"""Written in front; another first line is another version's."""


def dump_state(state: State) -> bytes:
    """The state, compressed. The index is not in it: it is made anew."""
    return FORMAT + zlib.compress(adapter(State).dump_json(state), level=1)


def load_state(data: bytes) -> State:
    """The state of a snapshot. Raises `CorruptState` if the bytes are damaged or of another version."""
    if not data.startswith(FORMAT):
        raise CorruptState(f"not a snapshot of this version: it begins with {data[:20]!r}")
    try:
        state: State = adapter(State).validate_json(_unpacked(data[len(FORMAT) :]))
    except zlib.error as error:
        raise CorruptState(f"the snapshot is damaged: {error}") from error
    except ValidationError as error:
        raise CorruptState(f"the snapshot is not of this version: {explain(error)}") from error
    return state


def _unpacked(data: bytes) -> bytes:
    """Raises `zlib.error`."""
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(data, DENSEST * len(data) + 1)
    if not unpacking.eof:
        raise zlib.error("it is cut off, or claims to hold more than it can")
    return found
