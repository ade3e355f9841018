"""Where a controller answers, and what it wants to be told."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from hostler.client.small_files import read_small, read_small_text
from hostler.model.errors import ControllerAbsent, ControllerStarting, UsageError

START_S = 60.0
"""A controller that is starting is waited for so long at most."""
LOOK_S = 0.05
STARTING = "starting"
"""What a controller writes behind its process id into its lock until it answers."""


class Address(NamedTuple):
    """Where a controller answers, what it wants to be told, and what it is known by where it speaks TLS."""

    url: str
    token: str
    certificate: Path | None = None
    """File with its very certificate, whatever name that is for."""
    authority: Path | None = None
    """File with what vouches for its certificate (PEM); `None`: what this machine trusts."""
    token_from: str = "$HOSTLER_TOKEN"  # noqa: S105 - the name of a variable
    """Where the token was found, for messages."""


def address_in(state_dir: Path) -> Address:
    """The address that a running controller left in its state directory.

    Raises `ControllerAbsent` where none runs, `ControllerStarting` where one does not answer yet.
    """
    try:
        left = json.loads(read_small(state_dir / "controller.json"))
        token = read_small_text(state_dir / "token")
        url, pid, certificate = left["url"], int(left["pid"]), left.get("certificate")
        if not (isinstance(url, str) and _is_address(url) and isinstance(certificate, str | None)):
            raise ValueError(f"its address is {url!r:.80}, its certificate {certificate!r:.80}")
    except FileNotFoundError as error:
        # Without this cause, which says less: it is the first error that newcomers meet.
        raise _absent(state_dir, f"there is no {Path(error.filename).name} in it") from None
    except OSError as error:
        raise _absent(state_dir, f"{error.filename} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _absent(state_dir, f"its controller.json cannot be understood ({error!r})") from error
    if not _is_alive(pid):
        raise _absent(state_dir, f"process {pid}, which had it, has ended")
    return Address(
        url, token, None if certificate is None else Path(certificate), token_from=f"the file {state_dir / 'token'}"
    )


def address_from(environ: Mapping[str, str]) -> Address:
    """The address that `$HOSTLER_URL`, `$HOSTLER_TOKEN` and, for its certificate, `$HOSTLER_CA` give.

    Raises `UsageError` where they do not make one.
    """
    url, token, authority = (environ.get(f"HOSTLER_{name}", "").strip() for name in ("URL", "TOKEN", "CA"))
    if not _is_address(url):
        shown = url if "@" not in url else f"...@{url.rpartition('@')[2]}"  # without a password
        raise UsageError(f"the controller's address is {shown!r}; it should be as https://fleet.example.org:8765")
    if not token:
        raise UsageError(
            f"the controller is at {url}, and $HOSTLER_TOKEN is not set; its owner makes a token with "
            "`hostler token create NAME`"
        )
    if not (token.isascii() and token.isprintable()):
        raise UsageError("$HOSTLER_TOKEN has characters that no token has; copy the line that printed it again")
    return Address(url, token, authority=Path(os.path.expanduser(authority)) if authority else None)


def _is_address(url: str) -> bool:
    """Whether a text is the address of a controller: without a path, a query and a user."""
    if not url.isprintable() or any(each in url for each in " ?#"):
        return False
    try:
        parts = urlsplit(url)
        if parts.port == 0:
            return False
        (parts.hostname or "").encode("idna")
    except ValueError:
        return False
    is_bare = parts.username is None and not parts.path.strip("/")
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_bare


def rests(timeout_s: float) -> Iterator[float]:
    """Rests between looks for a controller that is starting; they end once it has had its time."""
    ends_at = time.monotonic() + min(timeout_s, START_S)
    while time.monotonic() < ends_at:
        yield LOOK_S


def _starting(state_dir: Path) -> int | None:
    """The process of a controller that is starting on a state directory, if one is: it holds the lock, and is in it."""
    try:
        lock = os.open(state_dir / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        words = os.read(lock, 100).decode(errors="replace").split()
        if words[1:] != [STARTING] or not words[0].isdecimal() or not _is_alive(int(words[0])):
            return None
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # free, if the process has that number by chance
    except BlockingIOError:
        return int(words[0])
    except OSError:
        return None
    finally:
        os.close(lock)
    return None


def _absent(state_dir: Path, why: str) -> ControllerAbsent:
    process = _starting(state_dir)
    if process is not None:
        return ControllerStarting(
            f"the controller of the state directory {state_dir} (process {process}) is starting and does not answer "
            f"yet. Wait a moment, or look at {state_dir / 'controller.log'}"
        )
    return ControllerAbsent(
        f"no controller is running for the state directory {state_dir}: {why}; start one with `hostler up --detach`"
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
