"""Real stores: a directory, a bucket on a real S3 server, a remote of a real rclone."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hostler.stores.base import ObjectName, Store
from hostler.stores.bucket import BucketStore
from hostler.stores.directory import DirectoryStore
from hostler.stores.remote import RemoteStore
from tests.patience import PATIENCE_S

SUFFIX = ".segment.npz"
BUCKET = "games"


@dataclass
class Shop:
    """A store, and the ways behind its back: what lies there as plain bytes, by path."""

    store: Store
    read: Callable[[str], bytes | None]
    write: Callable[[str, bytes], None]


def named(content: bytes) -> ObjectName:
    """What these bytes are called."""
    return ObjectName(hashlib.sha256(content).hexdigest(), SUFFIX)


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """The address of a real S3 server on this machine, with one bucket."""
    pytest.importorskip("moto", reason="no S3 server: pip install moto")
    boto3 = pytest.importorskip("boto3", reason="no client for S3: pip install boto3")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with (folder / "moto.log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        url = _address(server, folder / "moto.log")
        boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket=BUCKET)
        yield url
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    """What it says, once it listens, of where that is."""
    deadline = time.monotonic() + PATIENCE_S
    while (said := re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text())) is None:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, "the S3 server did not come up"
        time.sleep(0.05)
    return said[1]


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An S3 server that all tests of a process share; credentials are made up."""
    kept = {name: os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")}
    os.environ |= {"AWS_ACCESS_KEY_ID": "made", "AWS_SECRET_ACCESS_KEY": "up", "AWS_DEFAULT_REGION": "us-east-1"}
    try:
        with s3_server(tmp_path_factory.mktemp("s3")) as url:
            yield url
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def directory_shop(tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    """A directory."""
    root = tmp_path / "directory"
    root.mkdir()
    return Shop(DirectoryStore(root), _reader(root), _writer(root))


def bucket_shop(tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    """A bucket; every test has a prefix of its own."""
    import boto3

    url = request.getfixturevalue("s3")
    prefix = tmp_path.name
    client: Any = boto3.client("s3", endpoint_url=url)

    def read(path: str) -> bytes | None:
        try:
            return bytes(client.get_object(Bucket=BUCKET, Key=f"{prefix}/{path}")["Body"].read())
        except client.exceptions.NoSuchKey:
            return None

    def write(path: str, content: bytes) -> None:
        client.put_object(Bucket=BUCKET, Key=f"{prefix}/{path}", Body=content)

    return Shop(BucketStore(BUCKET, prefix=prefix, endpoint=url), read, write)


def remote_shop(tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    """A remote of rclone."""
    if shutil.which("rclone") is None:
        pytest.skip("no rclone: apt-get install rclone")
    root, config = tmp_path / "remote", tmp_path / "rclone.conf"
    root.mkdir()
    config.write_text(f"[shelf]\ntype = alias\nremote = {root}\n")
    return Shop(RemoteStore("shelf:", config=config), _reader(root), _writer(root))


SHOPS: dict[str, Callable[[Path, pytest.FixtureRequest], Shop]] = {
    "directory": directory_shop,
    "bucket": bucket_shop,
    "rclone": remote_shop,
}


@pytest.fixture(params=SHOPS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """Each kind of store, empty."""
    if request.param == "bucket":
        pytest.importorskip("boto3", reason="no client for S3: pip install boto3")
    return SHOPS[request.param](tmp_path, request)


def _reader(root: Path) -> Callable[[str], bytes | None]:
    return lambda path: (root / path).read_bytes() if (root / path).exists() else None


def _writer(root: Path) -> Callable[[str, bytes], None]:
    def write(path: str, content: bytes) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)

    return write
