"""The hosts of `~/.ssh/config`. Hostler reads that file by itself, so that the names alone are taken over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeAlias

from hostler.model.errors import SettingsError
from hostler.settings.importing.records import LeftOut, Listing, Machine
from hostler.settings.importing.ssh_args import hops
from hostler.settings.reading import Origin

Patterns: TypeAlias = tuple[str, ...]
Include: TypeAlias = Callable[[str, Origin], Iterable[tuple[str, str]]]
"""From a pattern of files to the source and the text of each; what is not there is not told."""

MAX_INCLUDES = 16
NEVER: Patterns = ("!*",)
GIT_SERVERS = (
    *(".github.com", ".gitlab.com", ".bitbucket.org", ".codeberg.org", ".git.sr.ht", ".gitee.com", ".dev.azure.com"),
    *(".visualstudio.com", ".hf.co", ".huggingface.co"),
)

_LINE = re.compile(r"([A-Za-z]+)(?:\s*=\s*|\s+|$)(.*)", re.DOTALL)
_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_HEEDED = frozenset({"host", "match", "include", "hostname", "user", "port", "proxyjump"})


def listing(text: str, source: str, include: Include) -> Listing:
    """The machines that a configuration of SSH names one by one. Raises `SettingsError` at a line that is none."""
    config = Config.read(text, source, include)
    machines, left_out = [], []
    for name, origin in config.names.items():
        why = _unfit(config, name)
        if why is None:
            machines.append(Machine(name=name, origin=origin, place=_place(config, name)))
        elif name != "*":
            left_out.append(LeftOut(name=name, why=why))
    return Listing(
        machines=tuple(machines),
        left_out=tuple(left_out),
        jumps=frozenset(jump for name in config.names for jump in hops(config.said(name, "proxyjump") or "")),
        notes=tuple(_notes(config)),
    )


@dataclass(slots=True)
class Block:
    """Lines that go for the hosts that match all of some lists of patterns."""

    conditions: tuple[Patterns, ...]
    options: dict[str, str] = field(default_factory=dict)

    def goes_for(self, name: str) -> bool:
        """Whether it goes for the host that was asked for by this name."""
        return all(_matches(patterns, name) for patterns in self.conditions)


@dataclass(slots=True)
class Config:
    """A configuration of SSH with all that it includes. Blocks that begin with `Match` go for nobody here."""

    blocks: list[Block]
    names: dict[str, Origin]
    """What stands behind `Host`, patterns too, with the first place of each."""
    matches: list[Origin]
    """Where blocks begin with `Match`."""

    @classmethod
    def read(cls, text: str, source: str, include: Include) -> Config:
        """The configuration in a text. Raises `SettingsError`."""
        config = cls([], {}, [])
        config._read(text, source, include, (), 0)
        return config

    def said(self, name: str, keyword: str) -> str | None:
        """What holds for a host: of everything that is said the first."""
        fitting = (block.options[keyword] for block in self.blocks if keyword in block.options and block.goes_for(name))
        return next(fitting, None)

    def knows(self, name: str) -> bool:
        """Whether a block was written for this host, and not for every one."""
        return any(block.goes_for(name) for block in self.blocks if set(block.conditions) - {("*",)})

    def _read(self, text: str, source: str, include: Include, above: tuple[Patterns, ...], depth: int) -> None:
        if depth > MAX_INCLUDES:
            raise SettingsError(f"{source}: is included more than {MAX_INCLUDES} levels deep; does it include itself?")
        block = self._begin(above)
        for origin, keyword, words in _lines(text, source):
            if keyword == "host":
                block = self._begin((*above, words))
                self._name(block, words, origin)
            elif keyword == "match":
                block = self._begin((*above, NEVER))
                self.matches.append(origin)
            elif keyword == "include":
                for pattern in words:
                    for found, inner in include(pattern, origin):
                        self._read(inner, found, include, block.conditions, depth + 1)
                block = self._begin(block.conditions)
            else:
                block.options.setdefault(keyword, words[0])

    def _begin(self, conditions: tuple[Patterns, ...]) -> Block:
        self.blocks.append(Block(conditions))
        return self.blocks[-1]

    def _name(self, block: Block, words: Patterns, origin: Origin) -> None:
        for word in words:
            if not word.startswith("!") and (_is_pattern(word) or block.goes_for(word)):
                self.names.setdefault(word, origin)


def _lines(text: str, source: str) -> Iterator[tuple[Origin, str, Patterns]]:
    """The lines that matter here: place, keyword in small letters, and what follows it."""
    for number, line in enumerate(text.split("\n"), 1):
        said = line.strip()
        if not said or said.startswith("#"):
            continue
        origin = Origin(source, number, len(line) - len(line.lstrip()) + 1)
        found = _LINE.fullmatch(said)
        if found is None:
            raise SettingsError(f"{origin}: is no line of a configuration of SSH, which begins with a keyword")
        keyword = found[1].lower()
        if keyword in _HEEDED:
            yield origin, keyword, _words(found[1], found[2], origin)


def _words(keyword: str, text: str, origin: Origin) -> Patterns:
    words = []
    for word in _WORD.finditer(text):
        if word[0].startswith("#"):
            break
        words.append(word[1] or word[2] or "")
    else:
        if text.count('"') % 2:
            raise SettingsError(f"{origin}: {keyword}: a quotation mark is not closed")
    if not any(words):
        raise SettingsError(f"{origin}: {keyword} needs a value")
    return tuple(words)


def _matches(patterns: Patterns, name: str) -> bool:
    """Whether some pattern fits and none that begins with `!` does."""
    fitting = [each for each in patterns if fnmatchcase(name, each.removeprefix("!").replace("[", "[[]"))]
    return bool(fitting) and not any(each.startswith("!") for each in fitting)


def _is_pattern(word: str) -> bool:
    return "*" in word or "?" in word


def _unfit(config: Config, name: str) -> str | None:
    """Why a host becomes no node."""
    if _is_pattern(name):
        return "a pattern names no machine; what it says of machines holds for Hostler as well"
    host = _host(config, name)
    if f".{host}".endswith(GIT_SERVERS) or config.said(name, "user") == "git":
        return "a Git server"
    return None


def _host(config: Config, name: str) -> str:
    said = config.said(name, "hostname") or name
    return said.replace("%h", name).replace("%%", "%").lower()


def _place(config: Config, name: str) -> tuple[str, ...]:
    return _host(config, name), config.said(name, "port") or "22", config.said(name, "proxyjump") or ""


def _notes(config: Config) -> Iterator[str]:
    if "*" in config.names:
        yield "what `Host *` says stays where it is; Hostler heeds it"
    for origin in config.matches:
        yield f"{origin}: Match is left alone: hosts that it alone names are not seen"
