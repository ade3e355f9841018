"""Snapshots at submission on a terminal: confirmation, progress, and the files that were sent and left out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hostler.cli.questions import confirmed
from hostler.cli.show import clean
from hostler.client.snapshots import LARGE_BYTES, SentFolder
from hostler.model.errors import UsageError
from hostler.model.units import file_size

if TYPE_CHECKING:
    from hostler.snapshots.folder import FolderSnapshot

LEFT_OUT_SHOWN = 3
NEWS_BYTES = 1_000_000
PROGRESS_S = 3.0


class Terminal:
    """Asks on the terminal before a large folder is sent, and prints how much of it has been sent."""

    def __init__(self, *, yes: bool, in_place: bool) -> None:
        """`in_place`: whether the work may run in the folder itself, as sweeps may not."""
        self.remedy = "`--own-dir` sends no files" + (", `--in-place` runs in the folder itself" if in_place else "")
        self._yes = yes

    def confirm(self, snapshot: FolderSnapshot) -> None:
        """Raise `UsageError` unless a large folder is to be sent."""
        _confirm(snapshot, self._yes)

    def sending(self, snapshot: FolderSnapshot) -> Callable[[int], None]:
        """Called with the bytes of files in each request."""
        return _Progress(snapshot.manifest.size)


class _Progress:
    """Prints on standard error how much has been sent, where that takes long."""

    def __init__(self, size: int) -> None:
        self._sent = 0
        self._size = size
        self._printed_at = time.monotonic()

    def __call__(self, size: int) -> None:
        self._sent += size
        now = time.monotonic()
        if now - self._printed_at >= PROGRESS_S and self._sent < self._size:
            self._printed_at = now
            print(
                f"files: {file_size(self._sent)} of at most {file_size(self._size)} sent", file=sys.stderr, flush=True
            )


def _confirm(snapshot: FolderSnapshot, yes: bool) -> None:
    if yes or snapshot.manifest.size <= LARGE_BYTES:
        return
    what = f"{snapshot.folder} has {_count(snapshot)}, {file_size(snapshot.manifest.size)}, that are sent"
    fix = f"Leave out what the job does not need by {snapshot.folder}/.hostlerignore"
    if not sys.stdin.isatty():
        raise UsageError(f"{what}; more than {file_size(LARGE_BYTES)} needs --yes. {fix}")
    _print_left_out(snapshot)
    if not confirmed(f"{what}. Send them?"):
        raise UsageError(f"nothing was sent or submitted. {fix}")


def print_sent(sent: Sequence[SentFolder]) -> None:
    """Print what jobs start from, on standard error: ids alone stand on standard output."""
    for each in sent:
        news = f"{file_size(each.size)} sent" if each.size else "nothing new to send"
        size = file_size(each.snapshot.manifest.size)
        print(f"files: {_count(each.snapshot)}, {size} ({news})", file=sys.stderr)
        _print_left_out(each.snapshot)


def _print_left_out(snapshot: FolderSnapshot) -> None:
    """Print the largest things that were left out; small folders that tools make for themselves are no news."""
    from hostler.snapshots.selection import BUILD_REASON, UNSIZED

    news = [each for each in snapshot.left_out if each.reason != BUILD_REASON or each.size >= NEWS_BYTES]
    fetched = {reason for reason in {each.reason for each in news} if _is_of_a_fetch(snapshot.folder, reason)}
    news = [each for each in news if each.reason not in fetched]
    news.sort(key=lambda each: (each.reason not in UNSIZED, -each.size, each.path))
    for each in news[:LEFT_OUT_SHOWN]:
        size = "" if each.reason in UNSIZED else f" {file_size(each.size)}"
        print(clean(f"left out by {each.reason}: {each.path}{size}"), file=sys.stderr)
    if len(news) > LEFT_OUT_SHOWN:
        print(f"left out: {len(news) - LEFT_OUT_SHOWN} more", file=sys.stderr)


def _is_of_a_fetch(folder: Path, reason: str) -> bool:
    """Whether a file that names what is left out was written by a fetch."""
    if not reason.endswith("/.gitignore"):
        return False
    from hostler.client.downloads import IGNORED

    try:
        return (folder / reason).read_text(errors="replace").startswith(IGNORED)
    except OSError:
        return False


def _count(snapshot: FolderSnapshot) -> str:
    number = len(snapshot.manifest.files)
    return "1 file" if number == 1 else f"{number} files"
