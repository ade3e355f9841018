"""dask.distributed on this machine: a LocalCluster of two worker processes with one thread each, no dashboard."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from measure import WORKERS, Run, main
from tasks import TASKS


@contextmanager
def session(kind: str) -> Iterator[Run]:
    """Start a cluster and give a function that runs n tasks of the kind."""
    from distributed import Client, LocalCluster

    task = TASKS[kind]
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield lambda n: sum(client.gather(client.map(task, range(n), pure=False)))


if __name__ == "__main__":
    main("dask.distributed", version("distributed"), session)
