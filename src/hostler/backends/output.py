"""Both streams of an attempt as one output: as its node merges them, or one after the other where it does not."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from hostler.agent.order import MOST_PIECES
from hostler.agent.protocol import MAX_READ_BYTES
from hostler.backends.base import MergesLogs, ReadsLogs
from hostler.backends.facts import checked, understood
from hostler.model.errors import NotFound
from hostler.model.views import LogChunk, Output, OutputPiece

SIZE_MOST = 1 << 62
"""Bytes of a stream; what a node tells beyond it is no size."""


async def read_output(backend: ReadsLogs, attempt: str, out: int, err: int, limit: int) -> Output:
    """A piece of both streams of an attempt, in order where its node knows it. Raises `NotFound`, `LinkLost`."""
    if isinstance(backend, MergesLogs):
        return await backend.read_output(attempt, out, err, limit)
    return await unmerged(backend, attempt, out, err, limit)


async def unmerged(backend: ReadsLogs, attempt: str, out: int, err: int, limit: int) -> Output:
    """The same without an order: what there is of `out`, then of `err`. Raises `NotFound` where neither is there."""
    first = await _read(backend, attempt, "out", out, limit)
    is_told = first is None or first.offset + len(first.data) >= first.size
    room = limit - (0 if first is None else len(first.data))
    second = await _read(backend, attempt, "err", err, room if is_told else 0)
    if first is None and second is None:
        raise NotFound(f"no output of {attempt}")
    pieces = []
    if first is not None and first.data:
        pieces.append(OutputPiece(stream="out", data=base64.b64encode(first.data).decode()))
    if second is not None and second.data:
        pieces.append(OutputPiece(stream="err", data=base64.b64encode(second.data).decode()))
    return Output(
        attempt=attempt,
        out=out if first is None else first.offset,
        err=err if second is None else second.offset,
        pieces=tuple(pieces),
        out_size=out if first is None else first.size,
        err_size=err if second is None else second.size,
        ended=all(each is None or each.ended for each in (first, second)),
    )


def output_of(node: str, attempt: str, limit: int, answer: Mapping[str, Any], *, ended: bool) -> Output:
    """What a node has answered. Raises `LinkLost` where that is no piece of two streams."""
    with understood(node, f"the output of {attempt}"):
        sizes = [*answer["offset"], *answer["size"]]
        if len(sizes) != 4 or not all(type(each) is int and 0 <= each <= SIZE_MOST for each in sizes):
            raise ValueError("sizes are not four numbers of bytes")
        if len(answer["pieces"]) > MOST_PIECES:
            raise ValueError(f"it has more than {MOST_PIECES} pieces")
        told = checked(
            Output,
            {
                "attempt": attempt,
                "out": sizes[0],
                "err": sizes[1],
                "pieces": tuple({"stream": stream, "data": _canonical(data)} for stream, data in answer["pieces"]),
                "out_size": sizes[2],
                "err_size": sizes[3],
                "ended": ended,
            },
        )
        if sum(told.ends) - told.out - told.err > min(limit, MAX_READ_BYTES):
            raise ValueError("it is longer than what was asked for")
        if told.ends[0] > told.out_size or told.ends[1] > told.err_size:
            raise ValueError("it ends behind the end of the stream")
        return told


def chunk_of(node: str, attempt: str, stream: str, limit: int, answer: Mapping[str, Any]) -> LogChunk:
    """A piece of one stream. Raises `LinkLost` where the answer is no such piece."""
    with understood(node, f"the output of {attempt}"):
        offset, size, data = answer["offset"], answer["size"], base64.b64decode(answer["data"], validate=True)
        if not all(type(each) is int and 0 <= each <= SIZE_MOST for each in (offset, size)):
            raise ValueError("its offset and its size are not two numbers of bytes")
        if len(data) > limit or offset + len(data) > size:
            raise ValueError("it is longer than what was asked for, or than the stream")
        return LogChunk(
            attempt=attempt, stream=stream, offset=offset, data=data, size=size, ended=answer["ended"] is True
        )


def _canonical(data: str) -> str:
    """Raises `ValueError` unless it is base64 of at least one byte."""
    made = base64.b64decode(data, validate=True)
    if not made:
        raise ValueError("a piece is empty")
    return base64.b64encode(made).decode()


async def _read(backend: ReadsLogs, attempt: str, stream: str, offset: int, limit: int) -> LogChunk | None:
    try:
        return await backend.read_log(attempt, stream, offset, limit)
    except NotFound:
        return None
