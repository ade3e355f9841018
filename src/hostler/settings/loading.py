"""A fleet file, laid under the environment, laid under the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hostler.model.errors import SettingsError, SpecError
from hostler.model.faults import shortened
from hostler.model.schemas import KeyPath
from hostler.model.work import JobSpec
from hostler.settings import where
from hostler.settings.classes import classified
from hostler.settings.environment import from_environment
from hostler.settings.faults import checked
from hostler.settings.jobsfile import bounded, job_spec, placed_jobs, refuse_twins
from hostler.settings.models import Fleet
from hostler.settings.pilots import piloted
from hostler.settings.reading import Origin, Tree, grafted, read_file, uniform
from hostler.settings.sweeps import sweep_spec


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, complete and checked, with the origin of each in `tree`."""

    path: Path | None
    base_dir: Path
    """The folder that relative paths of the fleet file start from."""
    fleet: Fleet
    state_dir: Path
    tree: Tree

    def origin(self, path: KeyPath) -> str:
        """Where the value at `path` was set: `file:line:column`, a variable, the command line, or `default`."""
        return str(self.tree.values.get(path, "default"))


def load(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Loaded:
    """The settings of a fleet file (`None`: there is none), of `HOSTLER_*` in `environ`, and of the command line.

    `overrides` maps dotted names (`api.port`) to values; they win over the environment, which wins over the file.
    Raises `SettingsError` telling every fault with its place.
    """
    tree = uniform({}, Origin("settings")) if path is None else read_file(path)
    for target, branch in from_environment(Fleet, environ, _sections(tree)):
        tree = grafted(tree, target, branch)
    for name, value in (overrides or {}).items():
        tree = grafted(tree, tuple(name.split(".")), uniform(value, Origin("command line")))
    tree = piloted(classified(tree))
    fleet = checked(Fleet, tree)
    for kind in ("nodes", "configs"):
        names = (part.name for part in getattr(fleet, kind))
        refuse_twins("the name", ((name, tree.at((kind, i, "name"))) for i, name in enumerate(names)))
    base_dir = Path.cwd() if path is None else path.absolute().parent
    return Loaded(path, base_dir, fleet, _state_dir(fleet, tree, base_dir, environ), tree)


def specs(loaded: Loaded) -> tuple[JobSpec, ...]:
    """Everything the fleet file asks for, sweeps first. The same file gives the same keys: submitting it again is safe.

    Raises `SettingsError` where a job or sweep cannot be, and where two share a key.
    """
    tree, fleet = loaded.tree, loaded.fleet
    placed = [(_sweep(loaded, i), tree.at(("sweeps", i))) for i in range(len(fleet.sweeps))]
    placed += [(job_spec(job, loaded.base_dir), tree.at(("jobs", i))) for i, job in enumerate(fleet.jobs)]
    for name in fleet.jobs_files:
        placed += placed_jobs(loaded.base_dir / name)
    refuse_twins("the key", ((spec.key or spec.name, origin) for spec, origin in placed))
    if fleet.limits.memory_gb is None:
        return tuple(spec for spec, _ in placed)
    return tuple(replace(spec, resources=bounded(spec.resources, fleet.limits)) for spec, _ in placed)


def _sections(tree: Tree) -> frozenset[str]:
    """What is written at all; of what is no mapping, that is told when it is checked."""
    written = tree.value if isinstance(tree.value, dict) else {}
    return frozenset(name for name, value in written.items() if value is not None)


def _sweep(loaded: Loaded, index: int) -> JobSpec:
    try:
        return sweep_spec(loaded.fleet.sweeps[index], loaded.base_dir)
    except SpecError as error:
        raise SettingsError(f"{loaded.tree.at(('sweeps', index))}: sweeps[{index}]: {shortened(str(error))}") from error


def _state_dir(fleet: Fleet, tree: Tree, base_dir: Path, environ: Mapping[str, str]) -> Path:
    """A folder named in the file starts from the file's, one named by hand from the current one."""
    if fleet.state_dir is None:
        return where.state_dir({name: value for name, value in environ.items() if name != "HOSTLER_STATE_DIR"})
    by_hand = tree.at(("state_dir",)).line is None
    return (Path.cwd() if by_hand else base_dir) / os.path.expanduser(fleet.state_dir)
