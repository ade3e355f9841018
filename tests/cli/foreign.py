"""A server that is no controller, or a broken one: what it answers to each request is for a test to say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from hostler.client import event_forms
from hostler.client.answer_forms import OBJECTS
from hostler.client.calls import API
from hostler.client.forms import form_of

Reply: TypeAlias = Callable[[str, str], Any]
"""What is answered to a method and a path: a document, or bytes as they are."""

COMMANDS = [
    "status", "status --health", "status --watch", "jobs", "jobs --json", "jobs --group g1", "jobs --state done",
    "queue",
    "job show j1", "job show j1 --json", "explain j1", "explain n/cuda0", "logs j1", "logs j1 --stream out",
    "logs j1 --stream setup", "logs j1 -f", "wait j1", "wait g1", "results g1", "results g1 --csv", "fetch j1 there",
    "fetch g1 there", "cancel j1", "cancel g1", "retry j1", "retry g1", "job priority j1 3", "events", "events --json",
    "top", "submit --own-dir --device cpu -- true", "submit -- true", "submit --grid a=1,2 -- echo {a}",
    "submit --wait -- true", "submit --follow -- true", "node list", "node show n", "node cordon n", "node drain n",
    "node resume n", "device list", "device show n/cuda0", "device cordon n/cuda0 --reason r",
    "device drain n/cuda0 --reason r", "device resume n/cuda0",
    "sweep submit primes --range 0:9 --worker true --own-dir",
    "sweep list", "sweep show j1", "sweep hits j1",
    "sweep ledger j1", "sweep verify j1", "train list", "train history c", "train pause c --why x", "train resume c",
    "train spawn c", "train report c", "model list c", "model rollback c", "artifact list", "artifact show a",
    "artifact lineage a", "artifact get a -o there", "artifact verify a", "alert list", "alert rules", "alert targets",
    "alert silences", "alert silence r --for 1h --why x", "alert unsilence s1", "alert ack a1", "alert test r",
    "hold list", "token create x", "token list", "token revoke x", "token audit", "account usage", "account costs",
    "secret set x --file train.py", "secret list", "secret remove x",
    "account shares", "account durations", "disk plan", "disk clean --yes", "disk undo --all", "sieve survivors j1",
    "down",
]  # fmt: skip


@contextmanager
def foreign(reply: Reply, status: int = 200) -> Iterator[str]:
    """The address of a server that answers so, with this status."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self) -> None:
            said = reply(self.command, self.path.removeprefix(API))
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


WORDS: Mapping[str, Any] = {"state": "done", "id": "j1", "job": "j1", "work": "script", "kind": "script", "attempts": 1}


def example(form: Any, depth: int = 0) -> Any:
    """A document of this form."""
    if isinstance(form, str):
        plain = {"str": "x", "int": 1, "float": 1.5, "bool": True, "null": None, "any": {"a": 1}}
        return plain[form] if form in plain else _example_object(form, depth)
    if isinstance(form, tuple):
        return example(form[0] if depth < 6 else "null" if "null" in form else form[0], depth)
    if isinstance(form, list):
        return [example(each, depth) for each in form] if depth < 8 else []
    ((field, inner),) = form.items()
    if not field:
        return {"a": example(inner, depth)}
    kind = "script" if "script" in inner else "attempt.ended"
    return {**_example_object(inner[kind], depth), field: kind}


def _example_object(name: str, depth: int) -> Any:
    if name == "Event":
        return example({"kind": event_forms.EVENTS}, depth)
    fields = OBJECTS[name] if name in OBJECTS else event_forms.OBJECTS[name]
    return {
        field.rstrip("?"): WORDS[field] if field in WORDS and isinstance(each, str) else example(each, depth + 1)
        for field, each in fields.items()
    }


def answer(method: str, path: str) -> Any:
    """A document of the form that the interface gives the answer to this request."""
    return example(form_of(method, path))
