"""Programs for sweeps, known by name: installed packages announce them as entry points of `hostler.programs`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hostler.model.errors import SpecError
from hostler.settings.installed import load_installed

GROUP = "hostler.programs"


@runtime_checkable
class Program(Protocol):
    """What a sweep needs to know about its program before it runs. Any object of this shape will do."""

    @property
    def name(self) -> str:
        """The name under which settings ask for it."""

    @property
    def worker(self) -> tuple[str, ...]:
        """The command of a warm worker; its first word may be `{python}`, the node's Python."""

    def prepare(self, params: Mapping[str, Any], base_dir: Path) -> dict[str, Any]:
        """Complete, canonical parameters that need no file beside them; relative paths start at `base_dir`.

        Raises `ValueError` saying what is wrong with which parameter.
        """

    def chance(self, params: Mapping[str, Any]) -> float | None:
        """Probability that an item is a hit by chance, for prepared parameters; `None` if it cannot be said."""

    def kernel(self, params: Mapping[str, Any]) -> str:
        """What speed is measured for: prepared parameters with one kernel are expected to run equally fast."""

    def bounds(self, params: Mapping[str, Any]) -> tuple[int, int] | None:
        """The half-open range of all items there are; `None` if there is no end to them."""


def find(name: str) -> Program:
    """The installed program of that name. Raises `SpecError` naming those that are installed."""
    program, place = load_installed(GROUP, "program", name, "a `worker` command needs none")
    if not isinstance(program, Program):
        raise SpecError(f"{place} is no program for sweeps; see hostler.settings.programs.Program")
    return program
