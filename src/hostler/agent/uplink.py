"""One connection to a controller that cannot connect to here: made, pinned, welcomed, and waiting to be taken.

What is said: ``docs/reference/agent-protocol.md``, "Dialling in".
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
from typing import List, NamedTuple, Optional

from .protocol import Json, LineBuffer, decode, is_id, line

DIAL_PROTOCOL = 1
PING_S = 15.0
"""After so long a silence the controller is asked for a sign of life; a router forgets connections after a minute."""
_CONNECT_S = 15.0
_LONGEST_LINE = 4096
_GONE_S = 60
"""What was sent and not received for so long ends a connection."""


class Impostor(Exception):
    """Who answers has another certificate than the one that was named; nothing has been said to it."""


class Refused(Exception):
    """The controller wants no calls from here; its reason."""


class Controller(NamedTuple):
    """Where to call, and who must answer."""

    host: str
    port: int
    fingerprint: str
    """SHA-256 of the certificate (DER), 64 hexadecimal digits."""


class Uplink:
    """One connection. ``call`` first, then ``wait``; then ``stream`` is somebody else's. They raise OSError."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._lines = LineBuffer(_LONGEST_LINE)
        self._heard: List[bytes] = []
        self._stream: Optional[ssl.SSLSocket] = None
        self.journal = ""
        """What tells this controller's work from that of others."""

    @property
    def stream(self) -> ssl.SSLSocket:
        """The connection; nothing has been read of it that is not understood."""
        assert self._stream is not None
        return self._stream

    def call(self, words: Json) -> None:
        """Connect and be welcomed. Raises Impostor, Refused."""
        self._stream = _connected(self._controller)
        self.say({"type": "dial", "protocol": DIAL_PROTOCOL, **words})
        answer = self._hear(_CONNECT_S)
        self.journal = answer.get("journal", "")
        if answer.get("type") != "welcome" or not is_id(self.journal):
            raise Refused("its welcome cannot be understood: %.200r" % answer)

    def redeem(self, words: Json) -> Optional[str]:
        """Connect and be given a token for a ticket; None: to be asked again. Raises Impostor, Refused."""
        self._stream = _connected(self._controller)
        self.say({"type": "redeem", "protocol": DIAL_PROTOCOL, **words})
        answer = self._hear(_CONNECT_S)
        token = answer.get("token")
        if answer.get("type") == "wait":
            return None
        if answer.get("type") != "token" or type(token) is not str:
            raise Refused("its answer cannot be understood: %.200r" % answer)
        return str(token)

    def wait(self) -> None:
        """Until somebody takes this connection. Raises Refused where it is not wanted any more."""
        asked = False
        while True:
            try:
                if self._hear(PING_S).get("type") == "take":
                    return
                asked = False
            except socket.timeout:
                if asked:
                    raise ConnectionError("it has been silent for %g s" % (2 * PING_S)) from None
                self.say({"type": "ping"})
                asked = True

    def say(self, words: Json) -> None:
        """One line."""
        self.stream.sendall(line(words))

    def close(self) -> None:
        """Hang up."""
        if self._stream is not None:
            self._stream.close()

    def _hear(self, within_s: float) -> Json:
        self.stream.settimeout(within_s)
        while not self._heard:
            data = self.stream.recv(_LONGEST_LINE)
            if not data:
                raise ConnectionError("it hung up")
            self._heard = self._lines.feed(data)
        message = decode(self._heard.pop(0))
        if message.get("type") == "refused":
            raise Refused(str(message.get("reason")))
        return message


def fingerprint_of(text: str) -> str:
    """The 64 digits of a fingerprint as people write it: with colons, with ``sha256:`` before it. Raises ValueError."""
    digits = text.lower()
    digits = (digits[len("sha256:") :] if digits.startswith("sha256:") else digits).replace(":", "")
    if len(bytes.fromhex(digits)) != hashlib.sha256().digest_size:
        raise ValueError("%r has not the 64 hexadecimal digits of a SHA-256" % text)
    return digits


def _connected(controller: Controller) -> ssl.SSLSocket:
    plain = socket.create_connection((controller.host, controller.port), _CONNECT_S)
    try:
        _keep_alive(plain)
        stream = _context().wrap_socket(plain)
    except BaseException:
        plain.close()
        raise
    shown = hashlib.sha256(stream.getpeercert(binary_form=True) or b"").hexdigest()
    if not hmac.compare_digest(shown, controller.fingerprint):
        stream.close()
        raise Impostor(
            "%s:%d shows a certificate with the fingerprint %s, not %s; nothing was said to it"
            % (controller.host, controller.port, shown, controller.fingerprint)
        )
    return stream


def _context() -> ssl.SSLContext:
    """No authority and no name counts, but one certificate: the fingerprint is compared before anything is said."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _keep_alive(plain: socket.socket) -> None:
    """Have the system notice that the other side is gone, also while nothing is said. What it lacks, it lacks."""
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", _GONE_S * 1000))
    for name, value in wanted:
        if hasattr(socket, name):
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
