"""Files that jobs left: which there are, and their bytes, in ranges for who takes up a broken download."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote, unquote

from fastapi import Path
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hostler.model.files import OutputFile
from hostler.web import problems
from hostler.web.answers import Name, TheDesk, answer
from hostler.web.routing import Routes

router = Routes(tags=["jobs"])

RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))")
CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {}}, "description": "All bytes"},
    206: {"content": {"application/octet-stream": {}}, "description": "The bytes of the header `Range`"},
    416: {"description": "The file is shorter than the header `Range` says"},
}
FilePath = Annotated[
    str, Path(description="a path as the list of files has it (percent-encoded)"), AfterValidator(unquote)
]


@router.get("/jobs/{name}/files", response_model=list[OutputFile])
async def list_files(desk: TheDesk, name: Name) -> Response:
    """The files that the accepted attempt of a job left; none while it is not done."""
    return answer(list[OutputFile], await desk.left_files(name))


@router.get("/jobs/{name}/files/{path:path}", response_class=Response, responses=CONTENT)
async def read_file(request: Request, desk: TheDesk, name: Name, path: FilePath) -> Response:
    """The bytes of one of these files, all or one `Range` of them. `ETag` is the SHA-256 of the whole file.

    With `If-Range` all bytes are sent where the file has another `ETag`.
    """
    content = await desk.left_file(name, path)
    file, tag = content.file, f'"{content.file.sha256}"'
    asked = request.headers.get("range") if request.headers.get("if-range", tag) == tag else None
    part = wanted(asked, file.size)
    headers = {"ETag": tag, "Accept-Ranges": "bytes", "Content-Disposition": attachment(file.path)}
    if part is None:
        return problems.from_status(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            f"{file.path} has {file.size} bytes, and {asked} was asked for",
            {"Content-Range": f"bytes */{file.size}"},
        )
    begin, end = part
    headers["Content-Length"] = str(end - begin)
    status = HTTPStatus.OK
    if asked is not None and RANGE.fullmatch(asked):
        status, headers["Content-Range"] = HTTPStatus.PARTIAL_CONTENT, f"bytes {begin}-{end - 1}/{file.size}"
    return StreamingResponse(content.pieces(begin, end), status, headers, media_type="application/octet-stream")


def wanted(header: str | None, size: int) -> tuple[int, int] | None:
    """Where the bytes of a `Range` begin and end; `None` where the file has none of them.

    What is not one range of bytes is ignored, as RFC 9110 wants it: then it is the whole file.
    """
    found = None if header is None else RANGE.fullmatch(header)
    if found is None:
        return 0, size
    first, last, suffix = found.groups()
    if suffix is not None:
        return (max(0, size - int(suffix)), size) if int(suffix) and size else None
    begin, end = int(first), min(int(last) + 1, size) if last else size
    return (begin, end) if begin < end else None


def attachment(path: str) -> str:
    """The header that has browsers save a file, under the last part of its path (RFC 6266)."""
    name = path.rpartition("/")[2]
    plain = re.sub(r"[^ !#-\[\]-~]", "_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
