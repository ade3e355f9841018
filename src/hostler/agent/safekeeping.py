"""Values of secret environment variables of attempts that have not begun, for an agent that starts over meanwhile.

They are in no journal. ``DIRECTORY/secrets/ID`` holds those of one attempt, readable by its owner only, and is deleted
before the process of the attempt begins.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Collection, Dict, Optional

from .protocol import RequestError, decode, encode
from .shared import make_folder, names

_FOLDER = "/secrets"
_MOST_BYTES = 64 << 20


class Safekeeping:
    """The secrets of one agent's attempts."""

    def __init__(self, directory: str) -> None:
        self._folder = directory + _FOLDER

    def keep(self, attempt: str, values: Dict[str, str]) -> None:
        """Write them down. Raises OSError."""
        make_folder(self._folder)
        path = self._path(attempt)
        with suppress(FileNotFoundError):
            os.unlink(path)
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as output:
                output.write(encode(values))
        except OSError:
            self.forget(attempt)
            raise

    def found(self, attempt: str) -> Optional[Dict[str, str]]:
        """Those of an attempt; None where there are none, or they are damaged."""
        try:
            with open(self._path(attempt), "rb") as source:
                values = decode(source.read(), _MOST_BYTES)
        except (OSError, RequestError):
            return None
        is_whole = all(type(name) is str and type(value) is str for name, value in values.items())
        return values if is_whole else None

    def forget(self, attempt: str) -> None:
        """Delete those of an attempt, if there are any."""
        with suppress(OSError):
            os.unlink(self._path(attempt))

    def tidy(self, wanted: Collection[str]) -> None:
        """Delete those of all other attempts."""
        with suppress(OSError):
            for name in names(self._folder):
                if name not in wanted:
                    self.forget(name)

    def _path(self, attempt: str) -> str:
        return "%s/%s" % (self._folder, attempt)
