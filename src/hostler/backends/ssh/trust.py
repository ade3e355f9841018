"""Host keys: which are known, and how a person makes one known. Nothing here trusts anything by itself."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import asyncssh

from hostler.model.errors import LinkRefused
from hostler.model.record import record


@record
class HostKey:
    """The key that a host showed."""

    host: str
    """As known_hosts names it: `[address]:port` where the port is not 22."""
    key: str
    """Algorithm and key, as in known_hosts."""
    fingerprint: str
    """`SHA256:...`, as `ssh-keygen -l` shows it on the host."""


def known(files: Iterable[Path], host: str, address: str, port: int) -> set[str]:
    """Keys that are known for a host, as in known_hosts; those that were revoked are not among them."""
    there = [str(path) for path in files if path.exists()]
    if not there:
        return set()
    keys, _, revoked, *_ = asyncssh.match_known_hosts(there, host, address, port)
    return {_line(key) for key in keys} - {_line(key) for key in revoked}


def shown(host: str, port: int, key: asyncssh.SSHKey) -> HostKey:
    """A key as people compare it."""
    name = host if port == asyncssh.DEFAULT_PORT else f"[{host}]:{port}"
    return HostKey(host=name, key=_line(key), fingerprint=key.get_fingerprint())


def add(file: Path, found: HostKey) -> None:
    """Make a key known: one more line, on disk when this returns. Raises `LinkRefused` where it cannot be written."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "r+") as lines:
            text = lines.read()
            line = ("\n" if text and not text.endswith("\n") else "") + f"{found.host} {found.key}\n"
            _append(lines.fileno(), line.encode())
    except OSError as error:
        raise LinkRefused(f"the host key cannot be written to {file}: {error.strerror}") from error


def _append(file: int, line: bytes) -> None:
    """All of it or, on a full disk, nothing: half a key would be in the way of all others."""
    end = os.fstat(file).st_size
    try:
        while line:
            line = line[os.write(file, line) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, end)
        raise


def _line(key: asyncssh.SSHKey) -> str:
    algorithm, blob = key.export_public_key().decode().split()[:2]
    return f"{algorithm} {blob}"
