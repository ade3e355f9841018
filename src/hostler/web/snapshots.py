"""Snapshots: clients ask which file contents are missing here, send those, and submit jobs that start from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response

from hostler.model.errors import FilesChanged, FilesError, SpecError
from hostler.model.record import record
from hostler.model.work import JobSpec, snapshot_of
from hostler.snapshots import upload
from hostler.snapshots.store import SnapshotStore
from hostler.web.answers import TheDesk, answer, read_body
from hostler.web.desk import Desk
from hostler.web.routing import Routes

router = Routes(prefix="/snapshots", tags=["jobs"])
BYTES = {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}


@record
class SnapshotView:
    """A snapshot that a client has, and what is missing of it here."""

    digest: str
    missing: Mapping[str, int]
    """By SHA-256 of a missing content, the bytes of it that are here. Empty: jobs may start from the snapshot."""


@record
class Received:
    """How many pieces of contents were taken."""

    pieces: int


@router.post("", response_model=SnapshotView, openapi_extra={"requestBody": BYTES})
async def add_snapshot(desk: TheDesk, request: Request) -> Response:
    """Add a snapshot by its manifest; it is kept once nothing is missing. Send the missing contents, then ask again.

    The manifest is JSON in canonical form, `{"files":[[path,sha256,size,executable],...],"schema":1}`: files sorted by
    path, no spaces, other characters than ASCII escaped. The snapshot's digest is the SHA-256 of these bytes.
    """
    data = await read_body(request)
    async with _recorded(desk, request):
        digest, missing = await asyncio.to_thread(desk.snapshots().add, data)
    return answer(SnapshotView, SnapshotView(digest=digest, missing=missing))


@router.post("/contents", response_model=Received, openapi_extra={"requestBody": BYTES})
async def add_contents(desk: TheDesk, request: Request) -> Response:
    """Send contents of files: pieces, each a line `[sha256,size,offset,length]` in JSON and `length` bytes behind it.

    A piece follows what is here of its content; one that is here already is passed over.
    """
    body = await read_body(request)
    async with _recorded(desk, request):
        count = await asyncio.to_thread(_write, desk.snapshots(), body)
    return answer(Received, Received(pieces=count))


@asynccontextmanager
async def _recorded(desk: Desk, request: Request) -> AsyncIterator[None]:
    """Record where the controller's disk keeps a snapshot from being kept, at the rate of faults of requests."""
    try:
        yield
    except FilesError as error:
        if not isinstance(error, FilesChanged):  # that is a fault of what was sent
            await request.app.state.faults.note(desk, "snapshots", error)
        raise


async def expect_snapshots(desk: Desk, specs: Iterable[JobSpec]) -> None:
    """Raise `SpecError` unless all snapshots that jobs name are here."""
    wanted = {digest for spec in specs if (digest := snapshot_of(spec.payload)) is not None}
    if not wanted:
        return
    store = desk.snapshots()
    for digest in sorted(wanted):
        if not await asyncio.to_thread(store.has, digest):
            raise SpecError(f"snapshot {digest} is not here; nothing was submitted. Send it to /api/v1/snapshots first")


def _write(store: SnapshotStore, body: bytes) -> int:
    count = 0
    for piece in upload.parse(body):
        store.write(piece)
        count += 1
    return count
