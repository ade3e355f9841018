"""Requests for the output of an attempt: validated, and answered from its folder."""

from __future__ import annotations

import base64
from typing import NamedTuple, Tuple

from . import logs, order, setup
from .protocol import MAX_READ_BYTES, Json, RequestError, integer, is_id

BOTH = "both"
"""The name of both streams, merged in the order of their writing."""


class Wish(NamedTuple):
    """What is to be read: so many bytes of a stream, or of both, from an offset on in each."""

    attempt: str
    stream: str
    offsets: Tuple[int, ...]
    limit: int


def wish_of(request: Json) -> Wish:
    """A validated request; raises RequestError."""
    name, stream, offset = request.get("attempt"), request.get("stream"), request.get("offset")
    limit = integer(request.get("limit"), "limit")
    if not is_id(name) or stream not in (*order.STREAMS, setup.STREAM, BOTH) or limit < 0:
        raise RequestError("read needs an attempt's id, a stream (out, err, setup or both), and a limit >= 0")
    if stream != BOTH:
        return Wish(str(name), str(stream), (integer(offset, "offset"),), min(limit, MAX_READ_BYTES))
    if type(offset) is not list or len(offset) != 2:
        raise RequestError("offset must be a list of two integers, of out and of err")
    offsets = integer(offset[0], "offset"), integer(offset[1], "offset")
    return Wish(str(name), BOTH, offsets, min(limit, MAX_READ_BYTES))


def piece_of(folder: str, wish: Wish, ended: bool) -> Json:
    """The fields of the answer; ``ended`` tells that nothing more will be written. Raises OSError."""
    if wish.stream != BOTH:
        piece = logs.read(folder + "/" + wish.stream, wish.offsets[0], wish.limit)
        return {"offset": piece.offset, "data": _text(piece.data), "size": piece.size}
    found = order.merged(folder, wish.offsets, wish.limit, ended)
    pieces = [[name, _text(data)] for name, data in found.pieces]
    return {"offset": list(found.start), "pieces": pieces, "size": list(found.size)}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
