"""What every stage does around its work: the order read and checked, the result left, failures told.

docs/reference/learning.md is the contract. A stage is a function from its order, the artifacts and a `Report` to its
result; `run_stage` makes a process of it.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from hostler.workloads.alphazero.artifacts import ArtifactError, Artifacts, digest, replace
from hostler.workloads.alphazero.fields import Common, Fields, OrderError, common

__all__ = ["Common", "Fields", "OrderError", "Report", "StageError", "Stopped", "common", "run_stage", "termination"]

SCHEMA = 1
DONE, FAILED, UNREADABLE, STOPPED = 0, 1, 2, 128 + signal.SIGTERM


class StageError(Exception):
    """The stage cannot do what it was ordered, and could not the next time. `fields` go into the result as well."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.fields = fields


class Stopped(Exception):
    """The stage was asked to end (SIGTERM); its next life goes on from its work folder."""


class Report:
    """Rewrites the result with what there is so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.so_far: Mapping[str, Any] = {}

    def __call__(self, result: Mapping[str, Any]) -> None:
        """Leave `result`, atomically; a failure after this keeps its fields. Raises `ArtifactError`."""
        self.so_far = dict(result)
        content = json.dumps({"schema": SCHEMA, **result}, allow_nan=False).encode()
        try:
            replace(self._path, content)
        except OSError as error:
            raise ArtifactError(
                f"the result {self._path} ({len(content)} bytes) cannot be written: {error.strerror}; "
                "see to its folder, then start again"
            ) from error


Work: TypeAlias = Callable[[Mapping[str, Any], Artifacts, Report], Mapping[str, Any]]


def run_stage(stage: str, work: Work, environ: Mapping[str, str]) -> int:
    """Do what `$HOSTLER_INPUTS` orders and leave `$HOSTLER_RESULT`; answers the exit status.

    0: done. 1: cannot be done (`StageError`), or not on this node as it is now (`ArtifactError`). 2: the order cannot
    be read. 143: stopped by SIGTERM. The work folder is deleted after success and after a `StageError`, and kept
    whenever another life may go on from it. An error that nobody foresaw is reported and raised again.
    """
    try:
        inputs, report, artifacts = _places(environ)
    except OrderError as error:
        return _complain(stage, error, UNREADABLE)
    try:
        return _guarded(stage, work, inputs, artifacts, report)
    except ArtifactError as error:
        # Not even the result could be left: the log is all there is.
        return _complain(stage, error, FAILED)


@contextmanager
def termination() -> Iterator[Callable[[], bool]]:
    """Within it SIGTERM does not kill; the function it gives says whether one has come. Raise `Stopped` then."""
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGTERM, before)


def _guarded(stage: str, work: Work, inputs: Path, artifacts: Artifacts, report: Report) -> int:
    try:
        order = _read_order(inputs, stage)
        return _attempted(stage, work, order, artifacts, report)
    except OrderError as error:
        report({"error": str(error)})
        return _complain(stage, error, UNREADABLE)
    except ArtifactError as error:
        report({**report.so_far, "error": str(error)})
        return _complain(stage, error, FAILED)
    except Stopped as error:
        return _complain(stage, error, STOPPED)
    except Exception as error:
        report({**report.so_far, "error": f"{type(error).__name__}: {error}; the traceback is in the log: report it"})
        raise


def _attempted(stage: str, work: Work, order: Mapping[str, Any], artifacts: Artifacts, report: Report) -> int:
    status = DONE
    with artifacts.alone(order):
        try:
            with _ended_by_sigterm():
                result = work(order, artifacts, report)
            report(result)
        except StageError as error:
            report({**report.so_far, **error.fields, "error": str(error)})
            status = _complain(stage, error, FAILED)
        except OrderError:
            _clear(stage, artifacts.work(order))
            raise
        _clear(stage, artifacts.work(order))
    return status


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Within it SIGTERM raises `Stopped`, wherever the stage is, unless the stage has a `termination` of its own."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise Stopped("stopped by SIGTERM")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _clear(stage: str, folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        # What was ordered is done and told all the same; the folder is the next cleaning's.
        _complain(stage, f"{folder} is of no use any more and cannot be deleted: {error}", DONE)


def _places(environ: Mapping[str, str]) -> tuple[Path, Report, Artifacts]:
    names = ("HOSTLER_INPUTS", "HOSTLER_RESULT", "HOSTLER_ARTIFACTS")
    if missing := [name for name in names if not environ.get(name)]:
        raise OrderError(f"the environment lacks {', '.join(missing)}; docs/reference/learning.md says what they mean")
    inputs, result, artifacts = (Path(environ[name]) for name in names)
    return inputs, Report(result), Artifacts(artifacts)


def _read_order(path: Path, stage: str) -> Mapping[str, Any]:
    try:
        order = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise OrderError(f"the order {path} cannot be read: {error}") from error
    if not isinstance(order, dict):
        raise OrderError(f"the order {path} must be a JSON object, not {type(order).__name__}")
    for name, due in (("schema", SCHEMA), ("stage", stage)):
        if type(order.get(name)) is not type(due) or order[name] != due:
            raise OrderError(f"order.{name}: {order.get(name)!r}, but this program does {due!r}")
    try:
        digest(order)
    except (ValueError, RecursionError) as error:
        raise OrderError(f"the order {path} has no canonical form: {error}") from error
    return order


def _complain(stage: str, error: object, status: int) -> int:
    print(f"{stage}: {error}", file=sys.stderr)
    return status
