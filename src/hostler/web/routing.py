"""Routes that FastAPI makes when somebody comes to them: making all of them takes longer than most of a start.

What they answer with is said for the document alone; each makes its own response (`answers`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict, TypeVar, Unpack

from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from hostler.model import codec

Endpoint = TypeVar("Endpoint", bound=Callable[..., Awaitable[Response]])


class Said(TypedDict, total=False):
    """What the document says of the answers of a route, and of its body; as FastAPI calls it."""

    response_model: Any
    response_class: type[Response]
    responses: dict[int | str, dict[str, Any]]
    status_code: int
    openapi_extra: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Declared:
    method: str
    path: str
    endpoint: Callable[..., Awaitable[Response]]
    said: Said


class Routes:
    """What one file answers to, in the order in which it is looked through."""

    def __init__(self, prefix: str = "", tags: Sequence[str] = (), *, in_document: bool = True) -> None:
        self._prefix = prefix
        self._tags = tuple(tags)
        self._in_document = in_document
        self._declared: list[_Declared] = []

    def get(self, path: str, **said: Unpack[Said]) -> Callable[[Endpoint], Endpoint]:
        """Answer a GET; parameters of the path and of the query are those of the function."""
        return self._declare("GET", path, said)

    def post(self, path: str, **said: Unpack[Said]) -> Callable[[Endpoint], Endpoint]:
        """Answer a POST."""
        return self._declare("POST", path, said)

    def delete(self, path: str, **said: Unpack[Said]) -> Callable[[Endpoint], Endpoint]:
        """Answer a DELETE."""
        return self._declare("DELETE", path, said)

    def below(self, prefix: str = "", *, in_document: bool = True) -> list[LateRoute]:
        """The routes, for one application."""
        shown = in_document and self._in_document
        return [LateRoute(prefix + self._prefix + each.path, each, self._tags, shown) for each in self._declared]

    def _declare(self, method: str, path: str, said: Said) -> Callable[[Endpoint], Endpoint]:
        def note(endpoint: Endpoint) -> Endpoint:
            self._declared.append(_Declared(method, path, endpoint, said))
            return endpoint

        return note


class LateRoute(Route):
    """Knows whom it is for; `served` is made when the first comes."""

    def __init__(self, path: str, declared: _Declared, tags: Sequence[str], in_document: bool) -> None:
        super().__init__(path, declared.endpoint, include_in_schema=in_document)
        self.methods = {declared.method}  # a HEAD is refused, as FastAPI does
        self.app = self._serve
        self._declared = declared
        self._tags = tags

    @property
    def response_model(self) -> Any:
        """What it answers with; `None` where that is not said."""
        return self._declared.said.get("response_model")

    @cached_property
    def served(self) -> APIRoute:
        """What answers."""
        return self._made(response_model=None)

    def make_ready(self) -> None:
        """Make now what the first to come would wait for."""
        _ = self.served
        if self.response_model is not None:
            codec.adapter(self.response_model)

    def described(self) -> APIRoute:
        """What the document is made of."""
        return self._made(response_model=self.response_model)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether it is for a request; then that knows its route."""
        match, found = super().matches(scope)
        return match, found if match is Match.NONE else {**found, "route": self}

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.served.app(scope, receive, send)

    def _made(self, response_model: Any) -> APIRoute:
        said: dict[str, Any] = {**self._declared.said, "response_model": response_model}
        return APIRoute(
            self.path,
            self.endpoint,
            methods=[self._declared.method],
            tags=list(self._tags),
            include_in_schema=self.include_in_schema,
            generate_unique_id_function=lambda route: route.name,
            **said,
        )


def late(routes: Iterable[BaseRoute]) -> Iterator[LateRoute]:
    """Those of our own files among the routes of an application."""
    return (route for route in routes if isinstance(route, LateRoute))
