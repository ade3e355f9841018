"""procrastinate on PostgreSQL, by psycopg: a pool with a connection for each client, some worker processes.

Its state changes of a job: deferred, started, succeeded; each is an update of the job's row and, by a trigger, a row
in its table of events. The job is kept. It has no group commit between clients.
"""

import asyncio
from importlib.metadata import version

from clients import BATCH, WORKER, Asked, asked, submitted, tell, through, workers
from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

WORKERS, CONCURRENCY = 4, 10
"""Workers, and jobs that each runs at once; more are no faster. One alone waits for the disk twice a job."""
STATES = 3


def main() -> None:
    """Run one case, or the worker of it."""
    what, role = asked(__doc__)
    app = App(connector=PsycopgConnector(conninfo=_address(what), min_size=what.clients, max_size=what.clients + 2))
    task = app.task(_nothing, name="nothing")
    asyncio.run(_work(app) if role == WORKER else _measure(what, app, task))


async def _nothing(number: int) -> None:
    """Do nothing."""


async def _measure(what: Asked, app, task) -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()

        async def submit(_client: int, count: int) -> None:
            if count == 1:
                await task.defer_async(number=1)
            else:
                await task.batch_defer_async(*({"number": number} for number in range(count)))

        async def done() -> int:
            query = "select count(*) as n from procrastinate_jobs where status = 'succeeded'"
            return (await app.connector.execute_query_one_async(query))["n"]

        if what.case != "through":
            made = await submitted(what, submit)
        else:
            with workers(WORKERS):
                made = await through(what, submit, done, BATCH)
        tell(made.line(version("procrastinate"), states=STATES))


async def _work(app) -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


def _address(what: Asked) -> str:
    return what.store.replace("postgresql+psycopg://", "postgresql://")


if __name__ == "__main__":
    main()
