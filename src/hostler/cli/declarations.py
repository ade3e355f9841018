"""Declarations of command parameters: `Annotated[type, Option(...)]` and `Annotated[type, Argument(...)]`.

A command is a function; its parameters are its options and arguments, and its docstring is its help. Types are `str`,
`int`, `float`, `Path`, `bool` (a flag), a `Literal` or a `StrEnum` (a choice), a `list` of one of them (repeatable),
and each of them or `None`. Libraries do the same, and need more CPU time for their import alone than a whole command
may take (docs/decisions/0035-command-line.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

Complete: TypeAlias = Callable[[str, Mapping[str, Any]], list[str]]
"""Values that begin with a text, for a shell; the mapping has the options that were typed before."""


class Option:
    """An option: its flags (by default `--` and the name of the parameter), and what its help and its values need.

    A flag written as `--on/--off` can be switched off. `min` and `max` bound numbers, both included; `envvar` names the
    environment variable that has its value where it is not typed.
    """

    __slots__ = ("complete", "envvar", "flags", "help", "max", "metavar", "min")

    def __init__(
        self,
        *flags: str,
        help: str,
        metavar: str | None = None,
        min: float | None = None,
        max: float | None = None,
        envvar: str | None = None,
        complete: Complete | None = None,
    ) -> None:
        self.flags = flags
        self.help = help
        self.metavar = metavar
        self.min = min
        self.max = max
        self.envvar = envvar
        self.complete = complete


class Argument:
    """A word, or for a list all words, without a flag. With `verbatim`, all words after the first one belong to it."""

    __slots__ = ("complete", "help", "metavar", "verbatim")

    def __init__(self, *, help: str, metavar: str, verbatim: bool = False, complete: Complete | None = None) -> None:
        self.help = help
        self.metavar = metavar
        self.verbatim = verbatim
        self.complete = complete


class Typed(NamedTuple):
    """A command line as a command sees it: the values of all its parameters, and the parameters that were typed."""

    values: Mapping[str, Any]
    names: frozenset[str]
