"""The reserve of the state disk: bytes that no data from outside may take, so that the journal can be written.

Files and logs from nodes, uploads, results of jobs and artifacts stop there. A process serves one state directory, and
so has one reserve; `limits.reserve_gb` of the fleet file sets it.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

GB = 1 << 30
USUAL_BYTES = GB


class Reserve:
    """How much of a disk stays free."""

    def __init__(self, size: int = USUAL_BYTES) -> None:
        self.bytes = size

    def beside(self, folder: Path | str) -> int:
        """How many bytes may be written to the disk of a folder; below 0 where the reserve is touched already."""
        return shutil.disk_usage(folder).free - self.bytes

    def expect(self, folder: Path | str, size: int) -> None:
        """Raise `OSError` (`ENOSPC`) where so many bytes would touch the reserve."""
        room = self.beside(folder)
        if size > room:
            raise OSError(
                errno.ENOSPC,
                f"no room for {size} bytes: {max(room, 0)} are free beside the {self.bytes / GB:g} GiB that stay free "
                "(limits.reserve_gb)",
                str(folder),
            )


RESERVE = Reserve()
"""That of this process."""
