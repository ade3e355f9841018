"""What an agent makes of requests for files, and of the bytes behind them: nothing outside of its folder is touched."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from hostler.agent.files import Files
from hostler.agent.protocol import Json
from hostler.agent.shelves import Shelf

from .base import Target
from .samples import said

DATA = b"abc"
ABC = hashlib.sha256(DATA).hexdigest()
PLACE = f"artifacts/objects/{ABC[:2]}/{ABC}.segment.npz"


class _Caged(Files):
    """Files that are served of one folder, whatever folder is asked for."""

    def _at(self, request: Json) -> Json | None:
        if not os.path.isabs(str(request["root"])):
            return super()._at(request)
        self._say({"ok": True})
        _CagedShelf(os.path.join(self._root, "shelf"), self._input, self._output).serve()
        return None


class _CagedShelf(Shelf):
    _at = _Caged._at  # type: ignore[assignment]


def target(data: bytes) -> None:
    """Every request is answered by a line, or ends the connection by an `OSError`."""
    with tempfile.TemporaryDirectory(prefix="hostler-fuzz-") as folder:
        outside, root = Path(folder) / "outside", Path(folder) / "root"
        _furnished(root, outside)
        before = _seen(outside), sorted(os.listdir(folder))
        output = io.BytesIO()
        with suppress(OSError):
            _Caged(str(root), io.BytesIO(data), output).serve()
        assert (_seen(outside), sorted(os.listdir(folder))) == before
        assert b"SECRET" not in output.getvalue()


def _furnished(root: Path, outside: Path) -> None:
    """A folder with an artifact, an attempt, and links that lead out of it."""
    for name in ("artifacts/objects/" + ABC[:2], "attempts/j1.1", "blobs", "trees", "shelf"):
        (root / name).mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_bytes(b"SECRET")
    (root / PLACE).write_bytes(DATA)
    (root / "attempts/j1.1/out").write_bytes(b"hello")
    (root / "attempts/j1.1/away").symlink_to(outside)
    (root / "blobs/away").symlink_to(outside / "secret")


def _seen(folder: Path) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]


PUT = {"op": "put", "path": f"blobs/{ABC[:2]}/{ABC}", "sha256": ABC, "size": 3, "offset": 0}
TARGET = Target(
    name="requests_for_files",
    run=target,
    seeds=(
        said(PUT) + DATA + said({"op": "lay", "tree": "t1", "files": [["a/b", ABC, True]], "shared": False}),
        said({"op": "get", "files": [["attempts/j1.1/out", 0], [PLACE, 1], ["attempts/j1.1/away/secret", 0]]}),
        said({"op": "missing", "files": {ABC: PUT["path"], "0" * 64: f"blobs/00/{'0' * 64}"}}),
        said({"op": "outputs", "attempt": "j1.1", "patterns": ["*", "**/x"]}, {"op": "find", "sha256": [ABC]}),
        said({"op": "outputs", "attempt": "j1.1", "patterns": ["**"], "laid": ["a", "b/c"]}),
        said({"op": "stock", "after": "", "limit": 10}, {"op": "drop", "names": [f"{ABC}.segment.npz"], "unused_s": 0}),
        said({"op": "clear", "tree": "t1"}, {"op": "keep", "trees": ["t1"]}),
        said({"op": "at", "root": "/shelf"}, {**PUT, "path": f"{ABC[:2]}/{ABC}.segment.npz"}) + DATA,
        said({"op": "at", "root": "/shelf"}, {"op": "room"}, {"op": "list", "after": "", "limit": 5}),
        said({"op": "get", "files": [["blobs/away", 0]]}, {"op": "get", "files": [["../outside/secret", 0]]}),
    ),
    reads=("hostler.agent.files", "hostler.agent.stock", "hostler.agent.paths", "hostler.agent.shelves",
           "hostler.agent.patterns"),
    large={
        "requests": lambda: said({"op": "find", "sha256": []}) * 36_000,
        "deep": lambda: b'{"op":"keep","trees":' + b"[" * (1 << 20) + b"\n",
        "many": lambda: said({"op": "find", "sha256": [f"{at:064x}" for at in range(14_000)]}),
        "patterns": lambda: said({"op": "outputs", "attempt": "j1.1", "patterns": ["**/" * 300_000]}),
        "many patterns": lambda: said({"op": "outputs", "attempt": "j1.1", "patterns": ["a*b*c*"] * 100_000}),
        "laid": lambda: said({"op": "outputs", "attempt": "j1.1", "patterns": ["**"], "laid": ["x" * 9] * 90_000}),
        "stars": lambda: said({"op": "outputs", "attempt": "j1.1", "patterns": ["*" * (1 << 20)]}),
    },
)  # fmt: skip
