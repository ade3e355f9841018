"""A folder of this node in which copies of artifacts are kept for the controller, who says what lies there.

A connection for files becomes one for such a folder by its request ``at``; from then on these requests are of it, and
of nothing else of this node. Copies are read back from the disk. Format: ``docs/reference/agent-protocol.md``.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from typing import BinaryIO, Callable, Dict, List, Optional

from .contents import regular_size
from .files import Files, sync_folder
from .protocol import Json, RequestError, integer
from .shared import publish

LABEL = "hostler-store.json"
QUARANTINE = "quarantine"
_LABEL_MAX = 4096
_PIECE_BYTES = 4 << 20
_READ_BYTES = 1 << 20
_OBJECT = re.compile(r"objects/([0-9a-f]{2})/\1[0-9a-f]{62}\.[a-z.]{1,30}")
_SHELF = re.compile(r"[0-9a-f]{2}")


class Shelf(Files):
    """Answers the requests of one connection, for one folder."""

    writable = ("objects/",)

    def __init__(self, root: str, source: BinaryIO, output: BinaryIO) -> None:
        super().__init__(root, source, output)
        answers: Dict[str, Callable[[Json], Optional[Json]]] = {
            "missing": self._missing,
            "put": self._put,
            "check": self._check,
            "read": self._read,
            "listed": self._listed,
            "remove": self._remove,
            "aside": self._aside,
            "label": self._label,
            "room": self._room,
        }
        self._answers = answers

    def _check(self, request: Json) -> Json:
        """The hash of a file as it lies on the disk: what the system remembers of it is let go before."""
        digest, size = hashlib.sha256(), 0
        try:
            with self._object_opened(request) as source:
                _forget(source)
                while True:
                    data = source.read(_READ_BYTES)
                    if not data:
                        break
                    digest.update(data)
                    size += len(data)
        except FileNotFoundError:
            return {"found": False}
        return {"found": True, "size": size, "sha256": digest.hexdigest()}

    def _read(self, request: Json) -> Optional[Json]:
        """A piece of a file; its bytes follow the answer."""
        offset, limit = integer(request["offset"], "offset"), integer(request["limit"], "limit")
        try:
            with self._object_opened(request) as source:
                source.seek(offset)
                data = source.read(min(limit, _PIECE_BYTES))
        except FileNotFoundError:
            return {"found": False}
        self._say({"found": True, "count": len(data)})
        self._output.write(data)
        self._output.flush()
        return None

    def _listed(self, request: Json) -> Json:
        """The objects of one of the 256 folders."""
        shelf = str(request["shelf"])
        if not _SHELF.fullmatch(shelf):
            raise RequestError("%.80r is no shelf" % shelf)
        folder = "objects/" + shelf
        found: List[List[object]] = []
        with suppress(FileNotFoundError), os.scandir(self._inside(folder)) as entries:
            for entry in entries:
                if _OBJECT.fullmatch(folder + "/" + entry.name) and entry.is_file(follow_symlinks=False):
                    found.append([folder + "/" + entry.name, entry.stat(follow_symlinks=False).st_size])
        return {"files": found}

    def _remove(self, request: Json) -> Json:
        path = self._object(request)
        with suppress(FileNotFoundError):
            os.unlink(path)
            sync_folder(os.path.dirname(path))
        return {"ok": True}

    def _aside(self, request: Json) -> Json:
        path = self._object(request)
        os.makedirs(os.path.join(self._root, QUARANTINE), 0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.replace(path, self._inside("%s/%s" % (QUARANTINE, os.path.basename(path))))
        return {"ok": True}

    def _label(self, request: Json) -> Json:
        """What it says that it is; with a text, what it says from now on."""
        path, text = os.path.join(self._root, LABEL), request.get("text")
        if text is not None:
            _write_through(path, str(text)[:_LABEL_MAX])
        try:
            with open(path, "rb") as source:
                return {"text": source.read(_LABEL_MAX).decode("utf-8", "replace")}
        except FileNotFoundError:
            return {"text": None}

    def _room(self, request: Json) -> Json:
        """Bytes for who may not use what is reserved for root."""
        found = os.statvfs(self._root)
        return {"free": found.f_bavail * found.f_frsize}

    def _object(self, request: Json) -> str:
        path = str(request["path"])
        if not _OBJECT.fullmatch(path):
            raise RequestError("%.200r is no object" % path)
        return self._inside(path)

    def _object_opened(self, request: Json) -> BinaryIO:
        """A regular file to read; a link is none."""
        path = self._object(request)
        source = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
        try:
            regular_size(source.fileno(), path)
        except OSError:
            source.close()
            raise
        return source


def _forget(source: BinaryIO) -> None:
    """Have the system read from the disk what is read next, where it can be told so."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _write_through(path: str, text: str) -> None:
    publish(path, text.encode("utf-8"), 0o644)
    sync_folder(os.path.dirname(path))
