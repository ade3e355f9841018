"""Backups whose seal is right and whose content somebody else has made: the data are the tar file, or its manifest."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from pathlib import Path

from hostler.model.errors import CorruptState, NotFound
from hostler.store import archive

from .base import Target

MEMBERS = {"a": b"abc", "tables/journal/000000.jsonl.gz": b"\x1f\x8b", "state/token": b"secret\n"}


def target(data: bytes) -> None:
    """An archive is whole, or a `CorruptState` tells what is wrong with it."""
    with tempfile.TemporaryDirectory(prefix="hostler-fuzz-") as folder:
        for name, content in (("as it is", data), ("sealed", sealed(data)), ("made", sealed(packed(data)))):
            path = Path(folder) / name
            path.write_bytes(content)
            try:
                with archive.opened(path) as made:
                    for member in made.names():
                        assert isinstance(made.read(member), bytes)
            except (CorruptState, NotFound) as error:
                assert str(path) in str(error)


def sealed(data: bytes) -> bytes:
    """The data with the right last line."""
    return data + archive.SEAL + hashlib.sha256(data).hexdigest().encode() + b"\n"


def packed(manifest: bytes) -> bytes:
    """A tar file with the usual members, and this as its manifest."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in (*MEMBERS.items(), (archive.MANIFEST, manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return found.getvalue()


def _manifest() -> bytes:
    told = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in MEMBERS.items()}
    return json.dumps({"format": 1, "hostler": "x", "made_at": 1.0, "members": told}).encode()


def _linked() -> bytes:
    """A member that is a link, and one that is a folder."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind in (("a", tarfile.SYMTYPE), ("b", tarfile.DIRTYPE), ("c", tarfile.LNKTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "../../etc/passwd"
            tar.addfile(member)
        data = json.dumps({"format": 1, "members": {name: {"bytes": 0, "sha256": ""} for name in "abc"}}).encode()
        member = tarfile.TarInfo(archive.MANIFEST)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    return found.getvalue()


TARGET = Target(
    name="backups",
    run=target,
    seeds=(_manifest(), packed(_manifest()), sealed(packed(_manifest())), _linked(), b"{}", b"[]", b'{"format":1}'),
    reads=("hostler.store.archive",),
    large={
        "deep": lambda: b"[" * (1 << 20),
        "members": lambda: packed(_manifest())[:2048] * 500,
        "digits": lambda: b'{"format":' + b"9" * (1 << 20) + b"}",
    },
)
