"""The hosts of SkyPilot's SSH node pools, `~/.sky/ssh_node_pools.yaml`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from hostler.model.errors import SettingsError
from hostler.model.schemas import KeyPath, show
from hostler.settings.importing.records import LeftOut, Listing, Machine
from hostler.settings.reading import Tree

ADDRESSES = ("ip", "hostname", "host")
DEFAULTS = frozenset({"hosts", "user", "identity_file", "password"})


def listing(tree: Tree, configured: Callable[[str], bool]) -> Listing:
    """The machines of all pools. Raises `SettingsError` at the first thing that is no pool.

    `configured` says of which hosts `~/.ssh/config` tells: of those it alone says who logs in, and with which key.
    """
    found = [each for name in _mapping(tree, tree.value, ()) for each in _Pool(tree, name, configured).read()]
    return Listing(
        machines=tuple(each for each in found if isinstance(each, Machine)),
        left_out=tuple(each for each in found if isinstance(each, LeftOut)),
    )


class _Pool:
    """One pool of a file."""

    def __init__(self, tree: Tree, name: str, configured: Callable[[str], bool]) -> None:
        self._tree, self._name, self._configured = tree, name, configured
        self._said = _mapping(tree, tree.value[name], (name,))

    def read(self) -> list[Machine | LeftOut]:
        """Its hosts."""
        hosts, path = self._said.get("hosts"), (self._name, "hosts")
        if hosts is not None and not isinstance(hosts, list):
            _refuse(self._tree, path, "should be a list")
        if not hosts:
            return [LeftOut(name=self._name, why="a pool without hosts")]
        return [self._host(value, (*path, index)) for index, value in enumerate(hosts)]

    def _host(self, value: Any, path: KeyPath) -> Machine | LeftOut:
        said = {"ip": value} if isinstance(value, str) else _mapping(self._tree, value, path)
        name = next((said[key] for key in ADDRESSES if said.get(key)), None)
        if name is None:
            return LeftOut(name=self._name, why=f"{show(path)[-80:]} has no ip, by which SkyPilot would find it")
        if not isinstance(name, str):
            _refuse(self._tree, path, "its ip should be a text (put it in quotes)")
        both = {**self._said, **said}
        own = not self._configured(name)
        return Machine(
            name=name,
            origin=self._tree.at(path),
            user=self._text(both, "user", path) if own else None,
            identity=self._text(both, "identity_file", path) if own else None,
            groups=(self._name,),
            secrets=("password",) if both.get("password") else (),
        )

    def _text(self, said: Mapping[str, Any], key: str, path: KeyPath) -> str | None:
        value = said.get(key)
        if value is not None and not isinstance(value, str):
            _refuse(self._tree, (*path, key), "should be a text (put it in quotes)")
        return value or None


def _mapping(tree: Tree, value: Any, path: KeyPath) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        _refuse(tree, path, "should be a mapping")
    return value or {}


def _refuse(tree: Tree, path: KeyPath, why: str) -> NoReturn:
    raise SettingsError(f"{tree.at(path)}: {show(path)[:200]}: {why}, as SkyPilot has it")
