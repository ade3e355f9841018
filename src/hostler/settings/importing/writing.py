"""Nodes as the text of a fleet file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hostler.settings.importing.making import Entry, Imported

COMMENT_MAX = 160

_PLAIN = re.compile(r"[A-Za-z~/][A-Za-z0-9_./~-]*|[0-9]+(\.[0-9]+){3}")
_WORDS = frozenset({"~", "y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""What is no text to some readers of YAML."""


def fleet_text(found: Imported, source: str, class_: str | None = None, configs: Sequence[str] = ()) -> str:
    """A fleet file with the nodes; what was left out stands in comments. `configs` are to be heeded by SSH."""
    return "".join(f"{line}\n" for line in _lines(found, source, class_, configs))


def _lines(found: Imported, source: str, class_: str | None, configs: Sequence[str]) -> Iterator[str]:
    yield f"# Nodes from {comment(source)}, written by `hostler node import`."
    if configs:
        yield f"ssh: {flow({'config': list(configs)})}"
    if class_ is not None:
        yield f"classes: {{{scalar(class_)}: {{}}}}  # what goes for all of them: env, setup, python, rocm, dir, ..."
    yield "nodes:"
    yield from (f"  - {flow(node)}" for node in found.nodes)
    if found.left_out:
        yield "# Left out:"
        yield from (f"#   {comment(each.name)}: {comment(each.why)}" for each in found.left_out)


def flow(value: Entry | Iterable[Any]) -> str:
    """A mapping, a list, a number or a text of YAML, in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def scalar(value: object) -> str:
    """A number, or a text that every reader of YAML takes for one."""
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + "".join(_escaped(each) for each in text) + '"'


def _escaped(character: str) -> str:
    return f"\\{character}" if character in '"\\' else _visible(character)


def comment(text: str) -> str:
    """A text from anywhere as a part of a comment."""
    seen = "".join(map(_visible, text[: COMMENT_MAX + 1]))
    return seen if len(seen) <= COMMENT_MAX else seen[: COMMENT_MAX - 1] + "…"


def _visible(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
