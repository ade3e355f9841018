"""Errors of function calls: what the futures of an Executor raise. No controller answers with one of them."""

from __future__ import annotations

from hostler.model.errors import HostlerError


class CallFailed(HostlerError):
    """A function call of an `Executor` has no result: its batch failed or was cancelled, or it could not be sent."""


class RemoteError(CallFailed):
    """A function raised an exception whose class is not built in; the message begins with the name of the class."""


class ResultError(CallFailed):
    """A function returned a value that cannot be sent, or that cannot be read here."""


class WorkerDied(CallFailed):
    """The process that ran a function ended: a segmentation fault, `os._exit`, no memory left."""
