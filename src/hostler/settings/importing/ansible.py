"""The hosts of an Ansible inventory, with the variables that say how to get there. Nothing of Ansible is needed.

The two forms of it, `ansible_ini` and `ansible_yaml`, fill in an `Inventory`; what holds for a host is found here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hostler.model.errors import SettingsError
from hostler.settings.importing.records import LeftOut, Listing, Machine
from hostler.settings.importing.ssh_args import ssh_args
from hostler.settings.reading import Origin

EVERYONE = "all"
LOOSE = "ungrouped"
MOST_HOSTS = 10_000
OVER_SSH = frozenset(
    {"ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh"}
)
ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
LOCAL = frozenset({"local", "ansible.builtin.local"})
ANY_PYTHON = frozenset({"auto", "auto_legacy", "auto_silent", "auto_legacy_silent"})

_RANGE = re.compile(r"\[(?:([0-9]{1,9}):([0-9]{1,9})|([A-Za-z]):([A-Za-z]))(?::([0-9]{1,9}))?\]")
_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+):([0-9]{1,5})")
_SECRET = re.compile(r"ansible_\w*(pass|password|passphrase)")
_TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_ANY_TEMPLATE = re.compile(r"\{[{%#]")


@dataclass(slots=True)
class Group:
    """A group of hosts, as it is written."""

    variables: dict[str, Any] = field(default_factory=dict)
    parents: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Host:
    """A host, as it is written."""

    origin: Origin
    variables: dict[str, Any] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)


class Inventory:
    """Groups and hosts. Every group is one of `all`."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {EVERYONE: Group()}
        self.hosts: dict[str, Host] = {}

    def group(self, name: str) -> Group:
        """The group of that name, made if there is none."""
        return self.groups.setdefault(name, Group())

    def child(self, parent: str, name: str) -> None:
        """Put a group into another one."""
        self.group(parent)
        if name != EVERYONE:
            self.group(name).parents.add(parent)

    def add(self, pattern: str, origin: Origin, group: str, variables: Mapping[str, Any]) -> None:
        """Put the hosts of a pattern (`rig[01:12]`, `rig:2222`) into a group; what is said later wins.

        Raises `SettingsError` for ranges that are none, or too long.
        """
        self.group(group)
        for name, port in names(pattern, origin):
            host = self.hosts.setdefault(name, Host(origin))
            host.groups.add(group)
            host.variables.update({} if port is None else {"ansible_port": port})
            host.variables.update(variables)
        if len(self.hosts) > MOST_HOSTS:
            raise SettingsError(f"{origin}: there are more than {MOST_HOSTS} hosts; split the inventory up")

    def listing(self, source: str) -> Listing:
        """The machines of the inventory. Raises `SettingsError` where groups are their own children."""
        depths = self._depths(source)
        found = [self._machine(name, host, depths) for name, host in self.hosts.items()]
        return Listing(
            machines=tuple(each for each in found if isinstance(each, Machine)),
            left_out=tuple(each for each in found if isinstance(each, LeftOut)),
        )

    def _machine(self, name: str, host: Host, depths: Mapping[str, int]) -> Machine | LeftOut:
        groups = sorted(self._around(host), key=lambda each: self._rank(each, depths))
        variables: dict[str, Any] = {}
        for group in groups:
            variables.update(self.groups[group].variables)
        variables.update(host.variables)
        named = tuple(each for each in groups if each not in (EVERYONE, LOOSE))
        return _machine(name, host.origin, variables, named)

    def _around(self, host: Host) -> set[str]:
        """All groups that a host is in, those around its own ones too."""
        found, new = {EVERYONE}, set(host.groups)
        while new:
            found |= new
            new = {parent for group in new for parent in self.groups[group].parents} - found
        return found

    def _rank(self, group: str, depths: Mapping[str, int]) -> tuple[int, int, str]:
        """Of two groups, the later one wins: the inner one, the one of higher priority, the one later by name."""
        said = _number(self.groups[group].variables.get("ansible_group_priority"))
        return depths[group], 1 if said is None else said, group

    def _depths(self, source: str) -> dict[str, int]:
        """How far each group is inside of others."""
        depths = {EVERYONE: 0}
        waiting = {name: group.parents or {EVERYONE} for name, group in self.groups.items() if name != EVERYONE}
        while waiting:
            ready = [name for name, parents in waiting.items() if parents <= depths.keys()]
            if not ready:
                listed = ", ".join(sorted(waiting)[:5])
                raise SettingsError(f"{source}: groups are children of their own children, among them {listed}")
            for name in ready:
                depths[name] = 1 + max(depths[parent] for parent in waiting.pop(name))
        return depths


def names(pattern: str, origin: Origin) -> Iterator[tuple[str, int | None]]:
    """The hosts of a pattern with the port that it says: `rig[01:12]`, `gpu-[a:f].lab:2222`. Raises `SettingsError`."""
    made = [""]
    at = 0
    for part in _RANGE.finditer(pattern):
        filling = _filling(part, origin)
        if len(made) * len(filling) > MOST_HOSTS:
            raise SettingsError(f"{origin}: the range stands for more than {MOST_HOSTS} hosts")
        made = [f"{before}{pattern[at : part.start()]}{each}" for before in made for each in filling]
        at = part.end()
    for name in (f"{before}{pattern[at:]}" for before in made):
        port = _PORT.fullmatch(name)
        bare = name if port is None else port[1]
        yield (bare[1:-1] if bare[:1] == "[" and bare[-1:] == "]" else bare), None if port is None else int(port[2])


def _filling(part: re.Match[str], origin: Origin) -> Sequence[str]:
    step = int(part[5] or 1)
    first, last = (int(part[1]), int(part[2])) if part[1] else (ord(part[3]), ord(part[4]))
    if first > last or step == 0 or (part[3] and part[3].islower() != part[4].islower()):
        raise SettingsError(f"{origin}: the range {part[0]} is empty; it goes from the smaller to the bigger end")
    numbers = range(first, last + 1, step)
    if len(numbers) > MOST_HOSTS:
        raise SettingsError(f"{origin}: the range {part[0]} stands for more than {MOST_HOSTS} hosts")
    width = len(part[1]) if part[1] and part[1].startswith("0") else 0
    return [str(each).zfill(width) if part[1] else chr(each) for each in numbers]


def _machine(name: str, origin: Origin, variables: Mapping[str, Any], groups: tuple[str, ...]) -> Machine | LeftOut:
    said = _Said(name, variables)
    connection = said.text("ansible_connection") or "ssh"
    if said.unclear:
        return LeftOut(name=name, why=said.unclear[0])
    if connection not in LOCAL | OVER_SSH:
        return LeftOut(name=name, why=f"Ansible reaches it by {connection[:40]!r}, Hostler by SSH alone")
    about_python = _Said(name, variables)  # a node does without it, if need be
    python = about_python.text("ansible_python_interpreter")
    shared = Machine(
        name=name,
        origin=origin,
        python=None if python in ANY_PYTHON else python,
        groups=groups,
        secrets=tuple(sorted(key for key in variables if _SECRET.fullmatch(key))),
        remarks=tuple(about_python.unclear),
    )
    if connection in LOCAL:
        return replace(shared, local=True)
    return _over_ssh(shared, said)


def _over_ssh(machine: Machine, said: _Said) -> Machine | LeftOut:
    args = ssh_args(" ".join(filter(None, map(said.text, ARGUMENTS))))
    host = said.text("ansible_host", "ansible_ssh_host")
    port = said.text("ansible_port", "ansible_ssh_port") or args.port
    user = said.text("ansible_user", "ansible_ssh_user", "ansible_remote_user") or args.user
    identity = said.text("ansible_ssh_private_key_file", "ansible_private_key_file") or args.identity
    if said.unclear:
        return LeftOut(name=machine.name, why="; ".join(said.unclear))
    if port is not None and _number(port) is None:
        return LeftOut(name=machine.name, why="its port is no number")
    return replace(
        machine,
        host=None if host == machine.name else host,
        port=_number(port),
        user=user,
        identity=identity,
        via=args.via,
        remarks=(*machine.remarks, *args.remarks),
    )


class _Said:
    """What the variables of one host say, templates filled in as far as they are names of other variables."""

    def __init__(self, name: str, variables: Mapping[str, Any]) -> None:
        self._variables = {**variables, "inventory_hostname": name, "inventory_hostname_short": name.partition(".")[0]}
        self.unclear: list[str] = []

    def text(self, *keys: str) -> str | None:
        """The first of some variables that is there; `None`: none is, or it cannot be told."""
        key = next((each for each in keys if each in self._variables), None)
        if key is None:
            return None
        value = _TEMPLATE.sub(self._filled, _as_text(self._variables[key]) or "")
        if _ANY_TEMPLATE.search(value) or (self._variables[key] is not None and _as_text(self._variables[key]) is None):
            self.unclear.append(f"{key} cannot be told from this file alone")
            return None
        return value or None

    def _filled(self, name: re.Match[str]) -> str:
        value = None if _SECRET.fullmatch(name[1]) else _as_text(self._variables.get(name[1]))
        return name[0] if value is None else value


def _as_text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9 else None


def _number(value: Any) -> int | None:
    text = _as_text(value)
    return int(text) if text is not None and re.fullmatch("[0-9]{1,9}", text) else None
