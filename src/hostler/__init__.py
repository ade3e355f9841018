"""Hostler schedules GPU work on mixed machines from one controller, and never loses a result.

The names below are the Python SDK::

    client = hostler.connect()
    job = client.submit(["python", "train.py"])
    print(job.result())
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hostler.client.awaited import AsyncClient
    from hostler.client.call_errors import CallFailed, RemoteError, ResultError, WorkerDied
    from hostler.client.connecting import connect, connect_async
    from hostler.client.executor import AsyncExecutor, Executor
    from hostler.client.jobs import AsyncGroup, AsyncJob, Group, HostlerWarning, Job, JobFailed
    from hostler.client.plain import Client
    from hostler.client.specs import JobOptions
    from hostler.model.errors import HostlerError

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncExecutor",
    "AsyncGroup",
    "AsyncJob",
    "CallFailed",
    "Client",
    "Executor",
    "Group",
    "HostlerError",
    "HostlerWarning",
    "Job",
    "JobFailed",
    "JobOptions",
    "RemoteError",
    "ResultError",
    "WorkerDied",
    "connect",
    "connect_async",
]

_MODULES = {
    "AsyncClient": "hostler.client.awaited",
    "AsyncExecutor": "hostler.client.executor",
    "AsyncGroup": "hostler.client.jobs",
    "AsyncJob": "hostler.client.jobs",
    "CallFailed": "hostler.client.call_errors",
    "Client": "hostler.client.plain",
    "Executor": "hostler.client.executor",
    "Group": "hostler.client.jobs",
    "HostlerError": "hostler.model.errors",
    "HostlerWarning": "hostler.client.jobs",
    "Job": "hostler.client.jobs",
    "JobOptions": "hostler.client.specs",
    "JobFailed": "hostler.client.jobs",
    "RemoteError": "hostler.client.call_errors",
    "ResultError": "hostler.client.call_errors",
    "WorkerDied": "hostler.client.call_errors",
    "connect": "hostler.client.connecting",
    "connect_async": "hostler.client.connecting",
}
"""Where the names are from. They are imported when they are used: every module of Hostler imports this one."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
