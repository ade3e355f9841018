"""Ray on this machine: one raylet with two CPUs, no dashboard, no usage statistics."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from measure import WORKERS, Run, main
from tasks import TASKS

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
OBJECT_STORE_BYTES = 100 * 1024**2


@contextmanager
def session(kind: str) -> Iterator[Run]:
    """Start Ray and give a function that runs n tasks of the kind."""
    os.environ.update(QUIET)
    import ray  # type: ignore[import-not-found]

    ray.init(
        num_cpus=WORKERS,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        log_to_driver=False,
        _temp_dir=os.environ["HOME"],
    )
    task = ray.remote(TASKS[kind])
    try:
        yield lambda n: sum(ray.get([task.remote() for _ in range(n)]))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main("ray", version("ray"), session)
