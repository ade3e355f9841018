"""Where a mutant is: a piece of text within a function or class of a module, found by its name and not by a line."""

from __future__ import annotations

import ast
from pathlib import Path

from hostler.model.record import record

SOURCE = Path("src/hostler")


class NotThere(Exception):
    """A mutant does not fit the code: a file, a symbol or a text has been renamed or removed."""


@record
class Place:
    """A text within a symbol."""

    file: str
    """Below `src/hostler`."""
    symbol: str
    """`Class.method`, or `function`, or the empty string: the whole module."""
    old: str
    """What is replaced. It occurs there once."""


def replaced(root: Path, place: Place, new: str) -> str:
    """The source of the file with `new` at the place. Raises `NotThere`."""
    path = root / SOURCE / place.file
    if not path.is_file():
        raise NotThere(f"there is no file {path}")
    source = path.read_text()
    start, stop = _extent(source, place)
    found = source.count(place.old, start, stop)
    if found != 1:
        raise NotThere(f"{place.file}: {place.symbol or 'the module'} has {place.old!r} {found} times, not once")
    at = source.index(place.old, start, stop)
    return source[:at] + new + source[at + len(place.old) :]


def symbol_at(source: str, line: int) -> str:
    """The name of the innermost function or class that has a line; the empty string for the module."""
    name, tree = "", ast.parse(source)
    scopes: list[tuple[str, ast.AST]] = [("", tree)]
    while scopes:
        outer, scope = scopes.pop()
        for node in ast.iter_child_nodes(scope):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                scopes.append((outer, node))
            elif _first(node) <= line <= (node.end_lineno or 0):
                name = f"{outer}.{node.name}".lstrip(".")
                scopes.append((name, node))
    return name


def _extent(source: str, place: Place) -> tuple[int, int]:
    """First and last character of a symbol, decorators included."""
    if not place.symbol:
        return 0, len(source)
    scope: ast.AST = ast.parse(source)
    for part in place.symbol.split("."):
        found = [each for each in ast.walk(scope) if _is_named(each, part)]
        if not found:
            raise NotThere(f"{place.file} has no {place.symbol}")
        scope = found[0]
    assert isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts[_first(scope) - 1], starts[scope.end_lineno or _first(scope)]


def _first(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name
