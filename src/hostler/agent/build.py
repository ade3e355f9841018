"""Builds the agent as one file that any Python from 3.8 on runs: ``python3 agent.pyz --dir DIR``."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import Iterator, Tuple

_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAIN = "import sys\n\nfrom hostler.agent.__main__ import main\n\nsys.exit(main())\n"
_PACKAGE = "hostler/agent/"


def build_zipapp(target: Path) -> str:
    """Write the agent to ``target``, at once or not at all, and return the file's SHA-256.

    The same sources give the same bytes, on any machine and at any time. Raises OSError.
    """
    data = archive()
    temporary = target.with_name(target.name + ".new")
    with open(temporary, "wb") as output:
        output.write(data)
        output.flush()
        os.fsync(output.fileno())
    temporary.chmod(0o755)
    os.replace(temporary, target)
    return hashlib.sha256(data).hexdigest()


def archive() -> bytes:
    """The file's bytes. Raises OSError."""
    buffer = io.BytesIO()
    buffer.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(buffer, "a") as archive:
        for name, text in _members():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            archive.writestr(info, text)
    return buffer.getvalue()


def _members() -> Iterator[Tuple[str, bytes]]:
    yield "__main__.py", _MAIN.encode("ascii")
    yield "hostler/__init__.py", b""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        yield _PACKAGE + path.name, path.read_bytes()
