"""Objects as YAML that is the same whoever writes it: fields in their order, texts quoted wherever another reader of
YAML could take them for something else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from hostler.backends.kuberay.objects import Manifest

PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*\Z")
"""What no reader of YAML takes for a number, a date or a mark."""
BREAKS = frozenset("\r\x85\u2028\u2029")
"""Ends of lines that a block of text comes back with as other ones."""
WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})


def written(value: Any) -> str:
    """A value as YAML."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31, default_flow_style=False)


def stream(manifests: Iterable[Manifest]) -> str:
    """Objects as one stream of documents, as `kubectl apply -f -` takes them."""
    return "".join(f"---\n{written(each)}" for each in manifests)


class _Dumper(yaml.SafeDumper):
    """Without anchors, with lists set in."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, False)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    if "\n" in text and BREAKS.isdisjoint(text):
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    plain = PLAIN.match(text) is not None and text.lower() not in WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)
