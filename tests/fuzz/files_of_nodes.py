"""What comes of a node where files were asked of it: lines, and the bytes of files between them."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hostler.agent.protocol import line
from hostler.backends.arriving import Wanted
from hostler.backends.courier import Courier, Parcel
from hostler.backends.receiver import Landing, Line, Refused, Teller
from hostler.model.errors import FilesError, LinkError

from .base import Target
from .controller_lines import deaf
from .samples import DIGEST

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
MOST = 1 << 16


def target(data: bytes) -> None:
    """Files that were asked for, at most as large as they may be and under the names they were to have, or an error."""
    with tempfile.TemporaryDirectory(prefix="hostler-fuzz-") as folder:
        here = Path(folder)
        _receiver(data, here)
        for way in (_land, _ask):
            with suppress(FilesError, LinkError):
                asyncio.run(_with_courier(way, data, here))
        left = {path.name for path in here.iterdir()}
        assert left <= {"p0", "p1", "t0", "t1"}, left
        assert all(path.stat().st_size <= MOST for path in here.iterdir())


def _receiver(data: bytes, here: Path) -> None:
    """The process that takes files out of a socket ends by an error that it can tell of."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        theirs.setblocking(False)
        with suppress(BlockingIOError):
            theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        files = [(str(here / f"p{at}"), str(here / f"t{at}"), MOST) for at in range(2)]
        with suppress(ConnectionError, Refused, FileNotFoundError):
            Landing(Line(ours), Teller(io.BytesIO(), os.getppid())).land(files)
    for path in here.iterdir():
        path.unlink()


async def _with_courier(way: Callable[[Courier, Path], Awaitable[None]], data: bytes, here: Path) -> None:
    courier = _courier(data)
    try:
        await way(courier, here)
    finally:
        courier.close()


async def _land(courier: Courier, here: Path) -> None:
    wanted = [
        Wanted(path=f"f{at}", size=MOST, target=str(here / f"t{at}"), partial=str(here / f"p{at}"), sha256=digest)
        for at, digest in enumerate((ABC, None))
    ]
    with suppress(FileNotFoundError):  # it says that much has come before, and nothing has
        await courier.get(wanted)


async def _ask(courier: Courier, here: Path) -> None:
    """One question after the other, each answered by the next line."""
    await courier.greet(1)
    for asked in (
        lambda: courier.missing([Parcel(source=here / "x", path="artifacts/objects/x", size=3, sha256=ABC)]),
        lambda: courier.outputs("j1.1", ["*"]),
        lambda: courier.find([ABC]),
        lambda: courier.lay("t", [], shared=False),
        lambda: courier.piece({"op": "read"}),
    ):
        with suppress(FilesError):
            await asked()  # type: ignore[no-untyped-call]


def _courier(data: bytes) -> Courier:
    reader = asyncio.StreamReader(limit=64 << 20)
    reader.feed_data(data)
    reader.feed_eof()
    writer = deaf(reader)

    async def drain() -> None:
        """There is always room."""

    writer.drain = drain  # type: ignore[method-assign]
    return Courier("n", reader, writer)


def _said(*parts: Any) -> bytes:
    return b"".join(part if isinstance(part, bytes) else line(part) for part in parts)


SMALL = {"size": 3, "offset": 0, "sha256": ABC}
TARGET = Target(
    name="files_of_nodes",
    run=target,
    seeds=(
        _said(SMALL, b"abc", SMALL, b"abc"),
        _said({"size": 3, "offset": 0}, b"abc", {"sha256": ABC}, {"error": "it is not there"}),
        _said({"size": 3, "offset": 1, "sha256": ABC}, b"bc", SMALL, b"abc"),
        _said(
            {"type": "hello", "protocol": 1},
            {"missing": {ABC: 1, DIGEST: 0}},
            {"folder": "trees/j1.1", "files": [["a/b", 3], ["c", 0]]},
            {"found": {ABC: ["artifacts/objects/ba/x.segment.npz", 3]}},
            {"path": "/x/trees/t"},
            {"count": 3},
            b"abc",
        ),
        _said({"type": "refused", "reason": "epoch"}, {"error": "no", "damaged": True}),
    ),
    reads=("hostler.backends.receiver", "hostler.backends.courier"),
    large={
        "deep": lambda: b"[" * (1 << 20) + b"\n",
        "one line": lambda: b"x" * (1 << 20),
        "digits": lambda: b'{"size":' + b"9" * (1 << 20) + b"}\n",
        "found": lambda: _said(
            {"type": "hello"}, {"missing": {f"{at:064x}": 0 for at in range(14_000)}}
        ),
    },
)  # fmt: skip
