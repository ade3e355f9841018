"""Builds the agent as one file that any Python from 3.8 on runs: ``python3 agent.pyz --dir DIR``."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Iterator, Tuple

from .shared import publish

_EPOCH = (1980, 1, 1, 0, 0, 0)
# Compiling the agent is two thirds of its start: whoever has done so may have left that for others (see compiled.py).
_MAIN = """\
import os
import sys

compiled = "%s.%s" % (sys.argv[0], sys.implementation.cache_tag)
if os.path.exists(compiled):
    sys.path.insert(0, compiled)

from hostler.agent.__main__ import main

sys.exit(main())
"""
_PACKAGE = "hostler/agent/"


def build_zipapp(target: Path) -> str:
    """Write the agent to ``target``, at once or not at all, whoever else does so; return the file's SHA-256.

    The same sources give the same bytes, on any machine and at any time. Raises OSError.
    """
    data = archive()
    publish(str(target), data, 0o755)
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
