"""Who somebody is: by a bearer token, by the word of a trusted proxy, or by the cookie of a browser's session."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from starlette.datastructures import Headers

from hostler.model.access import LOCAL, Holder, Scope
from hostler.web.desk import Desk
from hostler.web.once import OneTimeCodes
from hostler.web.sessions import Ended, Session, Sessions

USER_MAX = 128


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A proxy that has asked people who they are already, and says so in a header."""

    addresses: frozenset[str]
    """From where it connects; the header counts from nowhere else."""
    header: str
    scope: Scope
    """What people may do who are not named."""
    users: Mapping[str, Scope] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Door:
    """How people come in. `now` tells Unix seconds; `key` signs the cookies of sessions, and is secret."""

    token: str = field(repr=False)
    """That of the state directory."""
    key: bytes = field(repr=False)
    now: Callable[[], float]
    names: frozenset[str] = frozenset()
    """Names of the controller, besides those of this machine's loopback and the address a connection came to."""
    proxy: Proxy | None = None
    tls: bool = False
    """Whether the controller itself speaks TLS."""
    ended: Ended = field(default_factory=Ended)
    """Sessions that were ended before."""
    keep: Callable[[Ended], None] | None = None
    """Keeps that for the next controller; may wait for a disk. Raises `StoreFull`."""
    codes: OneTimeCodes | None = None
    """Codes that log in once, as who has the token of the state directory."""
    user: str | None = None
    """The operating-system user that the controller runs as: the owner of what is submitted with its own token."""


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Somebody who is known."""

    holder: Holder
    session: str | None
    """What tells the session, where the browser proves by itself who it is: without being asked, and so for every
    page that makes it send something. `None` for a bearer token, which no browser sends by itself."""


class Doorman:
    """Knows everybody who has a token. Tokens are compared by their hashes."""

    def __init__(self, door: Door, desk: Desk) -> None:
        self.door = door
        self._desk = desk
        self._local = digest_of(door.token)
        self.sessions = Sessions(door.key, door.now, door.ended)
        self._keeping = asyncio.Lock()

    def visitor(self, headers: Headers, address: str) -> Visitor | None:
        """Whoever sent these headers from this address; `None` where they prove nothing.

        Whoever shows a token is not known by a cookie, even if the token is wrong. Proxies pass on tokens of their own.
        """
        shown = headers.get("authorization")
        holder = None if shown is None else self.holder(digest_of(_bearer(shown)))
        if holder is not None:
            return Visitor(holder=holder, session=None)
        return self._by_proxy(headers, address) or (self._by_session(headers) if shown is None else None)

    async def end(self, session: Session) -> None:
        """Let a session be good for nothing any more, under the next controller too. Raises `StoreFull`."""
        self.sessions.end(session)
        if self.door.keep is not None:
            async with self._keeping:
                await asyncio.to_thread(self.door.keep, self.sessions.ended)

    def redeemed(self, code: str) -> str | None:
        """The hash of the token that a one-time code stands for; `None` where the code is not good, or not any more."""
        codes = self.door.codes
        return self._local if codes is not None and codes.redeem(code) else None

    def holder(self, digest: str) -> Holder | None:
        """Who has the token with this hash."""
        if hmac.compare_digest(digest, self._local):
            return Holder(name=LOCAL, scope=Scope.ADMIN, owner=self.door.user)
        holder = self._desk.holder(digest)
        return holder if holder is None or holder.owner is not None else replace(holder, owner=self.door.user)

    def _by_proxy(self, headers: Headers, address: str) -> Visitor | None:
        proxy = self.door.proxy
        if proxy is None or not _is_one_of(address, proxy.addresses):
            return None
        told = headers.getlist(proxy.header)
        if len(told) != 1 or not 0 < len(told[0]) <= USER_MAX or not told[0].isprintable():
            return None
        user = told[0]
        holder = Holder(name=f"proxy/{user}", scope=proxy.users.get(user, proxy.scope), owner=user)
        return Visitor(holder=holder, session=f"proxy {user}")

    def _by_session(self, headers: Headers) -> Visitor | None:
        session = self.sessions.found(headers)
        holder = None if session is None else self.holder(session.token)
        return None if session is None or holder is None else Visitor(holder=holder, session=session.id)


def digest_of(token: str) -> str:
    """What a token is known by: its SHA-256, in hexadecimal."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _bearer(authorization: str) -> str:
    """The token of an `Authorization` header; of another scheme, none that anybody has."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _is_one_of(address: str, known: frozenset[str]) -> bool:
    try:
        told = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(told, "ipv4_mapped", None)
    return str(mapped or told) in known
