"""Snapshots at submission: the folders of jobs are sent, and what was sent and left out is printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from hostler.cli.show import clean, file_size
from hostler.model.errors import FilesChanged, FilesError, UsageError

if TYPE_CHECKING:
    from hostler.client import Client
    from hostler.snapshots.folder import FolderSnapshot

LOCAL = "local"
"""The backend of nodes on the controller's own machine."""
OTHER_WAYS = {
    "script": "`--own-dir` sends no files, `--in-place` runs in the folder itself",
    "sweep": "`--own-dir` sends no files",
}
"""Submission without the files of the folder, by kind of work."""
LARGE_BYTES = 10**9
"""A folder that holds more is sent only if its owner confirms it."""
LEFT_OUT_SHOWN = 3
NEWS_BYTES = 1_000_000
PROGRESS_S = 3.0
CHANGES_MAX = 3
"""Times that a snapshot is taken again because a file changed while it was sent."""


class Sent(NamedTuple):
    """A folder whose files were sent."""

    snapshot: FolderSnapshot
    size: int
    """Bytes of files that were sent; 0: the controller had all contents."""


def with_snapshots(
    client: Client, specs: Sequence[Mapping[str, Any]], skip: Path, *, yes: bool
) -> tuple[list[dict[str, Any]], list[Sent]]:
    """The specs with a snapshot in place of each folder, which is sent first, and scripts with the file of it that
    states the Python environment. Specs without a folder are left as they are.

    `skip` is the controller's own folder. Raises `UsageError` where a folder cannot be sent, or is not to be.
    """
    sent: dict[tuple[str, tuple[str, ...] | None], Sent] = {}
    starts: dict[tuple[str, tuple[str, ...] | None, str, str | None], dict[str, Any]] = {}
    made = []
    if any(_is_sent(spec["payload"]) for spec in specs):
        client.status()  # a large folder is read for nothing where no controller answers
    for spec in specs:
        payload = dict(spec["payload"])
        if _is_sent(payload):
            patterns = None if payload.get("files") is None else tuple(payload["files"])
            key = (payload["cwd"], patterns)
            if key not in sent:
                snapshot = _taken(Path(payload["cwd"]), patterns, skip, payload["kind"])
                _start_of(client, snapshot, payload)  # before anything is sent: the job may be refused for it
                taken = partial(_taken, snapshot.folder, patterns, skip, payload["kind"])
                sent[key] = _send(client, snapshot, taken, yes=yes)
            start = (*key, payload["kind"], payload.get("python_env"))
            if start not in starts:  # once for all jobs of a group: the digest and the environment are read from files
                starts[start] = _start_of(client, sent[key].snapshot, payload)
            payload |= starts[start]
        made.append({**spec, "payload": payload})
    return made, list(sent.values())


def _is_sent(payload: Mapping[str, Any]) -> bool:
    is_run = payload["kind"] in ("script", "sweep")
    return is_run and payload.get("cwd") is not None and not payload.get("in_place")


def _start_of(client: Client, snapshot: FolderSnapshot, payload: Mapping[str, Any]) -> dict[str, Any]:
    """What takes the place of a folder in a payload. Raises as `_environment`."""
    start = {"snapshot": snapshot.digest, "cwd": None, "files": None}
    return start if payload["kind"] == "sweep" else start | {"environment": _environment(client, snapshot, payload)}


def _environment(client: Client, snapshot: FolderSnapshot, payload: Mapping[str, Any]) -> dict[str, str] | None:
    """The file of a snapshot that states the environment of a job. Raises `UsageError` where it cannot be built."""
    from hostler.snapshots.python_env import found_in

    paths = {file.path for file in snapshot.manifest.files}
    try:
        found = found_in(snapshot.folder, paths, payload.get("python_env"))
    except FilesError as error:
        if payload.get("python_env") is None and all(node["backend"] == LOCAL for node in client.nodes()):
            return None  # nobody asked for it, and nothing is built on this machine
        raise UsageError(str(error)) from error
    return None if found is None else {"file": found.file, "sha256": found.sha256}


def _send(client: Client, snapshot: FolderSnapshot, taken_again: Callable[[], FolderSnapshot], *, yes: bool) -> Sent:
    for left in range(CHANGES_MAX, -1, -1):
        _confirm(snapshot, yes)
        progress = _Progress(snapshot.manifest.size)
        try:
            client.send_snapshot(snapshot, progress)
        except FilesChanged:
            if not left:
                raise
            snapshot = taken_again()
        else:
            return Sent(snapshot, progress.sent)
    raise AssertionError("unreachable")


class _Progress:
    """Prints on standard error how much has been sent, where that takes long."""

    def __init__(self, size: int) -> None:
        self.sent = 0
        """Bytes of files."""
        self._size = size
        self._printed_at = time.monotonic()

    def __call__(self, size: int) -> None:
        self.sent += size
        now = time.monotonic()
        if now - self._printed_at >= PROGRESS_S and self.sent < self._size:
            self._printed_at = now
            print(f"files: {file_size(self.sent)} of at most {file_size(self._size)} sent", file=sys.stderr, flush=True)


def _taken(folder: Path, patterns: Sequence[str] | None, skip: Path, kind: str) -> FolderSnapshot:
    from hostler.snapshots.folder import take

    try:
        return take(folder, patterns, skip)
    except FilesError as error:
        raise UsageError(f"{error}. {OTHER_WAYS[kind]}") from error


def _confirm(snapshot: FolderSnapshot, yes: bool) -> None:
    if yes or snapshot.manifest.size <= LARGE_BYTES:
        return
    what = f"{snapshot.folder} has {_count(snapshot)}, {file_size(snapshot.manifest.size)}, that are sent"
    fix = f"Leave out what the job does not need by {snapshot.folder}/.hostlerignore"
    if not sys.stdin.isatty():
        raise UsageError(f"{what}; more than {file_size(LARGE_BYTES)} needs --yes. {fix}")
    _print_left_out(snapshot)
    if not typer.confirm(f"{what}. Send them?", err=True):
        raise UsageError(f"nothing was sent or submitted. {fix}")


def print_sent(sent: Sequence[Sent]) -> None:
    """Print what jobs start from, on standard error: ids alone stand on standard output."""
    for each in sent:
        news = f"{file_size(each.size)} sent" if each.size else "nothing new to send"
        size = file_size(each.snapshot.manifest.size)
        print(f"files: {_count(each.snapshot)}, {size} ({news})", file=sys.stderr)
        _print_left_out(each.snapshot)


def _print_left_out(snapshot: FolderSnapshot) -> None:
    """Print the largest things that were left out; small folders that tools make for themselves are no news."""
    from hostler.snapshots.selection import BUILD_REASON, LINK_REASON

    news = [each for each in snapshot.left_out if each.reason != BUILD_REASON or each.size >= NEWS_BYTES]
    news.sort(key=lambda each: (each.reason != LINK_REASON, -each.size, each.path))
    for each in news[:LEFT_OUT_SHOWN]:
        size = "" if each.reason == LINK_REASON else f" {file_size(each.size)}"
        print(clean(f"left out by {each.reason}: {each.path}{size}"), file=sys.stderr)
    if len(news) > LEFT_OUT_SHOWN:
        print(f"left out: {len(news) - LEFT_OUT_SHOWN} more", file=sys.stderr)


def _count(snapshot: FolderSnapshot) -> str:
    number = len(snapshot.manifest.files)
    return "1 file" if number == 1 else f"{number} files"
