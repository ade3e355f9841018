"""The controller's own log: worth having, and never the reason that anything stops."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType


class LogFile:
    """A file that lines are added to. One that cannot be written, because the disk is full, is left out.

    The log lies on the same disk as the journal: whoever reports that the disk is full must not die of it. Nothing is
    buffered, so that an old line is no obstacle for a new one. What comes after the end is left out too: threads that
    outlive the controller still log, and the number of the closed file may by then be that of another one, such as the
    journal. Raises `OSError` where the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()

    def __enter__(self) -> LogFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file = None

    def write(self, text: str) -> None:
        """Add a text; none once the file is closed."""
        with self._lock, suppress(OSError):
            if self._file is not None:
                os.write(self._file, text.encode(errors="backslashreplace"))

    def flush(self) -> None:
        """Everything has been written already."""
