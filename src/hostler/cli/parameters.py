"""Parameters of a command, read from the function that carries it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from hostler.cli.declarations import Argument, Option, Typed
from hostler.cli.server import STATE_DIR, Server


class Required:
    """The default of a parameter without one."""


class Parameter(NamedTuple):
    """One parameter: `kind` makes a value of a word; `choices` are its only words where that is not empty."""

    name: str
    declared: Option | Argument
    kind: Callable[[str], Any]
    choices: tuple[str, ...]
    many: bool
    default: Any

    @property
    def flags(self) -> Sequence[str]:
        """The flags of an option, that which switches it off apart; none of an argument."""
        if isinstance(self.declared, Argument):
            return ()
        own = [flag.partition("/")[0] for flag in self.declared.flags]
        return own or ["--" + self.name.strip("_").replace("_", "-")]

    @property
    def off_flag(self) -> str | None:
        """The flag that switches a flag off, if it has one."""
        if isinstance(self.declared, Argument):
            return None
        return next((flag.partition("/")[2] for flag in self.declared.flags if "/" in flag), None)

    @property
    def is_flag(self) -> bool:
        """Whether it is an option without a value."""
        return self.kind is bool


class Signature(NamedTuple):
    """The parameters of a command, and the name of the one that takes what was typed (`Typed`), if there is one."""

    options: Sequence[Parameter]
    arguments: Sequence[Parameter]
    typed: str | None


def signature(function: Callable[..., Any]) -> Signature:
    """The parameters of `function`; a command that asks a controller has `--server`, too."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = names[: code.co_argcount]
    given = function.__defaults__ or ()
    defaults = dict(zip(positional[len(positional) - len(given) :], given, strict=True))
    defaults |= function.__kwdefaults__ or {}
    hints = get_type_hints(function, include_extras=True)
    annotations = {name: hints[name] for name in names}
    typed = next((name for name, annotation in annotations.items() if annotation is Typed), None)
    found = [
        _parameter(name, annotation, defaults.get(name, Required))
        for name, annotation in annotations.items()
        if name != typed
    ]
    if any(each.declared is STATE_DIR for each in found):
        found.append(_parameter("server", Server, None))
    options = [each for each in found if isinstance(each.declared, Option)]
    return Signature(options, [each for each in found if isinstance(each.declared, Argument)], typed)


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    declared = annotation.__metadata__[0]
    kind, many = annotation.__origin__, False
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is list:
        (kind,), many = get_args(kind), True
    if get_origin(kind) is Literal:
        return Parameter(name, declared, str, get_args(kind), many, default)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Parameter(name, declared, kind, tuple(str(each.value) for each in kind), many, default)
    assert kind in (str, int, float, bool, Path), f"{name}: commands have no parameters of type {kind}"
    return Parameter(name, declared, kind, (), many, default)
