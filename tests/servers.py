"""An HTTP server for tests, on loopback, that prints nothing when a client disconnects."""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer
from typing import Any


class QuietServer(ThreadingHTTPServer):
    """Serves each connection in a daemon thread; other errors of a handler are printed as usual."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnects: cancelled requests and closed keep-alive connections are part of tests."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
