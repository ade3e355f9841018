"""A courier: what the node at the other end of its connection may answer."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hostler.backends.courier import Courier
from hostler.model.errors import FilesError

ASKED = {"op": "read", "limit": 10}


async def piece_of(count: str, data: bytes) -> bytes:
    """What a courier has read of a piece, whose size the node states."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b'{"count": %s}\n' % count.encode() + data)
        courier = Courier("n1", *await asyncio.open_connection(sock=ours))
        try:
            return (await courier.piece(ASKED))[1]
        finally:
            courier.close()


def test_piece_of_a_file_has_as_many_bytes_as_the_node_states() -> None:
    assert asyncio.run(piece_of("3", b"abcdef")) == b"abc"


@pytest.mark.parametrize("count", ["-1", "11", "1e400", "NaN", '"many"', "null", "[]", "{}"])
def test_piece_with_a_size_that_was_not_asked_for_is_an_error_of_the_files(count: str) -> None:
    with pytest.raises(FilesError, match="what the node tells of a piece of a file cannot be understood"):
        asyncio.run(piece_of(count, b"abcdef"))
