"""What both clients know of the wire: how errors come back, and what an event stream says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hostler.client.address import Address
from hostler.client.forms import REMEDY
from hostler.model import errors
from hostler.model.errors import (
    AnswerError,
    ControllerAbsent,
    FilesError,
    HostlerError,
    LinkLost,
    LinkRefused,
    UsageError,
)

FIELDS_MAX = 10
"""Of one event of a stream; the controller sends three."""
UNAUTHORIZED, FORBIDDEN = 401, 403


class Frames:
    """Lines of server-sent events to events."""

    def __init__(self, url: str = "the controller") -> None:
        self._url = url
        self._fields: dict[str, str] = {}

    def feed(self, line: str) -> dict[str, str] | None:
        """The fields of an event that ends with this line, a comment as one of the name `comment`; `None` within one.

        An event without fields is the end of the stream. Raises `AnswerError` for one of too many fields.
        """
        if line:
            name, _, value = line.partition(": ")
            self._fields[name or "comment"] = value
            if len(self._fields) > FIELDS_MAX:
                raise AnswerError(f"the event stream of {self._url} has an event without an end. {REMEDY}")
            return None
        made, self._fields = self._fields, {}
        return made


class Checked:
    """Bytes of an artifact as they come; `end` says whether all of them came, and the right ones."""

    def __init__(self, headers: Mapping[str, str], url: str) -> None:
        """`headers` have their names in lower case. Raises `AnswerError` where they do not tell of an artifact."""
        import hashlib

        self._url = url
        try:
            self._expected, self._size = headers["hostler-sha256"], int(headers["content-length"])
        except (KeyError, ValueError) as error:
            raise AnswerError(f"{url} sends an artifact without its size and its SHA-256. {REMEDY}") from error
        self._digest, self._got = hashlib.sha256(), 0

    def feed(self, piece: bytes) -> bytes:
        """The piece, taken into account."""
        self._digest.update(piece)
        self._got += len(piece)
        if self._got > self._size:
            raise AnswerError(f"{self._url} sends more than the {self._size} bytes of the artifact. {REMEDY}")
        return piece

    def end(self) -> None:
        """Raises `LinkLost` where bytes are missing, `FilesError` where they are others."""
        advice = f"what came is worth nothing; `hostler artifact verify {self._expected[:16]}` reads all copies again"
        if self._got < self._size:
            raise LinkLost(
                f"artifact {self._expected} broke off after {self._got} of {self._size} bytes: the connection was "
                f"lost, or the controller found its copy damaged; {advice}"
            )
        if self._digest.hexdigest() != self._expected:
            raise FilesError(f"artifact {self._expected} came with the SHA-256 {self._digest.hexdigest()}; {advice}")


def expect_stream(headers: Mapping[str, str], url: str) -> None:
    """Raise `AnswerError` where what follows these headers is no event stream. Their names are in lower case."""
    kind = headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "text/event-stream":
        raise AnswerError(
            f"the answer of {url} to GET /events is {kind or 'of no type'}, not an event stream. {REMEDY}"
        )


def expect_job(name: object) -> None:
    """Raise `UsageError` for a name that is not a job's: that of a group, or something that is not a text."""
    if not isinstance(name, str):
        raise UsageError(f"{name!r:.80} is not a text. Give the id, key or unique name of a job, as 'j17'")
    if re.fullmatch(r"g[0-9]{1,18}", name):
        raise UsageError(f"{name} is a job group, not a job. Use attach_group({name!r})")


def told(address: Address, status: int, body: bytes) -> HostlerError:
    """The error that the controller answered with."""
    url = address.url
    try:
        problem = json.loads(body)
        name, message = str(problem["error"]), str(problem["message"])
    except (ValueError, KeyError, TypeError):
        tls = "; if it speaks TLS, its address begins with https" if status == 400 and url.startswith("http:") else ""
        return LinkRefused(f"{url} answered with status {status} and {body[:80]!r}; it is no Hostler controller{tls}")
    shape = getattr(errors, name, None)
    if isinstance(shape, type) and issubclass(shape, HostlerError):
        return shape(message)
    if status == UNAUTHORIZED:
        return LinkRefused(
            f"the controller at {url} refuses the token of {address.token_from} ({status} {name}): it does not know "
            "that token, or the token was revoked or has expired. `hostler token create NAME` on the controller's "
            "machine makes another one; set $HOSTLER_TOKEN to it"
        )
    if status == FORBIDDEN:
        message = f"{message} (the token is that of {address.token_from})"
    return LinkRefused(f"the controller at {url} refused ({status} {name}): {message}")


def absent(url: str) -> ControllerAbsent:
    """Nobody is there."""
    return ControllerAbsent(
        f"nothing answers at {url}: there is no controller, or it is starting or hangs. Check the address and wait a "
        "moment; on its machine, `hostler up --detach` starts one"
    )


def lost(where: str, error: BaseException) -> LinkLost:
    """Somebody was there."""
    why = "no answer came in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    return LinkLost(f"{where} stopped answering: {why}. Whether it did what was asked is not known; check the address")
