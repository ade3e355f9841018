"""dask.distributed on this machine: a LocalCluster of two worker processes with one thread each, no dashboard."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from measure import WORKERS, Run, main
from tasks import TASKS

UNQUEUED = {"distributed.scheduler.worker-saturation": math.inf}  # the default, 1.1, costs half as much CPU again here


@contextmanager
def session(kind: str) -> Iterator[Run]:
    """Start a cluster and give a function that runs n tasks of the kind."""
    import dask  # type: ignore[import-not-found]
    from distributed import Client, LocalCluster  # type: ignore[import-not-found]

    task = TASKS[kind]
    with (
        dask.config.set(UNQUEUED),
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield lambda n: sum(client.gather(client.map(task, range(n), pure=False)))


if __name__ == "__main__":
    main("dask.distributed", version("distributed"), session)
