"""How long answers take: measured beside the application, exported with the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus

from prometheus_client import Histogram, Metric
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAME = "hostler_http_request_duration_seconds"
MEANING = "From the arrival of a request that was let in to the beginning of its answer"
LABELS = ("method", "route", "status")
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
NO_ROUTE = "none"
"""In the place of the route of requests that have none; what they asked for would be a label without bounds."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Timing:
    """Requests of one application. `timer` tells seconds, from whenever."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self.timer = timer
        self._durations = Histogram(NAME, MEANING, LABELS, buckets=BUCKETS_S, registry=None)

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """A request was answered."""
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._durations.labels(method, _route_of(scope), str(status)).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """What is to be exported: without the time at which each series began, which would double them."""
        for metric in self._durations.collect():
            metric.samples = [each for each in metric.samples if not each.name.endswith("_created")]
            yield metric


class Timed:
    """Middleware: tells a `Timing` of every request."""

    def __init__(self, app: ASGIApp, timing: Timing) -> None:
        self._app = app
        self._timing = timing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answered = self._timing.timer(), False

        async def noted(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start" and not answered:
                answered = True
                self._timing.note(scope, message["status"], self._timing.timer() - began)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except BaseException:
            if not answered:
                self._timing.note(scope, HTTPStatus.INTERNAL_SERVER_ERROR, self._timing.timer() - began)
            raise


def _route_of(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "path", NO_ROUTE))
