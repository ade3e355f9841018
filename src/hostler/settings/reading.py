"""YAML and JSON text to plain values, strictly; and where in the text each of them is written.

Scalars mean what YAML 1.2's core schema says: `no`, `on`, `12:30` and dates are texts, `012` is twelve. Keys
are texts and occur once. Anchors, aliases, tags and second documents are refused, so a small file stays small.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from hostler.model.errors import SettingsError
from hostler.model.schemas import KeyPath, show
from hostler.model.texts import NUL_RULE
from hostler.model.units import printable

MAX_BYTES = 64 << 20
MAX_DEPTH = 32
PATH_SHOWN = 500
"""Characters of a path in a message; a file may name one of any length."""

_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from: a place in a file, lines and columns counting from 1, or something with a name."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Tree:
    """A value made of dicts, lists and scalars, with the origin of every part of it."""

    value: Any
    values: dict[KeyPath, Origin]
    keys: dict[KeyPath, Origin]
    """Where the key of a mapping's entry is written."""

    def key(self, path: KeyPath) -> Origin:
        """Where the key at `path` is written, or else its value, or else the nearest value around it."""
        return self.keys.get(path) or self.at(path)

    def at(self, path: KeyPath) -> Origin:
        """Where the value at `path` is written, or else the nearest one around it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values[path]

    def wrapped(self, key: str) -> Tree:
        """The tree as the only entry of a mapping."""
        values = {(key, *path): origin for path, origin in self.values.items()}
        keys = {(key, *path): origin for path, origin in self.keys.items()}
        return Tree({key: self.value}, {(): self.values[()], **values}, keys)


def uniform(value: Any, origin: Origin) -> Tree:
    """A tree that comes from one origin as a whole."""
    return Tree(value, dict.fromkeys(_paths(value, ()), origin), {})


def branch_at(tree: Tree, path: KeyPath) -> Tree:
    """The part of the tree at `path`, which is there."""
    value = tree.value
    for part in path:
        value = value[part]
    values = {known[len(path) :]: origin for known, origin in tree.values.items() if known[: len(path)] == path}
    keys = {known[len(path) :]: origin for known, origin in tree.keys.items() if known[: len(path)] == path}
    return Tree(value, values, keys)


def grafted(tree: Tree, path: KeyPath, branch: Tree) -> Tree:
    """The tree with `branch` in the place of what was at `path`; mappings on the way are made if they are missing."""
    around = branch.values[()]
    values = {known: origin for known, origin in tree.values.items() if known[: len(path)] != path}
    keys = {known: origin for known, origin in tree.keys.items() if known[: len(path)] != path}
    for length in range(len(path)):
        values.setdefault(path[:length], around)
    values |= {(*path, *below): origin for below, origin in branch.values.items()}
    keys |= {(*path, *below): origin for below, origin in branch.keys.items()}
    return Tree(_put(tree.value, path, branch.value), values, keys)


def read_file(path: Path) -> Tree:
    """The value in a file of UTF-8 text. Raises `SettingsError` with the place of the first fault."""
    return read_text(file_text(path), printable(str(path), PATH_SHOWN))


def file_text(path: Path) -> str:
    """The UTF-8 text of a file. Raises `SettingsError` where it cannot be read, or is none."""
    shown = printable(str(path), PATH_SHOWN)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SettingsError(
            f"{shown}: cannot be read ({error.strerror}); check the path and its permissions"
        ) from error
    return decoded(data, shown)


def decoded(data: bytes, source: str) -> str:
    """UTF-8 as text. Raises `SettingsError` with the place of the first byte that is none, and for too much."""
    if len(data) > MAX_BYTES:
        raise SettingsError(f"{source}: is longer than {MAX_BYTES >> 20} MiB; split it up")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _place(source, data[: error.start].decode("utf-8", "replace"))
        raise SettingsError(f"{place}: byte 0x{data[error.start]:02x} is no UTF-8; save the file as UTF-8") from error


def read_text(text: str, source: str, unread: Collection[str] = ()) -> Tree:
    """The value of a YAML text (JSON is YAML). Raises `SettingsError` with the place of the first fault.

    Scalars with a tag in `unread` are read as `None`; all other tags are refused.
    """
    forbidden = _FORBIDDEN.search(text)
    if forbidden is not None:
        origin = _place(source, text[: forbidden.start()])
        raise SettingsError(f"{origin}: holds the character {forbidden[0]!r}, which no YAML text may; remove it")
    try:
        return _Reader(text, source, unread).read()
    except yaml.MarkedYAMLError as error:
        raise _syntax_fault(error, text, source) from error


class _Reader:
    """One pass over the parser's events."""

    def __init__(self, text: str, source: str, unread: Collection[str]) -> None:
        # The C parser where there is one: the same language, 10 times as fast on long lists of jobs.
        loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        self._events: Iterator[Any] = yaml.parse(text, Loader=loader)
        self._source = source
        self._unread = unread
        self._values: dict[KeyPath, Origin] = {}
        self._keys: dict[KeyPath, Origin] = {}

    def read(self) -> Tree:
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            raise SettingsError(f"{self._source}: is empty; write at least {{}}")
        value = self._node(next(self._events), ())
        next(self._events)
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            self._refuse(after, "a second document begins; a file holds one")
        return Tree(value, self._values, self._keys)

    def _node(self, event: Any, path: KeyPath) -> Any:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            self._refuse(event, "anchors and aliases (& and *) are not supported; write the value out")
        unread = isinstance(event, yaml.ScalarEvent) and event.tag in self._unread
        if event.tag is not None and not unread:
            self._refuse(event, f"tags are not supported (found {event.tag[:40]!r}); remove it")
        if len(path) >= MAX_DEPTH:
            self._refuse(event, f"nested more than {MAX_DEPTH} levels deep")
        self._values[path] = self._origin(event)
        if isinstance(event, yaml.ScalarEvent):
            return None if unread else self._scalar(event)
        return self._list(path) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(path)

    def _list(self, path: KeyPath) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return items

    def _mapping(self, path: KeyPath) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else None
            if not isinstance(key, str):
                self._refuse(event, f"keys are texts; {key!r} is none (put it in quotes)")
            here = (*path, key)
            if key in entries:
                first = self._keys[here].line
                self._refuse(event, f"{show(here)[:80]}: is written twice; the first is in line {first}")
            self._keys[here] = self._origin(event)
            entries[key] = self._node(next(self._events), here)
        return entries

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.style:
            if "\0" in text:
                self._refuse(event, f"the text {NUL_RULE}")
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _FLOAT.fullmatch(text) is None and _INTEGER.fullmatch(text) is None:
            return text
        try:
            value = _number(text)
        except ValueError:
            self._refuse(event, f"a number of {len(text)} digits is too long")
        return self._refuse(event, "the number is too big") if value == math.inf or value == -math.inf else value

    def _origin(self, event: Any) -> Origin:
        return Origin(self._source, event.start_mark.line + 1, event.start_mark.column + 1)

    def _refuse(self, event: Any, why: str) -> NoReturn:
        raise SettingsError(f"{self._origin(event)}: {why}")


def _number(text: str) -> int | float:
    if _INTEGER.fullmatch(text) is None:
        return float(text)
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


def _place(source: str, before: str) -> Origin:
    """The place right behind the text `before`."""
    return Origin(source, before.count("\n") + 1, len(before) - before.rfind("\n"))


def _syntax_fault(error: yaml.MarkedYAMLError, text: str, source: str) -> SettingsError:
    mark = error.problem_mark or error.context_mark
    assert mark is not None
    line = text.split("\n")[mark.line : mark.line + 1]
    at_tab = bool(line) and line[0][mark.column : mark.column + 1] == "\t"
    context = f" ({error.context})" if error.context else ""
    why = "a tab cannot indent or separate YAML; use spaces" if at_tab else f"is no YAML: {error.problem}{context}"
    return SettingsError(f"{Origin(source, mark.line + 1, mark.column + 1)}: {why}")


def _paths(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, part in parts:
        yield from _paths(part, (*path, key))


def _put(value: Any, path: KeyPath, new: Any) -> Any:
    """A copy of `value` with `new` at `path`. What is no mapping on the way stays: its own fault will be told."""
    if not path:
        return new
    if value is not None and not isinstance(value, dict):
        return value
    entries = value or {}
    return {**entries, path[0]: _put(entries.get(path[0]), path[1:], new)}
