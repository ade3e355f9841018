"""The least that a server can do: one stored answer to everything, in a process of its own; for api.py.

    python benchmarks/api_floor.py      prints the port it listens on, and answers until it is ended

What a sweep loses beside this one, it loses to those who ask, and to the system that carries their questions.
"""

import asyncio
from typing import Any

BODY = b"x" * 3000
"""About what the mix's answers have."""
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 1\n\n"


class Stored(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: Any) -> None:
        """It will be answered there."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """A request; those of the crowd are small, and come whole."""
        self._transport.write(STREAM if b"events HTTP" in data or b"/stream?" in data else ANSWER)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Stored, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
