"""An Ansible inventory in the form of an INI file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from hostler.model.errors import SettingsError
from hostler.settings.importing.ansible import LOOSE, Inventory
from hostler.settings.importing.records import Listing
from hostler.settings.reading import Origin

_SECTION = re.compile(r"\[([^:\[\]\s]+)(?::([^:\[\]\s]+))?\]\s*(?:[#;].*)?")
_VARIABLE = re.compile(r"([^=\s]+)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(["'])(.*?)\1\s*(?:#.*)?""")


def listing(text: str, source: str) -> Listing:
    """The machines of the inventory. Raises `SettingsError` at the first line that is none of it."""
    inventory, group, kind = Inventory(), LOOSE, "hosts"
    for origin, line in _lines(text, source):
        section = _SECTION.fullmatch(line)
        if section is not None:
            group, kind = section[1], section[2] or "hosts"
            inventory.group(group)
            if kind not in ("hosts", "children", "vars"):
                raise SettingsError(f"{origin}: [{group}:{kind}] is unknown; there are [{group}:children] and :vars")
        elif kind == "children":
            _child(inventory, group, line, origin)
        elif kind == "vars":
            name, value = _variable(line, origin)
            inventory.group(group).variables[name] = value
        else:
            _host(inventory, group, line, origin)
    return inventory.listing(source)


def _lines(text: str, source: str) -> Iterator[tuple[Origin, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        said = line.strip()
        if said and said[0] not in "#;":
            yield Origin(source, number, len(line) - len(line.lstrip()) + 1), said


def _child(inventory: Inventory, group: str, line: str, origin: Origin) -> None:
    name, _, more = line.partition("#")[0].strip().partition(" ")
    if more.strip():
        raise SettingsError(f"{origin}: below [{group}:children] stands one group a line")
    inventory.child(group, name)


def _host(inventory: Inventory, group: str, line: str, origin: Origin) -> None:
    try:
        first, *rest = shlex.split(line, comments=True)
    except ValueError as error:
        raise SettingsError(f"{origin}: a quotation mark is not closed, or a backslash stands at the end") from error
    if not first.strip():
        raise SettingsError(f"{origin}: the name of a host is empty")
    pairs = [word.partition("=") for word in rest]
    if any(not equals or not key for key, equals, _ in pairs):
        raise SettingsError(f"{origin}: behind the name of a host stands key=value, with quotes around spaces")
    inventory.add(first, origin, group, {key: value for key, _, value in pairs})


def _variable(line: str, origin: Origin) -> tuple[str, str]:
    found = _VARIABLE.fullmatch(line)
    if found is None:
        raise SettingsError(f"{origin}: below [GROUP:vars] stands key=value")
    quoted = _QUOTED.fullmatch(found[2])
    return found[1], found[2].partition(" #")[0].strip() if quoted is None else quoted[2]
