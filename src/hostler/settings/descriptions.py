"""What stands below the fields of settings: their meaning, read from the source once somebody asks for a schema.

Who only loads settings needs none of it, and reading the source of every section takes longer than all else of that.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


def descriptions(section: type) -> dict[str, str]:
    """By name, the texts below the fields of a section, or of a `TypedDict`, and of what it inherits from."""
    found: dict[str, str | None] = {}
    for base in reversed(section.__mro__):
        if names := inspect.get_annotations(base).keys() if base is not BaseModel else ():
            texts = _texts(base.__module__).get(base.__name__, {})
            found.update((name, texts.get(name)) for name in names)
    return {name: text for name, text in found.items() if text is not None}


@cache
def _texts(module: str) -> Mapping[str, Mapping[str, str]]:
    """The texts below the fields of each class of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: dict(_below(node.body)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _below(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, inspect.cleandoc(words)
