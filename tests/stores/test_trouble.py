"""Stores that lie, cannot be reached, or have no room: what is said of each, and that nothing half is left."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hostler.model.errors import FilesError, LinkLost, LinkRefused, UsageError
from hostler.stores import bucket, hashing, remote
from hostler.stores.base import LABEL, Missing, Store, at_once
from hostler.stores.bucket import BucketStore
from hostler.stores.directory import DirectoryStore
from hostler.stores.remote import RemoteStore
from tests.integration.conftest import small_disk
from tests.servers import QuietServer
from tests.stores.conftest import BUCKET, named

CONTENT = b"games" * 50_000
NAME = named(CONTENT)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return path


@contextmanager
def liar(url: str, *, forgets: bool = False) -> Iterator[str]:
    """An S3 server that gives back every object with its right size and one wrong bit, or keeps none that it takes.

    As some servers do, it says of what it was to delete that it was not there.
    """
    there = urlsplit(url)

    class Handler(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            if forgets and self.command == "PUT" and "/objects/" in self.path:
                self.rfile.read(size)
                self.send_response(200)
                self.end_headers()
                return
            with closing(HTTPConnection(there.hostname or "", there.port or 80)) as own:
                own.request(self.command, self.path, self.rfile.read(size) or None, dict(self.headers))
                answer = own.getresponse()
                body = answer.read()
            if self.command == "GET" and "/objects/" in self.path and answer.status == 200 and body:
                body = bytes([body[0] ^ 1]) + body[1:]
            if self.command == "DELETE":
                body = b"<Error><Code>NoSuchKey</Code></Error>"
                self.send_response(404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    server = QuietServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_bucket_that_lies_is_caught_as_it_is_filled(s3: str, source: Path, tmp_path: Path) -> None:
    with liar(s3) as url:
        store = BucketStore(BUCKET, prefix=tmp_path.name, endpoint=url)
        with pytest.raises(FilesError, match="was deleted again"):
            store.put(NAME, source, at_once)
    honest = BucketStore(BUCKET, prefix=tmp_path.name, endpoint=s3)
    with pytest.raises(Missing):
        honest.check(NAME, at_once)


def test_a_remote_that_lies_is_caught_as_it_is_filled(source: Path, tmp_path: Path) -> None:
    """A program in rclone's place that does all it does, and reads zeros."""
    program = tmp_path / "rclone"
    program.write_text('#!/bin/sh\nif [ "$1" = cat ]; then exec rclone "$@" | tr g h; fi\nexec rclone "$@"\n')
    program.chmod(0o755)
    (tmp_path / "far").mkdir()
    config = tmp_path / "rclone.conf"
    config.write_text(f"[far]\ntype = alias\nremote = {tmp_path / 'far'}\n")
    with pytest.raises(FilesError, match="was deleted again"):
        RemoteStore("far:", config=config, program=str(program)).put(NAME, source, at_once)
    assert [path for path in (tmp_path / "far").rglob("*") if path.is_file()] == []


def test_that_a_bucket_keeps_nothing_says_nothing_of_where_it_came_from(s3: str, source: Path, tmp_path: Path) -> None:
    """`Missing` would be taken for a source that is gone."""
    with liar(s3, forgets=True) as url, pytest.raises(FilesError, match=r"what was put .* is not there") as caught:
        BucketStore(BUCKET, prefix=tmp_path.name, endpoint=url).put(NAME, source, at_once)
    assert not isinstance(caught.value, Missing)


def test_that_a_remote_keeps_nothing_says_nothing_of_where_it_came_from(source: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    with pytest.raises(FilesError, match=r"what was put .* is not there") as caught:
        forgetful(tmp_path).put(NAME, source, at_once)
    assert not isinstance(caught.value, Missing)


def forgetful(tmp_path: Path) -> RemoteStore:
    """A remote behind a program in rclone's place, which takes what is sent, says that it did, and keeps nothing."""
    program = tmp_path / "rclone"
    program.write_text('#!/bin/sh\nif [ "$1" = rcat ]; then exec cat > /dev/null; fi\nexec rclone "$@"\n')
    program.chmod(0o755)
    config = tmp_path / "rclone.conf"
    config.write_text(f"[far]\ntype = alias\nremote = {tmp_path / 'far'}\n")
    return RemoteStore("far:", config=config, program=str(program))


def test_nobody_waits_for_a_pipe_in_the_place_of_an_object(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "shelf"
    (root / NAME.path).parent.mkdir(parents=True)
    os.mkfifo(root / NAME.path)
    os.mkfifo(root / LABEL)
    store = DirectoryStore(root)
    for call in (
        lambda: store.check(NAME, at_once),
        lambda: store.get(NAME, tmp_path / "target", at_once),
        lambda: store.put(NAME, source, at_once),
        store.read_label,
    ):
        with pytest.raises(FilesError, match="is no regular file"):
            call()


def test_a_disk_that_cannot_be_read_is_not_said_to_be_the_one_that_is_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(file: object) -> Iterator[bytes]:
        yield b"the first piece"
        raise OSError(errno.EIO, "Input/output error")

    shelf = tmp_path / "shelf"
    shelf.mkdir()
    store = DirectoryStore(shelf)
    store.put(NAME, source, at_once)
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(hashing, "pieces", fails)
    with pytest.raises(FilesError, match=f"in {shelf} cannot be read: Input/output error"):
        store.get(NAME, tmp_path / "target", at_once)
    with pytest.raises(FilesError, match=f"\\({source}\\) cannot be read: Input/output error"):
        DirectoryStore(tmp_path / "other").put(NAME, source, at_once)
    assert not (tmp_path / "target").exists()


def calls(store: Store, source: Path, target: Path) -> Iterator[object]:
    yield lambda: store.put(NAME, source, at_once)
    yield lambda: store.get(NAME, target, at_once)
    yield lambda: store.check(NAME, at_once)
    yield lambda: list(store.listed())
    yield lambda: store.delete(NAME)
    yield lambda: store.set_aside(NAME)


def every_call_raises(store: Store, kind: type[Exception], source: Path, tmp_path: Path, match: str) -> None:
    for call in calls(store, source, tmp_path / "target"):
        with pytest.raises(kind, match=match):
            call()  # type: ignore[operator]
    assert not (tmp_path / "target").exists()


def test_a_directory_that_is_not_mounted_is_no_empty_store(source: Path, tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "absent")
    every_call_raises(store, LinkRefused, source, tmp_path, "is not there: make the folder")
    assert not (tmp_path / "absent").exists()


def test_a_bucket_that_does_not_answer_holds_who_knows_what(
    s3: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "TRIES", 1)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen
        store = BucketStore(BUCKET, endpoint=f"http://127.0.0.1:{deaf.getsockname()[1]}")
        every_call_raises(store, LinkLost, source, tmp_path, "does not answer")


def test_a_bucket_that_there_is_not_is_a_refusal(s3: str, source: Path, tmp_path: Path) -> None:
    store = BucketStore("nobodys", endpoint=s3)
    for call in (lambda: list(store.listed()), lambda: store.put(NAME, source, at_once)):
        with pytest.raises((LinkRefused, Missing), match="nobodys"):
            call()


def test_a_remote_that_nobody_configured_is_a_refusal(source: Path, tmp_path: Path) -> None:
    config = tmp_path / "rclone.conf"
    config.write_text("")
    every_call_raises(RemoteStore("far:", config=config), LinkRefused, source, tmp_path, "cannot be used")


def test_without_rclone_it_is_said_what_to_install(source: Path, tmp_path: Path) -> None:
    store = RemoteStore("far:", program=str(tmp_path / "no-rclone"))
    every_call_raises(store, LinkRefused, source, tmp_path, "install rclone")


@pytest.mark.parametrize("root", ["far", "-far:", ":local:/etc", ""])
def test_a_remote_needs_a_name_of_the_configuration(root: str) -> None:
    with pytest.raises(UsageError, match="is no remote of rclone"):
        remote.RemoteStore(root)


def test_a_full_disk_is_told_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "100k") as disk:
        with pytest.raises(FilesError, match="disk is full"):
            DirectoryStore(disk).put(NAME, source, at_once)
        shelf = tmp_path / "shelf"
        shelf.mkdir()
        DirectoryStore(shelf).put(NAME, source, at_once)
        with pytest.raises(FilesError, match="disk is full"):
            DirectoryStore(shelf).get(NAME, disk / "target", at_once)
        assert [path for path in disk.rglob("*") if path.is_file()] == []
