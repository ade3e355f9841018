"""pgqueuer on PostgreSQL, by asyncpg and uvloop: a connection for each client, one worker process.

Its state changes of a job: queued, picked, successful; the last removes the job's row, and it writes a row of its log
for each. Its worker fetches jobs, and records their ends, in batches; its tables are the durable ones (its default).
"""

import asyncio
from importlib.metadata import version

import asyncpg  # type: ignore[import-not-found]
import uvloop  # type: ignore[import-not-found]
from clients import BATCH, WORKER, Asked, asked, submitted, tell, through, workers
from pgqueuer import PgQueuer  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

FETCHED = 500
"""Jobs that the worker takes at once; with its default of 10 it has a third of the rate."""
STATES = 3


def main() -> None:
    """Run one case, or the worker of it."""
    what, role = asked(__doc__)
    uvloop.run(_work(what) if role == WORKER else _measure(what))


async def _measure(what: Asked) -> None:
    connections = [await asyncpg.connect(_address(what)) for _ in range(what.clients)]
    queries = [Queries(AsyncpgDriver(connection)) for connection in connections]
    await queries[0].install()

    async def submit(client: int, count: int) -> None:
        if count == 1:
            await queries[client].enqueue("nothing", b"1")
        else:
            await queries[client].enqueue(["nothing"] * count, [b"1"] * count, [0] * count)

    async def done() -> int:
        return await connections[0].fetchval("select count(*) from pgqueuer_log where status = 'successful'")

    if what.case != "through":
        made = await submitted(what, submit)
    else:
        with workers():
            made = await through(what, submit, done, BATCH)
    tell(made.line(version("pgqueuer"), states=STATES))


async def _work(what: Asked) -> None:
    connection = await asyncpg.connect(_address(what))
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("nothing")
    async def nothing(_job) -> None:
        await asyncio.sleep(0)

    await queue.run(batch_size=FETCHED)


def _address(what: Asked) -> str:
    return what.store.replace("postgresql+psycopg://", "postgresql://")


if __name__ == "__main__":
    main()
