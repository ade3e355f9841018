"""Scripts, styles and pictures of the pages: read once, known by their names only, kept by browsers for ever.

htmx and uPlot are vendored in `static/vendor`; scripts/vendored.py compares them with their npm packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from hostler.web import problems

PREFIX = "/static/"
FOLDER = Path(__file__).resolve().parent.parent / "static"
KINDS: Mapping[str, str] = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Static:
    """The files as they were when the controller started."""

    def __init__(self, folder: Path = FOLDER) -> None:
        paths = [path for path in sorted(folder.rglob("*")) if path.suffix in KINDS and path.is_file()]
        self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        self._versions = {name: blake2b(data, digest_size=6).hexdigest() for name, data in self._files.items()}

    def url(self, name: str) -> str:
        """Where a file is found; another content has another address."""
        return f"{PREFIX}{name}?v={self._versions[name]}"

    async def serve(self, request: Request) -> Response:
        """The file of that name; whatever is no name of a file is not found, so no path leads out of the folder."""
        name = request.url.path.removeprefix(PREFIX)
        if name not in self._files:
            return problems.from_status(HTTPStatus.NOT_FOUND, f"there is no {PREFIX}{name[:200]}")
        kept = request.query_params.get("v") == self._versions[name]
        headers = {"Cache-Control": "public, max-age=31536000, immutable" if kept else "no-cache"}
        kind = KINDS[Path(name).suffix]
        return Response(self._files[name], headers=headers, media_type=f"{kind}; charset=utf-8")
