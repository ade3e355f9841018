"""The journal as a stream of server-sent events that can be taken up again where it broke off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Annotated, Any, cast
from weakref import WeakKeyDictionary

from fastapi import Depends, Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hostler.model import codec
from hostler.model.errors import Conflict, HostlerError
from hostler.model.events import Entry
from hostler.web.answers import TheDesk
from hostler.web.desk import Desk, Piece
from hostler.web.hiding import shown
from hostler.web.paging import Paged, answer_page, split
from hostler.web.request_faults import RequestFaults
from hostler.web.routing import Routes

router = Routes(tags=["events"])

HEARTBEAT_S = 15.0
HEARTBEAT = b": alive\n\n"
PART_BYTES = 1 << 16
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {"itemSchema": {"$ref": "#/components/schemas/Entry"}}},
        "description": "`id` is the number of an entry, `data` the entry as JSON",
    }
}


class Frames:
    """Journal entries as the text of a stream: written once for all who read along."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Piece, bytes] = WeakKeyDictionary()

    def of(self, piece: Piece) -> bytes:
        """A frame for each entry. What was made is forgotten together with the piece."""
        made = self._made.get(piece)
        if made is None:
            made = self._made[piece] = b"".join(map(_frame, piece.entries))
        return made


async def start_of(
    desk: TheDesk,
    after: Annotated[
        int | None, Query(ge=0, le=2**63 - 1, description="number of the last entry known; none: from now on")
    ] = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=2**63 - 1, description="wins over `after`")] = None,
) -> int:
    """The number of the entry that the reader has last seen. Raises `Conflict` where there is none such."""
    newest = desk.status().seq
    asked = next((number for number in (last_event_id, after) if number is not None), newest)
    if asked > newest:
        raise Conflict(
            f"the journal ends at entry {newest}, and {asked} was asked for: this is not the journal you have read "
            "before; begin again without a number"
        )
    return asked


@router.get("/entries", response_model=list[Entry])
async def list_entries(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Journal entries, the oldest first. `after` may be the number of any entry; `seq` of the status is the newest."""
    after = paging.number()
    found = await _known(desk, after, min(after + paging.limit + 1, desk.status().seq))
    page, more = split(found, paging.limit, lambda entry: entry.seq)
    return answer_page(request, list[Entry], page, more)


@router.get("/events", response_class=StreamingResponse, responses=STREAM)
async def follow(desk: TheDesk, request: Request, start: Annotated[int, Depends(start_of)]) -> Response:
    """Journal entries as they become durable, without end.

    The first thing sent is the number that the stream starts after. A reader that falls too far behind is cut off: the
    last thing it gets is the event `lost` with the numbers of the first and the last entry that it was not sent; it
    comes back with `Last-Event-ID` and misses nothing. Where an entry cannot be read, the last thing sent is the event
    `error` with the reason.
    """
    state = request.app.state
    sent = _stream(desk, start, state.heartbeat_s, state.closing, state.frames, state.faults)
    return StreamingResponse(sent, media_type="text/event-stream")


async def _known(desk: Desk, after: int, newest: int) -> Sequence[Entry]:
    """Entries beyond number `after` up to `newest`, which the journal holds already."""
    found: list[Entry] = []
    if after < newest:
        async with aclosing(cast(AsyncGenerator[Entry], desk.entries(after))) as stream:
            async for entry in stream:
                found.append(entry)
                if entry.seq >= newest:
                    break
    return found


async def _stream(
    desk: Desk, start: int, heartbeat_s: float, closing: asyncio.Event, frames: Frames, faults: RequestFaults
) -> AsyncIterator[bytes]:
    yield f"id: {start}\n\n".encode()
    pieces, sent = desk.pieces(start), start
    end = asyncio.ensure_future(closing.wait())
    coming: asyncio.Task[Piece] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(pieces))
            await asyncio.wait({coming, end}, timeout=heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
            if end.done():
                return
            if not coming.done():
                yield HEARTBEAT
                continue
            piece, coming = coming.result(), None
            for part in _parts(shown(frames.of(piece))):
                yield part
            sent = piece.entries[-1].seq
    except StopAsyncIteration:
        if sent < (newest := desk.status().seq):
            yield _lost(sent + 1, newest)
    except HostlerError as error:  # a response that has begun can have no other status any more
        await faults.note(desk, "GET /api/v1/events", error)
        yield _error(error)
    finally:
        await _abandon(pieces, end, coming)


async def _next(pieces: AsyncIterator[Piece]) -> Piece:
    return await anext(pieces)


async def _abandon(pieces: AsyncIterator[Piece], *waiting: asyncio.Task[Any] | None) -> None:
    tasks = {task for task in waiting if task is not None}
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    if isinstance(pieces, AsyncGenerator):
        await pieces.aclose()


def _parts(text: bytes) -> Iterator[bytes]:
    """So much at a time that little of it lies about for a reader who does not come for it."""
    for first in range(0, len(text), PART_BYTES):
        yield text[first : first + PART_BYTES]


def _lost(first: int, last: int) -> bytes:
    """Without an `id`: who comes back asks for what follows the last entry that it has really seen."""
    return b'event: lost\ndata: {"from": %d, "to": %d}\n\n' % (first, last)


def _error(error: HostlerError) -> bytes:
    """Without an `id`, and the last frame: to come back for the same entry would end in the same way."""
    return b"event: error\ndata: %b\n\n" % json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()


def _frame(entry: Entry) -> bytes:
    # JSON holds no bare line break, so the data is one line.
    return b"id: %d\ndata: %b\n\n" % (entry.seq, codec.adapter(Entry).dump_json(entry))
