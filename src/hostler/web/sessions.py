"""Sessions of browsers: a signed cookie, and the token that every write of a session must carry besides."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

LIFETIME_S = 12 * 3600
ENDED_MOST = 10_000
"""Sessions that were ended by hand and are remembered, until they would have ended by themselves. Beyond that, others
end with the one that is forgotten: those that would have ended by then."""

_VALUE = re.compile(r"([0-9a-f]{64}\.([0-9]{1,12})\.[0-9a-f]{32})\.([0-9a-f]{64})")


@dataclass(frozen=True, kw_only=True)
class Session:
    """A session that is good: `token` is the hash of the token that it was begun with."""

    id: str
    token: str
    ends_at: int


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What is to be known of sessions that were ended by hand, by the next controller with the same key too."""

    sessions: Mapping[str, int] = field(default_factory=dict)
    """When they would have ended by themselves, by the hash of what tells them; in order of their end."""
    until: int = 0
    """Sessions that end by themselves at that time or before are over."""


class Sessions:
    """Begins, knows and ends sessions.

    Nothing is kept of a session but that it was ended (`ended`, for whoever asks); who has the key can make one. A
    session is good for no longer than its token: whoever asks looks that up each time.
    """

    def __init__(self, key: bytes, now: Callable[[], float], ended: Ended | None = None) -> None:
        before = ended or Ended()
        self._key = key
        self._now = now
        # Browsers send cookies to all ports of a machine; each controller knows its own.
        self.cookie = "hostler-" + self._signature("name", "")[:12]
        self._ended: OrderedDict[str, int] = OrderedDict(before.sessions)
        self._until = before.until

    @property
    def ended(self) -> Ended:
        """What was ended by hand so far."""
        return Ended(sessions=dict(self._ended), until=self._until)

    def begin(self, token: str) -> str:
        """The value of the cookie of a new session, for whoever has the token with this hash."""
        payload = f"{token}.{int(self._now()) + LIFETIME_S}.{secrets.token_hex(16)}"
        return f"{payload}.{self._signature('session', payload)}"

    def found(self, headers: Headers) -> Session | None:
        """The session whose cookie a request carries; `None` where it is none, or over."""
        value = _cookie(headers, self.cookie)
        parts = None if value is None else _VALUE.fullmatch(value)
        if parts is None:
            return None
        payload, ends_at, signature = parts[1], int(parts[2]), parts[3]
        if not hmac.compare_digest(signature, self._signature("session", payload)):
            return None
        if self._now() >= ends_at or ends_at <= self._until or _hash(payload) in self._ended:
            return None
        return Session(id=payload, token=payload[:64], ends_at=ends_at)

    def end(self, session: Session) -> None:
        """Let a session be good for nothing any more, wherever its cookie may be."""
        now = self._now()
        while self._ended and (len(self._ended) >= ENDED_MOST or next(iter(self._ended.values())) <= now):
            self._until = max(self._until, self._ended.popitem(last=False)[1])
        self._ended[_hash(session.id)] = session.ends_at

    def csrf(self, session: str) -> str:
        """What writes of a session must carry: no other page can know it."""
        return self._signature("csrf", session)

    def _signature(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}\n{text}".encode(), hashlib.sha256).hexdigest()


def _hash(session: str) -> str:
    return hashlib.sha256(session.encode()).hexdigest()


def _cookie(headers: Headers, name: str) -> str | None:
    """The one cookie of this name; of several nobody knows which is ours."""
    pairs = [pair for line in headers.getlist("cookie") for pair in line.split(";")]
    found = [pair for pair in pairs if pair.partition("=")[0].strip() == name]
    return cookie_parser(found[0]).get(name) if len(found) == 1 else None
