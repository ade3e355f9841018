"""`HOSTLER_*` variables that set something: `HOSTLER_API__PORT=9000` sets `api.port`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from hostler.model.errors import SettingsError
from hostler.settings.faults import near
from hostler.settings.reading import KeyPath, Origin, Tree, read_text, uniform
from hostler.settings.schema import Schema, branches, schema_of, settings_of

PREFIX = "HOSTLER_"

SET_BY_HOSTLER = frozenset(
    PREFIX + name for name in ("ARTIFACTS", "ATTEMPT", "ATTEMPT_DIR", "INPUTS", "RESULT", "WORKER", "WORKER_DIR")
)
"""What Hostler itself gives to the processes it starts. They set nothing, and may be there when one calls `hostler`."""


def variables(model: type[BaseModel]) -> dict[str, KeyPath]:
    """The variables that set something, and what."""
    paths = (path for path, _ in settings_of(schema_of(model), items=False))
    return {PREFIX + "__".join(path).upper(): path for path in paths}


def from_environment(model: type[BaseModel], environ: Mapping[str, str]) -> Iterator[tuple[KeyPath, Tree]]:
    """What the environment sets: paths and values. Raises `SettingsError` at a variable that sets nothing."""
    known = variables(model)
    nodes = dict(settings_of(schema_of(model), items=False))
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in SET_BY_HOSTLER:
            continue
        if name not in known:
            raise SettingsError(f"environment variable {name}: sets nothing{near(name, list(known))}; unset it")
        path = known[name]
        yield path, _value(environ[name], f"environment variable {name}", _is_text(model, nodes, path))


def _value(text: str, source: str, is_text: bool) -> Tree:
    """A text as it is, anything else as YAML."""
    value = text if is_text else read_text(text, source).value
    return uniform(value, Origin(source))


def _is_text(model: type[BaseModel], nodes: Mapping[tuple[str, ...], Schema], path: KeyPath) -> bool:
    kinds = {branch.get("type") for branch in branches(schema_of(model), nodes[tuple(map(str, path))])}
    return kinds <= {"string", "null"}
