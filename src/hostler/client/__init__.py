"""The Python SDK: a running controller, over its HTTP interface.

::

    client = hostler.connect()
    job = client.submit(["python", "train.py"])
    print(job.result())
    for entry in client.events(after=0):
        print(entry["seq"], entry["event"]["kind"])

`AsyncClient` has the same methods, to be awaited; what the one iterates over, the other does with `async for`::

    async with await hostler.connect_async() as client:
        async for job in client.all_jobs(["failed"]):
            await client.retry(job["id"])

Answers are decoded JSON, field by field the views of `hostler.model.views` and `hostler.model.steering`;
docs/reference/openapi.json describes them, `hostler.client.shapes` tells type checkers of them, and notebooks show
them as tables. Lists are gathered from all their pages. Nothing that is imported here imports more than the standard
library, because every command of the command line pays for it; `AsyncClient` takes httpx2 along when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostler.client.address import Address, address_from, address_in
from hostler.client.calls import PAGE, RECONNECT_S, LogPiece, Rows, View
from hostler.client.plain import TIMEOUT_S, Client

if TYPE_CHECKING:
    from hostler.client.awaited import AsyncClient

__all__ = [
    "PAGE",
    "RECONNECT_S",
    "TIMEOUT_S",
    "Address",
    "AsyncClient",
    "Client",
    "LogPiece",
    "Rows",
    "View",
    "address_from",
    "address_in",
]


def __getattr__(name: str) -> Any:
    if name == "AsyncClient":
        from hostler.client.awaited import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
