"""Help of the program, of its groups and of each command, for a terminal of any width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any

from hostler.cli.declarations import Option
from hostler.cli.parameters import Parameter, Required, Signature

WIDEST = 100
"""Columns that help takes at most."""
FIRST = 32
"""Columns of the names of options and arguments; what is longer has a line of its own."""
INDENT = "  "
WORD = r"""(?:[^\s'"]|'[^']*'|"[^"]*")+"""
"""A word of a shell, with the quotes in it."""
PANEL_COLUMNS = 2
PANEL_WIDTH = 80
"""Columns of the terminal that two columns of commands need."""
_KINDS: Mapping[Callable[[str], Any], str] = {int: "N", float: "NUMBER", Path: "FILE"}


def program_help(panels: Mapping[str, Mapping[str, str]], width: int) -> Iterator[str]:
    """Help of the program: panels of commands, with a few words on each.

    The first panel stands below the usage without its title: with it, all would not fit a screen of 24 lines.
    """
    yield "Usage: hostler COMMAND ...   --help of a command has examples   --version"
    for at, (title, commands) in enumerate(panels.items()):
        if at:
            yield title
        names = max(map(len, commands)) + len(INDENT)
        cells = [f"{INDENT}{name:<{names}}{about}" for name, about in commands.items()]
        columns = PANEL_COLUMNS if width >= PANEL_WIDTH else 1
        rows = -(-len(cells) // columns)
        column = max(PANEL_WIDTH // columns, *map(len, cells[:rows]))
        for row in range(rows):
            yield "".join(f"{cell:<{column}}" for cell in cells[row::rows]).rstrip()


def group_help(path: str, about: str, commands: Mapping[str, str], width: int) -> Iterator[str]:
    """Help of a group: its commands, with the first paragraph of the help of each."""
    yield f"Usage: hostler {path} COMMAND ..."
    yield ""
    yield from _paragraphs(about, width)
    yield ""
    yield "Commands:"
    yield from _entries(list(commands.items()), width)


def command_help(path: str, command: Signature, doc: str, width: int) -> Iterator[str]:
    """Help of a command: its usage, docstring, arguments and options."""
    words = " ".join(_usage(each) for each in command.arguments)
    yield f"Usage: hostler {path} [OPTIONS] {words}".rstrip()
    yield ""
    yield from _paragraphs(doc, width)
    if command.arguments:
        yield ""
        yield "Arguments:"
        yield from _entries([(each.declared.metavar or "", each.declared.help) for each in command.arguments], width)
    yield ""
    yield "Options:"
    options = [(_option(each), _meaning(each)) for each in command.options]
    yield from _entries([*options, ("-h, --help", "Show this message.")], width)


def summary(doc: str) -> str:
    """The first paragraph of a docstring, as one line."""
    return cleandoc(doc).partition("\n\n")[0].replace("\n", " ")


def _usage(argument: Parameter) -> str:
    shown = (argument.declared.metavar or "").strip("[].")
    many = "..." if argument.many else ""
    return f"{shown}{many}" if argument.default is Required else f"[{shown}{many}]"


def _option(option: Parameter) -> str:
    flags = ", ".join(each for each in (*sorted(option.flags, key=len), option.off_flag) if each is not None)
    return flags if option.is_flag else f"{flags} {_placeholder(option)}"


def _placeholder(option: Parameter) -> str:
    return option.declared.metavar or "|".join(option.choices) or _KINDS.get(option.kind, "TEXT")


def _meaning(option: Parameter) -> str:
    """What an option means, with its default, bounds and environment variable."""
    declared = option.declared
    assert isinstance(declared, Option)
    notes = []
    if option.default not in (None, Required, False, "", 0, Path()) and not option.is_flag:
        notes.append(f"default: {option.default}")
    if declared.min is not None or declared.max is not None:
        notes.append(_bounds(declared.min, declared.max))
    if declared.envvar is not None:
        notes.append(f"or ${declared.envvar}")
    if option.default is Required:
        notes.append("required")
    return declared.help + (f" [{'; '.join(notes)}]" if notes else "")


def _bounds(least: float | None, greatest: float | None) -> str:
    if greatest is None:
        return f"at least {least:g}"
    return f"at most {greatest:g}" if least is None else f"{least:g} to {greatest:g}"


def _paragraphs(doc: str, width: int) -> Iterator[str]:
    """A docstring: paragraphs in lines of the width; those with indented lines, as examples, as they are."""
    for n, paragraph in enumerate(cleandoc(doc).split("\n\n")):
        if n:
            yield ""
        lines = paragraph.splitlines()
        if any(line.startswith(" ") for line in lines):
            for line in lines:
                yield from _example(f"{INDENT}{line}", min(width, WIDEST))
        else:
            yield from textwrap.wrap(
                paragraph, min(width, WIDEST), initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False
            )


def _example(line: str, width: int) -> Iterator[str]:
    """A line of an example; one that is too long goes on below, as a shell reads it. Quoted words stay whole."""
    indent = line[: len(line) - len(line.lstrip())]
    while len(line) > width:
        ends = [match.end() for match in re.finditer(WORD, line) if indent != line[: match.end()].rstrip()]
        end = max((each for each in ends if each <= width - 2), default=None)
        if end is None:
            break
        yield f"{line[:end]} \\"
        line = f"{indent}    {line[end:].lstrip()}"
    yield line


def _entries(entries: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Names with their meanings beside them, or below where a name is long."""
    column = min(FIRST, max(len(name) for name, _ in entries) + 2 * len(INDENT))
    for name, meaning in entries:
        begin = f"{INDENT}{name}"
        if len(begin) + len(INDENT) > column:
            yield begin
            begin = ""
        yield from textwrap.wrap(
            meaning,
            min(width, WIDEST),
            initial_indent=f"{begin:<{column}}",
            subsequent_indent=" " * column,
            break_on_hyphens=False,
        )
