"""The format in which file contents travel from client to controller: pieces, each a line of JSON and its bytes.

A file may come in several pieces and over several requests; the controller tells the offset at which it goes on. Files
are known by their SHA-256, so that a piece that comes twice does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hostler.model.errors import FilesChanged, SpecError
from hostler.snapshots.manifest import SHA256

REQUEST_BYTES = 8 << 20
"""File contents of one request; small enough that a cut connection repeats little."""
HEADER_MAX = 300


class Piece(NamedTuple):
    """Bytes of a file from an offset on; `size` is that of the whole file."""

    sha256: str
    size: int
    offset: int
    data: bytes


class Body(NamedTuple):
    """The body of a request, and how many bytes of files are in it."""

    data: bytes
    contents: int


class Source(NamedTuple):
    """A file that the controller lacks, here, with the bytes that it has of it already."""

    path: Path
    sha256: str
    size: int
    offset: int


def bodies(sources: Iterable[Source]) -> Iterator[Body]:
    """Bodies of requests that together bring these files. Raises `FilesChanged` for a file that became shorter."""
    data, contents = bytearray(), 0
    for source in sources:
        for piece in _pieces(source):
            data += json.dumps([piece.sha256, piece.size, piece.offset, len(piece.data)]).encode() + b"\n" + piece.data
            contents += len(piece.data)
            if len(data) >= REQUEST_BYTES:
                yield Body(bytes(data), contents)
                data, contents = bytearray(), 0
    if data:
        yield Body(bytes(data), contents)


def _pieces(source: Source) -> Iterator[Piece]:
    at = source.offset
    with source.path.open("rb") as file:
        file.seek(at)
        while True:
            data = file.read(min(REQUEST_BYTES, source.size - at))
            if not data and at < source.size:
                raise FilesChanged(f"{source.path} became shorter while it was sent; submit again when it is complete")
            yield Piece(source.sha256, source.size, at, data)
            at += len(data)
            if at == source.size:
                return


def parse(body: bytes) -> Iterator[Piece]:
    """The pieces of a body. Raises `SpecError` at the first that is not complete."""
    at = 0
    while at < len(body):
        end = body.find(b"\n", at, at + HEADER_MAX)
        try:
            sha256, size, offset, length = json.loads(body[at : max(end, at)])
        except (ValueError, TypeError, RecursionError) as error:
            raise SpecError(f"the piece at byte {at} of the body has no header that can be read") from error
        _check(sha256, size, offset, length, at)
        data = body[end + 1 : end + 1 + length]
        if len(data) != length:
            raise SpecError(f"the body ends within the piece at byte {at}: {length} bytes were announced")
        yield Piece(sha256, size, offset, data)
        at = end + 1 + length


def _check(sha256: object, size: object, offset: object, length: object, at: int) -> None:
    numbers = [number for number in (size, offset, length) if type(number) is int and number >= 0]
    if not isinstance(sha256, str) or not SHA256.fullmatch(sha256) or len(numbers) != 3:
        raise SpecError(f"the piece at byte {at} of the body needs a SHA-256 and three byte counts")
    if numbers[1] + numbers[2] > numbers[0]:
        raise SpecError(f"the piece at byte {at} of the body goes beyond the end of its file")
