"""The controller's own log: worth having, and never the reason that anything stops."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType


class LogFile:
    """A file that lines are added to. One that cannot be written, because the disk is full, is left out.

    The log lies on the same disk as the journal: whoever reports that the disk is full must not die of it. Nothing is
    buffered, so that an old line is no obstacle for a new one. Raises `OSError` where the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> LogFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def write(self, text: str) -> None:
        """Add a text."""
        with suppress(OSError):
            os.write(self._file, text.encode(errors="backslashreplace"))

    def flush(self) -> None:
        """Everything has been written already."""
