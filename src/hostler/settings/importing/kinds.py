"""What a list of machines is, by what is in it; and the machines in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from hostler.model.errors import SettingsError
from hostler.settings.importing import ansible_ini, ansible_yaml, skypilot, ssh_config
from hostler.settings.importing.records import Listing
from hostler.settings.importing.ssh_config import Include
from hostler.settings.reading import Tree, read_text

Kind: TypeAlias = Literal["ssh", "ansible", "skypilot"]
Form: TypeAlias = Literal["ssh", "ini", "yaml"]

ANSIBLE_TAGS = frozenset({"!vault", "!vault-encrypted", "!unsafe"})

_YAML = re.compile(r"""---|\{|%YAML|("[^"]*"|'[^']*'|[^\s:=\[\]]+)\s*:(\s|$)""")
_PAIR = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\.")
"""A character that JSON writes as two, which YAML does not know; or another escape."""
_SECTION = re.compile(r"\[[^\[\]]+\]\s*([#;].*)?")
_OF_SSH = re.compile(r"(host|match|include)(\s*=\s*|\s+)[^\s=]+", re.IGNORECASE)
_OF_ANSIBLE = re.compile(r"\S+(\s+[^\s=]+=.*)?")


def listing(
    text: str, source: str, kind: Kind | None, include: Include, configured: Callable[[str], bool]
) -> tuple[Kind, Listing]:
    """What a text is (`kind` of `None`: whatever it looks like), and its machines.

    `include` gives what a configuration of SSH includes, `configured` says of which hosts the usual one tells. Raises
    `SettingsError` with the place of what cannot be read, and where the text is none of them.
    """
    _refuse_others(text, source)
    lines = list(_significant(text))
    form = _form(lines, source, kind)
    if form is None:
        return kind or "ssh", Listing()
    if form == "ssh":
        return "ssh", ssh_config.listing(text, source, include)
    if form == "ini":
        return "ansible", ansible_ini.listing(text, source)
    text = _PAIR.sub(_joined, text) if lines[0][1].startswith("{") else text
    tree = read_text(text, source, ANSIBLE_TAGS)
    if tree.value is None:
        return kind or "ansible", Listing()
    if (kind or _kind(tree)) == "skypilot":
        return "skypilot", skypilot.listing(tree, configured)
    return "ansible", ansible_yaml.listing(tree, source)


def _joined(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[0]
    return f"\\U{0x10000 + ((int(escape[1], 16) & 0x3FF) << 10) + (int(escape[2], 16) & 0x3FF):08x}"


def _refuse_others(text: str, source: str) -> None:
    if text.startswith("$ANSIBLE_VAULT;"):
        raise SettingsError(f"{source}:1: is locked by ansible-vault; give what `ansible-vault view {source}` prints")
    if text.startswith(("#!", "\x7fELF")):
        raise SettingsError(
            f"{source}:1: is a program, which is not run here; run `{source} --list` yourself, and give what it prints"
        )


def _significant(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        said = line.strip()
        if said and said[0] not in "#;":
            yield number, said


def _form(lines: list[tuple[int, str]], source: str, kind: Kind | None) -> Form | None:
    """How it is written; `None`: nothing is."""
    if not lines:
        return None
    if kind in ("ssh", "skypilot"):
        return "ssh" if kind == "ssh" else "yaml"
    if _YAML.match(lines[0][1]):
        return "yaml"
    if kind == "ansible" or any(_SECTION.fullmatch(line) for _, line in lines):
        return "ini"
    if any(_OF_SSH.match(line) and "ansible_" not in line for _, line in lines):
        return "ssh"
    strange = next((number for number, line in lines if not _OF_ANSIBLE.fullmatch(line)), None)
    if strange is None:
        return "ini"
    raise SettingsError(
        f"{source}:{strange}: is neither a configuration of SSH, nor an Ansible inventory, nor SkyPilot's node pools; "
        "say by `--from` what it is"
    )


def _kind(tree: Tree) -> Kind:
    value, origin = tree.value, tree.at(())
    if not isinstance(value, dict):
        raise SettingsError(f"{origin}: is neither an Ansible inventory nor SkyPilot's SSH node pools: {_hint(value)}")
    if isinstance(value.get("nodes"), list):
        raise SettingsError(f"{tree.key(('nodes',))}: is a fleet file already, as it looks; give it to `hostler check`")
    return "skypilot" if value and all(map(_is_pool, value.values())) else "ansible"


def _hint(value: Any) -> str:
    return "it is a list, as playbooks are" if isinstance(value, list) else "it should be a mapping"


def _is_pool(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("hosts"), list) and value.keys() <= skypilot.DEFAULTS
