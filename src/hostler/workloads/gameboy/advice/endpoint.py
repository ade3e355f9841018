"""One call of a server that speaks OpenAI's protocol: bounded in time and size, and never an exception."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hostler.workloads.gameboy.advice.answers import Advice, Garbage, instruction, read_answer, schema
from hostler.workloads.gameboy.advice.counts import Came
from hostler.workloads.gameboy.advice.settings import Asking

if TYPE_CHECKING:
    import httpx2

BODY_MAX = 1 << 18
WORDS_MAX = 200
OK, LIMITED, UNAVAILABLE, FAULTS_FROM = 200, 429, 503, 500


@dataclass(frozen=True, slots=True)
class Said:
    """What a call came to."""

    came: Came
    advice: Advice | None = None
    """Where it was answered."""
    pause_s: float | None = None
    """For how long the server wants to be left alone (`Retry-After`)."""
    words: str | None = None
    """What went wrong."""


class Endpoint:
    """A server, for one thread. Nothing is opened before the first call."""

    def __init__(self, asked: Asking, actions: Sequence[str], key: str | None, clock: Callable[[], float]) -> None:
        self._asked = asked
        self._actions = tuple(actions)
        self._key = key
        self._clock = clock
        self._client: httpx2.Client | None = None
        self._socket: socket.socket | None = None
        """Of its connection, as it was told last."""

    def ask(self, question: str) -> Said:
        """Ask it; raises nothing but defects of ours.

        It comes back within about `timeout_s` where the server is silent, or drips its answer. Who resolves its name,
        and a server that drips what comes before, can keep it for longer: see `abort`.
        """
        import httpx2

        if self._client is None:
            self._client = self._opened()
        try:
            status, pause, body = self._called(self._client, self._clock() + self._asked.timeout_s, question)
        except (httpx2.TimeoutException, TimeoutError):
            return self._wrong(Came.TIMEOUT, f"no answer within {self._asked.timeout_s:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return self._wrong(Came.REFUSED, f"{type(error).__name__}: {error}")
        if status != OK:
            return self._refused(status, pause, body)
        try:
            return Said(Came.ANSWERED, read_answer(body, self._actions))
        except Garbage as error:
            return self._wrong(Came.GARBAGE, str(error))

    def abort(self) -> bool:
        """From another thread: break off the connection that is waited for; whether there is one."""
        if self._socket is None:
            return False
        try:
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # not TLS's own: the other thread is in it
        except OSError:  # it is closed, or was never connected
            return False
        return True

    def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _opened(self) -> httpx2.Client:
        import httpx2

        for name in ("httpx2", "httpcore2"):  # they write a line for each call
            logging.getLogger(name).setLevel(logging.WARNING)
        headers = {} if self._key is None else {"authorization": f"Bearer {self._key}"}
        is_plain = self._asked.url.startswith("http:")  # certificates take longer to be read than a call does
        return httpx2.Client(
            timeout=self._asked.timeout_s, headers=headers, follow_redirects=False, verify=not is_plain
        )

    def _called(self, client: httpx2.Client, until: float, question: str) -> tuple[int, float | None, bytes]:
        """Status, `Retry-After`, and the body, of which no more is read than may be."""
        url = f"{self._asked.url}/chat/completions"
        body, extensions = self._body(question), {"trace": self._connected}
        with client.stream("POST", url, json=body, extensions=extensions) as response:
            read = b""
            for piece in response.iter_bytes():
                read += piece
                if self._clock() > until:  # a client's timeout is that of a piece: drops may come for ever
                    raise TimeoutError
                if len(read) > BODY_MAX:
                    break
            return response.status_code, _seconds(response.headers.get("retry-after")), read

    def _connected(self, event: str, about: Mapping[str, Any]) -> None:
        """Whatever the client does; what it connects to is remembered."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = about["return_value"].get_extra_info("socket")

    def _body(self, question: str) -> dict[str, Any]:
        form = {"name": "advice", "strict": True, "schema": schema(self._actions)}
        return {
            "model": self._asked.model,
            "messages": [
                {"role": "system", "content": instruction(self._actions)},
                {"role": "user", "content": question},
            ],
            "response_format": {"type": "json_schema", "json_schema": form},
            "max_tokens": self._asked.tokens,
            "temperature": 0,
        }

    def _refused(self, status: int, pause_s: float | None, body: bytes) -> Said:
        words = f"status {status}: {body.decode(errors='replace')}"
        if status == LIMITED:
            return self._wrong(Came.LIMITED, words, pause_s)
        if status >= FAULTS_FROM:
            return self._wrong(Came.FAILED, words, pause_s if status == UNAVAILABLE else None)
        return self._wrong(Came.DENIED, words)

    def _wrong(self, came: Came, words: str, pause_s: float | None = None) -> Said:
        told = f"{self._asked.url}: {words}"
        if self._key is not None:
            told = told.replace(self._key, "***")
        return Said(came, pause_s=pause_s, words=" ".join(told.split())[:WORDS_MAX])


def _seconds(retry_after: str | None) -> float | None:
    """Of a header; dates are left alone: clocks of two machines differ."""
    text = (retry_after or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
