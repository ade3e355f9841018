"""HyperQueue from PyPI: server and a worker with two cores inside this process; tasks are processes without stdio.

Its client looks for the end once a second, so the wall time is up to one second too long.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from measure import WORKERS, Run, Unsupported, main
from tasks import TRUE


@contextmanager
def session(kind: str) -> Iterator[Run]:
    """Start server and worker and give a function that runs n tasks; only processes can be tasks."""
    if kind == "noop":
        raise Unsupported("has no no-op task: each of its tasks starts a process")
    from hyperqueue import Job, LocalCluster  # type: ignore[import-not-found]
    from hyperqueue.cluster import WorkerConfig  # type: ignore[import-not-found]

    with LocalCluster(os.environ["HOME"], WorkerConfig(cores=WORKERS)) as cluster:
        client = cluster.client()

        def run(n: int) -> int:
            job = Job(max_fails=None)
            for _ in range(n):
                job.program([TRUE], stdout=None, stderr=None)
            submitted = client.submit(job)
            if client.wait_for_jobs([submitted], raise_on_error=False):
                return n
            return n - len(client.get_failed_tasks(submitted))

        yield run


if __name__ == "__main__":
    main("hyperqueue", version("hyperqueue"), session)
