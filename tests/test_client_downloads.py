"""Files of a job on their way here: hostile lists, cut connections, wrong bytes; by both clients."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import string
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, strategies as st

from hostler.client import Address, AsyncClient, Client, downloads
from hostler.client.downloads import checked
from hostler.model.errors import Conflict, FilesChanged, FilesError, LinkLost, UsageError
from tests.servers import QuietServer

CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()
TIMES = (0.0, 0.0, 0.0)
"""Rests of tests between attempts to take up a broken download."""


def row(path: str = "a/model.pt", content: bytes = CONTENT, **more: Any) -> dict[str, Any]:
    return {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest(), **more}


@dataclass
class Far:
    """A controller that may do anything; `cuts` are the bytes after which each answer in turn breaks off."""

    files: list[dict[str, Any]] = field(default_factory=lambda: [row()])
    content: bytes = CONTENT
    state: str = "done"
    cuts: list[int | None] = field(default_factory=list)
    tag: str = DIGEST
    ranges: bool = True
    asked: list[str | None] = field(default_factory=list)
    """The ranges of bytes that were asked for."""
    port: int = 0

    @property
    def client(self) -> Client:
        return Client(lambda: Address(f"http://127.0.0.1:{self.port}", "t"), timeout_s=30.0)


@pytest.fixture
def far() -> Iterator[Far]:
    made = Far()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path)
            if path.endswith("/files"):
                self._json(made.files)
            elif "/files/" in path:
                self._bytes()
            else:
                self._json({"job": {"id": "j7", "state": made.state}, "spec": {"payload": {"kind": "script"}}})

        def _json(self, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _bytes(self) -> None:
            asked = self.headers.get("Range")
            made.asked.append(asked)
            begin, end = 0, len(made.content)
            if asked and made.ranges:
                first, last = asked.removeprefix("bytes=").split("-")
                begin, end = int(first), min(int(last) + 1, end)
            body = made.content[begin:end]
            self.send_response(206 if made.ranges else 200)
            self.send_header("ETag", f'"{made.tag}"')
            if made.ranges:
                self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(made.content)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            cut = made.cuts.pop(0) if made.cuts else None
            self.wfile.write(body if cut is None else body[:cut])
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with QuietServer(("127.0.0.1", 0), Handler) as server:
        made.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield made
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pieces of a small file, and no rests."""
    monkeypatch.setattr(downloads, "PIECE", 4000)
    monkeypatch.setattr(downloads, "RECONNECT_S", TIMES)


def waits(far: Far, *words: Any, **more: Any) -> Any:
    return far.client.fetch(*words, **more)


def awaits(far: Far, *words: Any, **more: Any) -> Any:
    async def ask() -> Any:
        async with AsyncClient(lambda: Address(f"http://127.0.0.1:{far.port}", "t"), timeout_s=30.0) as client:
            return await client.fetch(*words, **more)

    return asyncio.run(ask())


@pytest.fixture(params=[waits, awaits])
def fetch(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """How either client fetches."""
    found: Callable[..., Any] = request.param
    return found


def there(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_a_file_comes_whole_through_cut_connections(far: Far, fetch: Callable[..., Any], tmp_path: Path) -> None:
    far.cuts = [100, None, 0, 3999, None, 1]
    (found,) = fetch(far, "j7", tmp_path)
    assert there(tmp_path) == {"a/model.pt": CONTENT}
    assert (found["path"], found["file"], found["copied"]) == ("a/model.pt", str(tmp_path / "a/model.pt"), True)
    assert set(far.asked) == {"bytes=0-3999", "bytes=4000-7999", "bytes=8000-10239"}


def test_pieces_become_smaller_with_each_cut_so_that_bytes_keep_coming(
    far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "PIECE_LEAST", 500)
    far.cuts = [10] * len(TIMES)
    far.client.fetch("j7", tmp_path)
    assert there(tmp_path) == {"a/model.pt": CONTENT}
    assert far.asked[:3] == ["bytes=0-3999", "bytes=0-1999", "bytes=0-999"]


def test_a_download_that_was_given_up_is_taken_up_where_it_was(far: Far, tmp_path: Path) -> None:
    far.cuts = [None, *([10] * (len(TIMES) + 1))]
    with pytest.raises(LinkLost):
        far.client.fetch("j7", tmp_path)
    (name,) = there(tmp_path)
    assert name.startswith("a/.hostler-"), "nothing half-written has the name of the file"
    far.asked.clear()
    far.client.fetch("j7", tmp_path)
    assert there(tmp_path) == {"a/model.pt": CONTENT}
    assert far.asked == ["bytes=4000-7999", "bytes=8000-10239"]


@pytest.mark.parametrize("begun", [b"x" * 4000, CONTENT + b"more", b"y" * len(CONTENT)])
def test_a_beginning_of_another_file_is_not_taken_up(far: Far, tmp_path: Path, begun: bytes) -> None:
    far.files = [row("model.pt")]
    (tmp_path / f".hostler-{DIGEST[:16]}.part").write_bytes(begun)
    far.client.fetch("j7", tmp_path)
    assert there(tmp_path) == {"model.pt": CONTENT}


def test_a_whole_answer_in_place_of_a_range_will_do(far: Far, fetch: Callable[..., Any], tmp_path: Path) -> None:
    far.ranges = False
    fetch(far, "j7", tmp_path)
    assert there(tmp_path) == {"a/model.pt": CONTENT}


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"tag": "0" * 64}, FilesChanged, "a/model.pt became another file while it was copied"),
        ({"content": CONTENT[:-1] + b"!"}, FilesError, "nothing was written under its name"),
        ({"content": CONTENT[:-1]}, FilesError, "were asked for, and others came"),
        ({"content": CONTENT + b"!"}, FilesError, "were asked for, and others came"),
    ],
)
def test_another_file_never_gets_the_name(
    far: Far, fetch: Callable[..., Any], tmp_path: Path, change: dict[str, Any], error: type[Exception], says: str
) -> None:
    for name, value in change.items():
        setattr(far, name, value)
    with pytest.raises(error, match=says):
        fetch(far, "j7", tmp_path)
    assert "a/model.pt" not in there(tmp_path)


def test_the_same_content_is_not_asked_for_again(far: Far, tmp_path: Path) -> None:
    far.files = [row("one"), row("two")]
    (tmp_path / "one").write_bytes(CONTENT)
    rows: list[Any] = []
    far.client.fetch("j7", tmp_path, told=rows.append)
    assert [(each["path"], each["copied"]) for each in rows] == [("one", False), ("two", True)]
    assert far.asked.count("bytes=0-3999") == 1


def test_other_content_of_the_same_size_is_seen_before_anything_is_copied(far: Far, tmp_path: Path) -> None:
    far.files = [row("one"), row("two")]
    (tmp_path / "two").write_bytes(b"z" * len(CONTENT))
    with pytest.raises(UsageError, match=r"there is two already, with other content\. No file of the job was copied"):
        far.client.fetch("j7", tmp_path)
    assert far.asked == []
    far.client.fetch("j7", tmp_path, force=True)
    assert there(tmp_path) == {"one": CONTENT, "two": CONTENT}


def test_a_link_in_the_place_of_a_file_is_replaced_and_never_written_through(far: Far, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    folder = tmp_path / "here"
    (folder / "a").mkdir(parents=True)
    (folder / "a/model.pt").symlink_to(mine)
    with pytest.raises(UsageError, match="with other content"):
        far.client.fetch("j7", folder)
    far.client.fetch("j7", folder, force=True)
    assert mine.read_text() == "mine"
    assert not (folder / "a/model.pt").is_symlink()


@pytest.mark.parametrize("blocked", ["a", "a/model.pt"])
def test_a_folder_in_the_way_is_an_error_even_with_force(far: Far, tmp_path: Path, blocked: str) -> None:
    (tmp_path / "a").mkdir()
    if blocked == "a":
        (tmp_path / "a").rmdir()
        (tmp_path / "a").write_text("a file")
    else:
        (tmp_path / blocked).mkdir()
    with pytest.raises(UsageError, match=r"a/model\.pt cannot be written"):
        far.client.fetch("j7", tmp_path, force=True)


def test_the_folder_is_called_as_the_job_and_never_as_its_key(
    far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    far.client.fetch("../../key of a job")
    assert there(tmp_path) == {"j7/a/model.pt": CONTENT}


@pytest.mark.parametrize(
    ("state", "error", "says"),
    [
        ("done", UsageError, "--output PATTERN"),
        ("running", Conflict, "hostler wait j7"),
        ("failed", Conflict, "hostler retry j7"),
    ],
)
def test_no_files_are_an_error_with_the_remedy(far: Far, state: str, error: type[Exception], says: str) -> None:
    far.files, far.state = [], state
    with pytest.raises(error, match=says):
        far.client.fetch("j7")


def test_a_folder_that_cannot_be_written_is_named(far: Far, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((FilesError, UsageError), match="file"):
        far.client.fetch("j7", tmp_path / "file")


def test_two_processes_do_not_write_one_file(far: Far, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    begun = tmp_path / f"a/.hostler-{DIGEST[:16]}.part"
    with (
        contextlib.closing(downloads._opened(begun, tmp_path / "a/model.pt")),
        pytest.raises(UsageError, match="being copied by another process"),
    ):
        far.client.fetch("j7", tmp_path)
    far.client.fetch("j7", tmp_path)


HOSTILE = [
    "", "/etc/passwd", "../up", "a/../../up", "a//b", "a/", "./a", "a/.", "..", ".", "a\0b", "a\nb", "\x1b[2J",
    "a\u202eb", "x" * 256, "/".join(["x" * 200] * 30), "a\ud800b",
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_path_is_refused_before_anything_is_written(far: Far, tmp_path: Path, path: str) -> None:
    far.files = [row("fine"), row(path)]
    folder = tmp_path / "deep/er"
    with pytest.raises(FilesError, match="Nothing was copied"):
        far.client.fetch("j7", folder)
    assert (far.asked, list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize(
    "files",
    [
        {"files": 1}, [1], [{}], [row(sha256="x")], [row(sha256="../" + "0" * 61)], [row(size=-1)], [row(size=None)],
        [row("a"), row("a")], [row("a"), row("a/b")], [row("a/b/c"), row("a/b")],
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_is_refused(files: Any) -> None:
    with pytest.raises(FilesError):
        checked(files)


@given(
    st.lists(st.text(st.sampled_from([*string.ascii_letters, "/", ".", "\\", "\0", "\n", "~", " ", "é"])), max_size=4)
)
def test_every_path_that_is_accepted_lies_below_the_folder(paths: Sequence[str]) -> None:
    try:
        files = checked([row(path) for path in paths])
    except FilesError:
        return
    for each in files:
        target = os.path.normpath(f"/folder/{each.path}")
        assert target == f"/folder/{each.path}"
        assert target.startswith("/folder/")


@given(
    st.lists(
        st.text(string.ascii_letters + " ._-é", min_size=1, max_size=20).filter(lambda name: name.strip(".")),
        min_size=1,
        max_size=5,
    )
)
def test_usual_paths_are_accepted(parts: Sequence[str]) -> None:
    assert checked([row("/".join(parts))])[0].path == "/".join(parts)
