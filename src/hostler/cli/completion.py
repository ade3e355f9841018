"""Completion of commands, options and values in a shell, by argcomplete."""

from __future__ import annotations

import os
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

import argcomplete
from argcomplete.shell_integration import shellcode

from hostler.cli import completing
from hostler.cli.commands import COMMANDS, Command, Function, Group, imported
from hostler.cli.declarations import Complete
from hostler.cli.parameters import Parameter, signature
from hostler.cli.server import asking
from hostler.model.errors import HostlerError, UsageError

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")


def script(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """The lines that make a shell complete `hostler`: the shell that is named, or that of the user."""
    shell = words[0] if words else Path(environ.get("SHELL", "bash")).name
    if shell not in SHELLS or len(words) > 1:
        raise UsageError(f"--show-completion takes the name of one shell: {', '.join(SHELLS)}")
    return str(shellcode(["hostler"], shell=shell))


def complete() -> None:
    """Answer a shell that asks what a word may become, and exit."""
    line = os.environ.get("COMP_LINE", "")
    argcomplete.autocomplete(_parser(line.split()[1:]), always_complete_options="long")


def _parser(words: Sequence[str]) -> ArgumentParser:
    """A parser of the commands; of options, only of the one that was typed: others need not be imported."""
    parser = ArgumentParser(prog="hostler", add_help=False)
    below = parser.add_subparsers()
    for name, each in COMMANDS.items():
        own = below.add_parser(name)
        if not words or words[0] != name:
            continue
        if isinstance(each, Command):
            _add_parameters(own, each.function)
        else:
            _add_commands(own, each, words[1:])
    return parser


def _add_commands(parser: ArgumentParser, group: Group, words: Sequence[str]) -> None:
    below = parser.add_subparsers()
    for name, function in group.commands.items():
        own = below.add_parser(name)
        if words and words[0] == name:
            _add_parameters(own, function)


def _add_parameters(parser: ArgumentParser, function: Function) -> None:
    command = signature(imported(function))
    for each in (*command.options, *command.arguments):
        action = _action(parser, each)
        if each.declared.complete is not None:
            action.completer = _completer(each.declared.complete)  # type: ignore[attr-defined]
        elif each.kind is not Path and not each.choices and not each.is_flag:
            action.completer = _nothing  # type: ignore[attr-defined]


def _action(parser: ArgumentParser, parameter: Parameter) -> Action:
    if not parameter.flags:
        return parser.add_argument(parameter.name, nargs="*" if parameter.many else "?")
    flags = [*parameter.flags, *([parameter.off_flag] if parameter.off_flag else [])]
    if parameter.is_flag:
        return parser.add_argument(*flags, action="store_true", dest=parameter.name)
    return parser.add_argument(*flags, dest=parameter.name, choices=parameter.choices or None)


def _nothing(**_: object) -> list[str]:
    """No values are known of a text; its option is offered all the same."""
    return []


def _completer(known: Complete) -> Callable[..., list[str]]:
    """Names that the controller knows; none where they do not come in time, as while a name server is waited for."""

    def completed(prefix: str, parsed_args: Namespace, **_: object) -> list[str]:
        found: list[str] = []
        thread = Thread(target=lambda: found.extend(_asked(known, prefix, parsed_args)), daemon=True)
        thread.start()
        thread.join(2 * completing.TIMEOUT_S)
        return list(found)

    return completed


def _asked(known: Complete, prefix: str, parsed_args: Namespace) -> list[str]:
    directory = getattr(parsed_args, "state_dir", None)
    typed = frozenset({"state_dir"}) if directory else frozenset[str]()
    directory = directory or os.environ.get("HOSTLER_STATE_DIR")
    with suppress(HostlerError), asking({"server": getattr(parsed_args, "server", None)}, typed):
        return known(prefix, {"state_dir": Path(directory) if directory else None})
    return []
