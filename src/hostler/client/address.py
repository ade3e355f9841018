"""Where a controller answers, and what it wants to be told."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from hostler.model.errors import ControllerAbsent, UsageError


class Address(NamedTuple):
    """Where a controller answers, what it wants to be told, and what it is known by where it speaks TLS."""

    url: str
    token: str
    certificate: Path | None = None
    """File with its very certificate, whatever name that is for."""
    authority: Path | None = None
    """File with what vouches for its certificate (PEM); `None`: what this machine trusts."""


def address_in(state_dir: Path) -> Address:
    """The address that a running controller left in its state directory. Raises `ControllerAbsent`."""
    try:
        left = json.loads((state_dir / "controller.json").read_bytes())
        token = (state_dir / "token").read_text().strip()
        url, pid, certificate = str(left["url"]), int(left["pid"]), left.get("certificate")
    except FileNotFoundError as error:
        # Without this cause, which says less: it is the first error that newcomers meet.
        raise _absent(state_dir, f"there is no {Path(error.filename).name} in it") from None
    except OSError as error:
        raise _absent(state_dir, f"{error.filename} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise _absent(state_dir, f"its controller.json cannot be understood ({error!r})") from error
    if not _is_alive(pid):
        raise _absent(state_dir, f"process {pid}, which had it, has ended")
    return Address(url, token, None if certificate is None else Path(certificate))


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
    return Address(url, token, authority=Path(authority).expanduser() if authority else None)


def _is_address(url: str) -> bool:
    """Whether a text is the address of a controller: without a path and without a user."""
    try:
        parts = urlsplit(url)
        _ = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:
        return False
    is_bare = parts.username is None and not parts.path.strip("/")
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_bare


def _absent(state_dir: Path, why: str) -> ControllerAbsent:
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
