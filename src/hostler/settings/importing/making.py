"""From the machines of a list to nodes of a fleet file: each with a name that fits, each once."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from hostler.model.errors import SettingsError
from hostler.model.record import record
from hostler.settings.faults import checked
from hostler.settings.importing.records import LeftOut, Listing, Machine, Place
from hostler.settings.importing.ssh_args import jump_host
from hostler.settings.nodes import Node
from hostler.settings.reading import Origin, uniform

Entry: TypeAlias = Mapping[str, Any]
"""A node as it is written in a fleet file."""

HOST_MAX = 255
NAME_MAX = 64
LISTED = 5

_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_JUMP = re.compile(r"([^@\s,]+@)?(\[[^\[\]\s,]+\]|[^@\[\]\s,:]+)(:[0-9]{1,5})?")


@record
class Imported:
    """What became of a list."""

    nodes: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    """What is worth knowing: passwords that were not copied, names that were made."""


def imported(listing: Listing, only: str | None = None, class_: str | None = None) -> Imported:
    """The nodes of a list, of class `class_`; `only` those whose name, host or group fits that pattern (`rig*`)."""
    jumps = {jump_host(jump) for jump in listing.jumps.union(*(each.via or () for each in listing.machines))}
    maker = _Maker(class_, jumps, {each.name for each in listing.machines})
    machines = [each for each in listing.machines if _wanted(only, each.name, each.host, *each.groups)]
    left_out = [each for each in listing.left_out if _wanted(only, each.name)]
    left_out += [out for each in machines if (out := maker.add(each)) is not None]
    notes = (*listing.notes, *maker.renamed, *_secret_notes(machines), *_remark_notes(machines))
    return Imported(nodes=tuple(maker.entries), left_out=tuple(left_out), notes=notes)


def is_node_name(text: str) -> bool:
    """Whether a node or a class may be called so."""
    return _NODE_NAME.fullmatch(text) is not None


class _Maker:
    """Makes entries one by one."""

    def __init__(self, class_: str | None, jumps: set[str], names: set[str]) -> None:
        self.entries: list[Entry] = []
        self.renamed: list[str] = []
        self._class = class_
        self._jumps = jumps
        self._names = names
        self._taken: set[str] = set()
        self._next: defaultdict[str, int] = defaultdict(lambda: 2)
        self._places: dict[Place, str] = {}

    def add(self, machine: Machine) -> LeftOut | None:
        """Take a machine in, or say why not."""
        place = _place(machine)
        why = self._unneeded(machine, place) or _fault(machine)
        if why is not None:
            return LeftOut(name=machine.name, why=why)
        name = self._name(machine.name)
        self._taken.add(name)
        self._places[place] = machine.name
        self.entries.append(_entry(machine, name, self._class))
        if name != machine.name:
            self.renamed.append(
                f"{machine.name} is called {name}: names of nodes are letters, digits, . _ and -, and unique"
            )
        return None

    def _unneeded(self, machine: Machine, place: Place) -> str | None:
        if place in self._places:
            return f"the same machine as {self._places[place]}"
        if self._jumps.intersection({machine.name.lower(), (machine.host or "").lower(), place[0]}):
            return "a jump host, the way to others; add it by hand if it is to work as well"
        return None

    def _name(self, text: str) -> str:
        """A name for a node that is none yet, as near to `text` as can be."""
        own = is_node_name(text)
        base = name = text if own else _made_name(text)
        while name in self._taken or (not own and name in self._names):
            tail = f"-{self._next[base]}"
            self._next[base] += 1
            own, name = False, base[: NAME_MAX - len(tail)] + tail
        return name


def _wanted(only: str | None, *words: str | None) -> bool:
    return only is None or any(word is not None and fnmatchcase(word, only) for word in words)


def _place(machine: Machine) -> Place:
    if machine.local:
        return ("local",)
    way = "" if machine.via is None else ",".join(machine.via)
    return machine.place or ((machine.host or machine.name).lower(), str(machine.port or 22), way)


def _made_name(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text[:HOST_MAX]).encode("ascii", "ignore").decode()
    return re.sub("[^A-Za-z0-9._-]+", "-", plain).strip("._-")[:NAME_MAX] or "node"


def _entry(machine: Machine, name: str, class_: str | None) -> Entry:
    host = machine.host or (None if name == machine.name else machine.name)
    said = {
        "name": name,
        "class": class_,
        "backend": "local" if machine.local else "ssh",
        "host": None if machine.local else host,
        "port": machine.port,
        "user": machine.user,
        "identity": machine.identity,
        "via": None if machine.via is None else list(machine.via),
        "python": machine.python,
    }
    return {key: value for key, value in said.items() if value is not None}


def _fault(machine: Machine) -> str | None:
    """Why a machine cannot be a node, if so. It quotes nothing but keys: values may be anything."""
    texts = {"host": machine.host or machine.name, "user": machine.user, "identity": machine.identity}
    texts |= {"python": machine.python, "via": " ".join(machine.via or ())}
    for key, text in texts.items():
        if text is not None and not text.isprintable():
            return f"its {key} holds characters that cannot be printed"
    if len(texts["host"] or "") > HOST_MAX:
        return f"the name of its host is longer than {HOST_MAX} characters"
    if not all(map(_JUMP.fullmatch, machine.via or ())):
        return "one of its jump hosts is none; it should be [user@]host[:port]"
    try:
        checked(Node, uniform(_entry(machine, _made_name(machine.name), None), Origin("")))
    except SettingsError as error:
        keys = dict.fromkeys(line.split(": ")[1].partition("[")[0] for line in str(error).splitlines())
        return f"its {' and '.join(keys)} cannot be used"
    return None


def _secret_notes(machines: Iterable[Machine]) -> Iterator[str]:
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for machine in machines:
        for secret in machine.secrets:
            owners[secret].append(machine.name)
    for secret, names in sorted(owners.items()):
        yield f"{secret} of {_listed(names)} was not copied: Hostler logs in by keys alone, and needs no root there"


def _remark_notes(machines: Iterable[Machine]) -> Iterator[str]:
    about: defaultdict[str, list[str]] = defaultdict(list)
    for machine in machines:
        for remark in dict.fromkeys(machine.remarks):
            about[remark].append(machine.name)
    for remark, names in about.items():
        yield f"{_listed(names)}: {remark}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")
