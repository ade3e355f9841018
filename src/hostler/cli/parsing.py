"""Values of a command's parameters from the words of a command line."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hostler.cli.declarations import Argument, Option, Typed
from hostler.cli.parameters import Parameter, Required, Signature
from hostler.model.errors import UsageError

HELP_FLAGS = ("--help", "-h")
INTEGER_MAX = 2**63 - 1
WORD_SHOWN = 60

_NUMBER = re.compile(r"-\.?[0-9]")
_KINDS: Mapping[Callable[[str], Any], str] = {int: "an integer", float: "a number"}


class HelpWanted(Exception):
    """The words ask for the help of the command."""


class _Words(NamedTuple):
    """The words of a command line: options with their words in order, and the others."""

    options: Sequence[tuple[Parameter, str]]
    others: Sequence[str]


def parsed(
    command: Signature, words: Sequence[str], environ: Mapping[str, str] = os.environ
) -> tuple[dict[str, Any], frozenset[str]]:
    """The value of each parameter, and the parameters that were typed.

    Raises `UsageError`, and `HelpWanted` where help is asked for.
    """
    found = _split(command, words)
    typed: dict[str, list[Any]] = {}
    for option, word in found.options:
        typed.setdefault(option.name, []).append(_value(option, option.flags[0], word))
    for argument, word in _assigned(command.arguments, found.others):
        typed.setdefault(argument.name, []).append(_value(argument, _name(argument), word))
    values = {
        each.name: _chosen(each, typed.get(each.name), environ) for each in (*command.arguments, *command.options)
    }
    if command.typed is not None:
        values[command.typed] = Typed(dict(values), frozenset(typed))
    return values, frozenset(typed)


def _split(command: Signature, words: Iterable[str]) -> _Words:
    by_flag = {flag: each for each in command.options for flag in (*each.flags, each.off_flag) if flag is not None}
    verbatim = any(isinstance(each.declared, Argument) and each.declared.verbatim for each in command.arguments)
    options: list[tuple[Parameter, str]] = []
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return _Words(options, [*others, *rest])
        if not word.startswith("-") or word == "-" or (_NUMBER.match(word) and word[:2] not in by_flag):
            others.append(word)
            if verbatim:
                return _Words(options, [*others, *rest])
            continue
        flag, sign, value = _flag_and_value(word)
        if flag in HELP_FLAGS:
            raise HelpWanted
        option = by_flag.get(flag)
        if option is None:
            raise UsageError(f"no such option: {flag}{similar(flag, by_flag)}")
        if option.is_flag:
            if sign:
                raise UsageError(f"{flag} takes no value, and {value!r} is given; leave it out")
            options.append((option, flag))
        else:
            options.append((option, value if sign else _next(flag, rest)))
    return _Words(options, others)


def _flag_and_value(word: str) -> tuple[str, bool, str]:
    """An option's flag, whether a value is in the same word, and that value: `--name=x`, `-ox`."""
    if word.startswith("--"):
        flag, sign, value = word.partition("=")
        return flag, bool(sign), value
    return word[:2], len(word) > 2, word[2:]


def _next(flag: str, rest: Iterable[str]) -> str:
    for word in rest:
        return word
    raise UsageError(f"{flag} needs a value")


CLOSE = 0.7
"""How much alike two words are at least of which one is suggested for the other, as `difflib` counts."""


def similar(word: str, known: Iterable[str]) -> str:
    """The end of a message on an unknown word: the known one that is most like it, if one is."""
    from difflib import get_close_matches

    found = get_close_matches(word, known, n=1, cutoff=CLOSE)
    return f"; did you mean {found[0]}?" if found else ""


def _assigned(arguments: Sequence[Parameter], words: Sequence[str]) -> Iterable[tuple[Parameter, str]]:
    """Words without flags, with the arguments that they are: a list takes what the others leave."""
    rest = list(words)
    at = next((n for n, each in enumerate(arguments) if each.many), len(arguments))
    made = list(zip(arguments[:at], rest, strict=False))
    del rest[: len(made)]
    if at < len(arguments):
        last = len(arguments) - at - 1
        split = max(0, len(rest) - last)
        own, rest = rest[:split], rest[split:]
        made += [(arguments[at], word) for word in own]
        made += zip(arguments[at + 1 :], rest, strict=False)
    elif rest:
        plural = "s" if len(rest) > 1 else ""
        raise UsageError(f"unexpected word{plural}: {' '.join(rest)}; leave {'them' if plural else 'it'} out")
    return made


def _value(parameter: Parameter, shown: str, word: str) -> Any:
    """The value of one word. Raises `UsageError`."""
    if parameter.is_flag:
        return word != parameter.off_flag
    if parameter.choices and word not in parameter.choices:
        raise UsageError(f"{shown}: {_shown(word)} is not one of {', '.join(parameter.choices)}")
    try:
        value = parameter.kind(word)
    except ValueError as error:
        raise UsageError(f"{shown}: {_shown(word)} is not {_KINDS[parameter.kind]}") from error
    if isinstance(value, str) and not word.isascii() and any("\ud800" <= each <= "\udfff" for each in word):
        raise UsageError(f"{shown}: {word!a} is not UTF-8")
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise UsageError(f"{shown}: a number of {len(word)} digits is too large; at most {INTEGER_MAX} is allowed")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{shown}: {_shown(word)} is not a finite number")
    if isinstance(value, Path) and not word:
        raise UsageError(f"{shown} is empty; give a path")
    if isinstance(parameter.declared, Option):
        _expect_within(shown, word, value, parameter.declared)
    return value


def _shown(word: str) -> str:
    """A word for a message; of a long one its beginning and its length."""
    return repr(word) if len(word) <= WORD_SHOWN else f"{word[:WORD_SHOWN]!r}… ({len(word)} characters)"


def _expect_within(shown: str, word: str, value: Any, declared: Option) -> None:
    if declared.min is not None and not value >= declared.min:
        raise UsageError(f"{shown}: {word} is less than {declared.min:g}, the least value")
    if declared.max is not None and not value <= declared.max:
        raise UsageError(f"{shown}: {word} is more than {declared.max:g}, the greatest value")


def _chosen(parameter: Parameter, typed: list[Any] | None, environ: Mapping[str, str]) -> Any:
    """The value of a parameter: as typed, or from its environment variable, or its default. Raises `UsageError`."""
    if typed is not None:
        return typed if parameter.many else typed[-1]
    if isinstance(parameter.declared, Option) and parameter.declared.envvar is not None:
        word = environ.get(parameter.declared.envvar)
        if word:
            return _value(parameter, "$" + parameter.declared.envvar, word)
    if parameter.default is Required:
        raise UsageError(f"{_name(parameter)} is missing")
    return parameter.default


def _name(parameter: Parameter) -> str:
    if isinstance(parameter.declared, Argument):
        return parameter.declared.metavar.strip("[].")
    return parameter.flags[0]
