"""How people come in to a controller: from its settings and its state directory to the door of the web."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from hostler.backends.dialin import context
from hostler.client.small_files import read_small
from hostler.model.access import Scope, TokenView
from hostler.model.errors import UsageError
from hostler.runtime.clock import Clock
from hostler.runtime.dialin import joined
from hostler.runtime.statedir import StateDir, user_name
from hostler.settings import Loaded
from hostler.web.connections import Admission
from hostler.web.door import Door, Proxy
from hostler.web.once import OneTimeCodes
from hostler.web.sessions import LIFETIME_S, Ended

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not listened on
"""Where this machine reaches what listens everywhere."""


def door(loaded: Loaded, directory: StateDir, clock: Clock) -> Door:
    """How people come in. Raises `StoreFull` where its secrets cannot be kept."""
    asked = loaded.fleet.api
    return Door(
        token=directory.token(),
        key=directory.session_key(),
        now=clock.now,
        names=frozenset(asked.names),
        proxy=_proxy(loaded),
        tls=asked.certificate is not None,
        ended=_ended(directory, clock),
        keep=lambda ended: directory.note_ended(json.dumps(asdict(ended)) + "\n"),
        codes=OneTimeCodes(clock.now),
        user=user_name(),
    )


def admission(loaded: Loaded) -> Admission:
    """The limits of connections without a valid token."""
    limits = loaded.fleet.limits
    return Admission(unauthenticated=limits.unauthenticated, head_s=limits.head_s, head_bytes=limits.head_bytes)


def shared_jobs(loaded: Loaded) -> bool | None:
    """Whether each operator may change the jobs of others; `None`: as long as all tokens have one owner.

    Behind a proxy that names people, jobs have as many owners as it names.
    """
    asked = loaded.fleet.api
    if asked.shared_jobs is None and asked.trusted_proxy is not None:
        return False
    return asked.shared_jobs


def certificate(loaded: Loaded) -> Path | None:
    """The file of the controller's certificate, if it has one."""
    asked = loaded.fleet.api.certificate
    return None if asked is None else (loaded.base_dir / Path(asked).expanduser()).absolute()


def tls(loaded: Loaded) -> ssl.SSLContext | None:
    """What TLS is spoken with, if it is. Raises `UsageError` where certificate and key cannot be used."""
    file, key = certificate(loaded), loaded.fleet.api.key
    if file is None:
        return None
    return context(file, file if key is None else loaded.base_dir / Path(key).expanduser())


def url(loaded: Loaded, port: int) -> str:
    """What this machine calls the controller."""
    host = EVERYWHERE.get(loaded.fleet.api.host, loaded.fleet.api.host)
    return f"{'http' if loaded.fleet.api.certificate is None else 'https'}://{joined(host, port)}"


def public_url(loaded: Loaded, port: int) -> str | None:
    """What other machines call the controller: by the first of its names, or as this machine is called.

    `None`: they cannot connect to it.
    """
    asked = loaded.fleet.api
    if not asked.is_remote:
        return None
    host = asked.names[0] if asked.names else socket.getfqdn() if asked.host in EVERYWHERE else asked.host
    return f"{'http' if asked.certificate is None else 'https'}://{joined(host, port)}"


def refuse_without_tokens(loaded: Loaded, tokens: Sequence[TokenView]) -> None:
    """Raise `UsageError` where other machines could connect, and nobody could come in but by the token of the owner."""
    asked = loaded.fleet.api
    if not asked.is_remote or asked.insecure_remote or any(not token.expired for token in tokens):
        return
    raise UsageError(
        f"other machines can connect to {asked.host}, and there is no token for anybody there but the one of the state "
        "directory, which may do everything and cannot be revoked. Start the controller with `--host 127.0.0.1`, make "
        "one (`hostler token create NAME --scope read`), and start it again; `insecure_remote: true` under `api:` "
        "permits it as it is"
    )


def _ended(directory: StateDir, clock: Clock) -> Ended:
    """Sessions that were ended before. Where nobody can tell which, all are over that have begun."""
    try:
        told = json.loads(read_small(directory.ended_file))
        sessions = {str(name): int(ends_at) for name, ends_at in told["sessions"].items()}
        return Ended(sessions=sessions, until=int(told["until"]))
    except FileNotFoundError:
        return Ended()
    except (ValueError, KeyError, AttributeError, TypeError):
        return Ended(until=int(clock.now()) + LIFETIME_S)


def _proxy(loaded: Loaded) -> Proxy | None:
    asked = loaded.fleet.api.trusted_proxy
    if asked is None:
        return None
    return Proxy(
        addresses=frozenset(asked.addresses),
        header=asked.header,
        scope=Scope(asked.scope),
        users={user: Scope(scope) for user, scope in asked.users.items()},
    )
