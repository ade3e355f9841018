"""A real server on loopback that speaks OpenAI's protocol, or does something else instead."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.patience import PATIENCE_S
from tests.servers import QuietServer


@dataclass
class Model:
    """What it does: a status, a body, or one of the words below; and what it was asked."""

    does: object = "answers"
    """`answers` by the schema, `hangs`, `closes` in the middle, sends an `endless` body, or a status or a text."""
    models: list[str] | int = field(default_factory=lambda: ["tiny"])
    """What it lists; or the status it answers instead."""
    key: str | None = None
    port: int = 0
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def completion(content: object) -> str:
    return json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]})


class _Handler(http.server.BaseHTTPRequestHandler):
    model: Model

    def do_GET(self) -> None:
        if not self._let_in():
            return
        if isinstance(self.model.models, int):
            self._answer(self.model.models, "no list")
        elif self.path == "/v1/models":
            self._answer(200, json.dumps({"object": "list", "data": [{"id": name} for name in self.model.models]}))
        else:
            self._answer(404, "nothing here")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._let_in():
            return
        if self.path != "/v1/chat/completions":
            self._answer(404, "nothing here")
            return
        self.model.asked.append(body)
        does = self.model.does
        if does == "answers":
            self._answer(200, completion(json.dumps({"action": self._button(body)})))
        elif does == "hangs":
            self.model.released.wait(PATIENCE_S)
        elif does == "closes":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"{")
        elif does == "endless":
            self._endless()
        elif isinstance(does, int):
            self._answer(does, f"said with {self.headers.get('Authorization', 'no key')}")
        else:
            self._answer(200, str(does))

    def log_message(self, *_: object) -> None:
        pass

    def _button(self, body: Mapping[str, Any]) -> str:
        """As a constrained answer is: the schema's own word."""
        schema = body["response_format"]["json_schema"]["schema"]
        return str(schema["properties"]["action"]["enum"][1])

    def _let_in(self) -> bool:
        if self.model.key is None or self.headers.get("Authorization") == f"Bearer {self.model.key}":
            return True
        self._answer(401, "who are you?")
        return False

    def _answer(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        if status in (301, 302, 307):
            self.send_header("Location", "http://127.0.0.1:1/v1/chat/completions")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while not self.model.released.is_set():
                self.wfile.write(b"x" * 65_536)
        except OSError:
            pass


@contextmanager
def served(model: Model) -> Iterator[Model]:
    """Listen until the block ends."""
    handler = type("Handler", (_Handler,), {"model": model})
    server = QuietServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    model.port = server.server_address[1]
    try:
        yield model
    finally:
        model.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
