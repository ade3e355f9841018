"""Parsl's HighThroughputExecutor on this machine: one block with two workers, plain sockets, no logs."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from measure import WORKERS, Run, main
from tasks import TASKS

PREFETCH = 100  # tasks sent ahead to the workers; the default, 0, costs more CPU when tasks are short


@contextmanager
def session(kind: str) -> Iterator[Run]:
    """Start Parsl and give a function that runs n tasks of the kind."""
    import parsl  # type: ignore[import-not-found]
    from parsl.executors import HighThroughputExecutor  # type: ignore[import-not-found]
    from parsl.providers import LocalProvider  # type: ignore[import-not-found]

    executor = HighThroughputExecutor(
        address="127.0.0.1",
        max_workers_per_node=WORKERS,
        encrypted=False,
        prefetch_capacity=PREFETCH,
        provider=LocalProvider(init_blocks=1, min_blocks=1, max_blocks=1),
    )
    config = parsl.Config(executors=[executor], strategy="none", initialize_logging=False, usage_tracking=0)
    with parsl.load(config):
        app = parsl.python_app(TASKS[kind])
        yield lambda n: sum(future.result() for future in [app() for _ in range(n)])


if __name__ == "__main__":
    main("parsl", version("parsl"), session)
