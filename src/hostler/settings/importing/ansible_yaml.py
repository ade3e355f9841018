"""An Ansible inventory in YAML, and in the JSON that `ansible-inventory --list` and dynamic inventories print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from hostler.model.errors import SettingsError
from hostler.model.schemas import KeyPath, show
from hostler.settings.importing.ansible import Inventory
from hostler.settings.importing.records import Listing
from hostler.settings.reading import Origin, Tree

META = "_meta"


def listing(tree: Tree, source: str) -> Listing:
    """The machines of the inventory. Raises `SettingsError` at the first thing that is none of it."""
    return _Walk(tree).inventory().listing(source)


class _Walk:
    """One pass over a tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._found = Inventory()

    def inventory(self) -> Inventory:
        for name, value in self._mapping(self._tree.value, ()).items():
            if name != META:
                self._group(name, value, (name,))
        hostvars = self._mapping(self._mapping(self._tree.value.get(META), (META,)).get("hostvars"), (META, "hostvars"))
        for name, value in hostvars.items():
            host = self._found.hosts.get(name)
            if host is not None:  # of others no group knows; Ansible does not, either
                host.variables.update(self._mapping(value, (META, "hostvars", name)))
        return self._found

    def _group(self, name: str, value: Any, path: KeyPath) -> None:
        group = self._found.group(name)
        if isinstance(value, list):
            value, path = {"hosts": value}, path[:-1]
        said = self._mapping(value, path)
        group.variables.update(self._mapping(said.get("vars"), (*path, "vars")))
        for host, variables, origin in self._hosts(said.get("hosts"), (*path, "hosts")):
            self._found.add(host, origin, name, variables)
        for child, inner, below in self._children(said.get("children"), (*path, "children")):
            self._found.child(name, child)
            self._group(child, inner, below)

    def _hosts(self, value: Any, path: KeyPath) -> Iterator[tuple[str, Mapping[str, Any], Origin]]:
        if isinstance(value, dict):
            for name, variables in value.items():
                yield name, self._mapping(variables, (*path, name)), self._tree.key((*path, name))
            return
        listed = [value] if isinstance(value, str) else [] if value is None else value
        if not isinstance(listed, list):
            self._refuse(path, "should be the names of hosts")
        for index, name in enumerate(listed):
            if not isinstance(name, str) or not name.strip():
                self._refuse((*path, index), "should be the name of a host")
            yield name, {}, self._tree.at((*path, index))

    def _children(self, value: Any, path: KeyPath) -> Iterator[tuple[str, Any, KeyPath]]:
        if isinstance(value, list):
            for index, name in enumerate(value):
                if not isinstance(name, str):
                    self._refuse((*path, index), "should be the name of a group")
                yield name, None, (*path, index)
            return
        for name, inner in self._mapping(value, path).items():
            yield name, inner, (*path, name)

    def _mapping(self, value: Any, path: KeyPath) -> dict[str, Any]:
        if value is not None and not isinstance(value, dict):
            self._refuse(path, "should be a mapping")
        return value or {}

    def _refuse(self, path: KeyPath, why: str) -> NoReturn:
        raise SettingsError(f"{self._tree.at(path)}: {show(path)[:200]}: {why}, as Ansible has it")
