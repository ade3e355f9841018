"""`HOSTLER_*` variables that set something: `HOSTLER_API__PORT=9000` sets `api.port`. Some go by older names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from hostler.model.errors import SettingsError
from hostler.model.faults import near, shown
from hostler.model.schemas import KeyPath, Schema, branches
from hostler.settings.reading import Origin, Tree, read_text, uniform
from hostler.settings.schema import schema_of, settings_of

PREFIX = "HOSTLER_"

SET_BY_HOSTLER = frozenset(
    PREFIX + name
    for name in ("ARTIFACTS", "ATTEMPT", "ATTEMPT_DIR", "CANARY", "INPUTS", "RESULT", "WORKER", "WORKER_DIR")
)
"""What Hostler itself gives to the processes it starts. They set nothing, and may be there when one calls `hostler`."""

READ_BY_CLIENTS = frozenset(PREFIX + name for name in ("URL", "TOKEN", "CA"))
"""Where the command line finds a controller, and what it shows there. They set nothing of a controller."""

READ_BY_PROGRAMS = frozenset(PREFIX + name for name in ("SIEVE_OPENCL", "SIEVE_CACHE"))
"""What programs of sweeps read on their nodes, this machine perhaps among them. They set nothing of a controller."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A variable of another system: the setting it stands for, and whether its number is a percentage of it."""

    path: tuple[str, ...]
    percent: bool = False


ALIASES: Mapping[str, Alias] = {
    "RINGRIFT_TARGET_UTIL_MIN": Alias(("scheduling", "targets", "gpu_min"), percent=True),
    "RINGRIFT_TARGET_UTIL_MAX": Alias(("scheduling", "targets", "gpu_max"), percent=True),
    "RINGRIFT_MAX_DISK_PERCENT": Alias(("scheduling", "targets", "disk_critical"), percent=True),
    "RINGRIFT_MEMORY_LIMIT_GB": Alias(("limits", "memory_gb")),
    "RINGRIFT_IDLE_CHECK_INTERVAL": Alias(("scheduling", "targets", "idle_check_s")),
    "RINGRIFT_IDLE_GPU_THRESHOLD": Alias(("scheduling", "targets", "idle_below"), percent=True),
    "RINGRIFT_IDLE_GRACE_PERIOD": Alias(("scheduling", "targets", "idle_after_s")),
    "RAY_WORKERS": Alias(("rl", "runners")),
    "ENVS_PER_WORKER": Alias(("rl", "envs_per_runner")),
    "EPISODE_LENGTH": Alias(("rl", "episode_steps")),
    "BATCH_SIZE": Alias(("rl", "batch_steps")),
}
"""Variables of the systems that Hostler takes the place of. Their other ones set nothing and are let be."""
OPTIONAL = frozenset({"rl"})
"""Sections that a file need not have: aliases set nothing in one that is not there. Their names are no rare ones."""


def variables(model: type[BaseModel]) -> dict[str, KeyPath]:
    """The variables that set something, and what."""
    paths = (path for path, _ in settings_of(schema_of(model), items=False))
    return {PREFIX + "__".join(path).upper(): path for path in paths}


def from_environment(
    model: type[BaseModel], environ: Mapping[str, str], sections: Collection[str] = OPTIONAL
) -> Iterator[tuple[KeyPath, Tree]]:
    """What the environment sets: paths and values. Raises `SettingsError` at a variable that sets nothing.

    `sections` are those that are written; in an optional one that is not, aliases set nothing.
    """
    if not _may_set(environ):
        return
    known = variables(model)
    nodes = dict(settings_of(schema_of(model), items=False))
    for name in filter(_is_ours, sorted(environ)):
        if name not in known:
            raise SettingsError(f"environment variable {name}: sets nothing{near(name, list(known))}; unset it")
        path = known[name]
        yield path, _value(environ[name], f"environment variable {name}", _is_text(model, nodes, path))
    absent = OPTIONAL - set(sections)
    yield from _from_elsewhere(environ, {path: name for name, path in known.items() if path[0] not in absent})


def _may_set(environ: Mapping[str, str]) -> bool:
    """Whether there is a variable at all to look up; to know what they are all called takes the whole schema."""
    return any(name in ALIASES or _is_ours(name) for name in environ)


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX) and name not in SET_BY_HOSTLER | READ_BY_CLIENTS | READ_BY_PROGRAMS


def _from_elsewhere(environ: Mapping[str, str], ours: Mapping[KeyPath, str]) -> Iterator[tuple[KeyPath, Tree]]:
    """What variables with names from elsewhere set of the settings that `ours` names. Raises `SettingsError` where ours
    sets it, too."""
    for name, alias in ALIASES.items():
        if name not in environ or alias.path not in ours:
            continue
        source = f"environment variable {name}"
        if ours[alias.path] in environ:
            raise SettingsError(f"{source}: sets the same as {ours[alias.path]}; unset one of them")
        number = read_text(environ[name], source).value
        if not alias.percent:
            yield alias.path, uniform(number, Origin(source))
            continue
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 100:
            raise SettingsError(f"{source}: should be a percentage, 0 to 100 (found {shown(environ[name])})")
        yield alias.path, uniform(number / 100, Origin(source))


def _value(text: str, source: str, is_text: bool) -> Tree:
    """A text as it is, anything else as YAML."""
    value = text if is_text else read_text(text, source).value
    return uniform(value, Origin(source))


def _is_text(model: type[BaseModel], nodes: Mapping[tuple[str, ...], Schema], path: KeyPath) -> bool:
    kinds = {branch.get("type") for branch in branches(schema_of(model), nodes[tuple(map(str, path))])}
    return kinds <= {"string", "null"}
