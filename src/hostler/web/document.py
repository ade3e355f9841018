"""The OpenAPI document: FastAPI's, with the request bodies that our own strict decoder reads."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from starlette.routing import BaseRoute

from hostler.model import codec
from hostler.settings.schema import schema_of
from hostler.web.problems import Problem
from hostler.web.routing import LateRoute

SCHEMAS = "#/components/schemas/"
INPUT = "-Input"
"""What the names of the schemas of request bodies end in: fields with a default may be left out there."""

IDEMPOTENCY_KEY: Mapping[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "the same request under the same key is done once: for a day, its answer is given again",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
}


NEXT_PAGE: Mapping[str, Any] = {
    "description": 'where the next page is, `<?...>; rel="next"`; missing on the last one',
    "schema": {"type": "string"},
}


class Published:
    """The document, made in a thread when it is first asked for, which takes a second or two."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make
        self._lock = asyncio.Lock()
        self._made: dict[str, Any] | None = None

    async def document(self) -> dict[str, Any]:
        """The whole document."""
        async with self._lock:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
        return self._made


def body_of(*names: str, many: bool = False, required: bool = True, example: Any = None) -> dict[str, Any]:
    """What a route says of its body: one of the named shapes, or a list of them."""
    shapes = [{"$ref": SCHEMAS + name + INPUT} for name in names]
    one = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    content = {"schema": {"type": "array", "items": one} if many else one}
    shown = {} if example is None else {"example": example}
    return {"requestBody": {"required": required, "content": {"application/json": {**content, **shown}}}}


def document(app: FastAPI, bodies: tuple[type, ...]) -> dict[str, Any]:
    """The whole document; `bodies` are the shapes that `body_of` names."""
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=_described(app))
    schemas: dict[str, Any] = made["components"]["schemas"]
    for shape in bodies:
        schemas.update(_input_schemas(shape))
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Problem"] = codec.adapter(Problem).json_schema()
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"token": []}]
    for name in schemas.keys() - _bodies(schemas):
        _let_all_be_there(schemas[name])
    for path in made["paths"].values():
        for method, operation in path.items():
            _let_problems_be(operation["responses"])
            if any(each["name"] == "after" and each["in"] == "query" for each in operation.get("parameters", ())):
                _let_pages_be(operation["responses"])
            if method != "get":
                operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
    made["components"]["schemas"] = dict(sorted(schemas.items()))
    return made


def _described(app: FastAPI) -> list[BaseRoute]:
    return [route.described() if isinstance(route, LateRoute) else route for route in app.routes]


def _input_schemas(shape: type) -> Mapping[str, Any]:
    if issubclass(shape, BaseModel):  # of settings, whose fields are described
        text = json.dumps(schema_of(shape))
        schema = json.loads(re.sub(r'"#/\$defs/([^"]+)"', rf'"{SCHEMAS}\1{INPUT}"', text))
        schema.pop("$schema")
    else:
        schema = codec.adapter(shape).json_schema(ref_template=SCHEMAS + "{model}" + INPUT)
    parts: dict[str, Any] = schema.pop("$defs", {})
    return {name + INPUT: part for name, part in {**parts, shape.__name__: schema}.items()}


def _bodies(schemas: Mapping[str, Any]) -> set[str]:
    return {name for name in schemas if name.endswith(INPUT)}


def _let_all_be_there(schema: dict[str, Any]) -> None:
    """Answers tell every field, those with a default too."""
    if "properties" in schema:
        schema["required"] = list(schema["properties"])


def _let_pages_be(responses: dict[str, Any]) -> None:
    if "application/json" in responses["200"]["content"]:
        responses["200"]["headers"] = {"Link": NEXT_PAGE}


def _let_problems_be(responses: dict[str, Any]) -> None:
    """Whatever is no success is a `Problem`; FastAPI's own shape for bad parameters is not used."""
    responses.pop("422", None)
    responses["default"] = {
        "description": "the request was refused or failed; nothing was done",
        "content": {"application/json": {"schema": {"$ref": SCHEMAS + "Problem"}}},
    }
