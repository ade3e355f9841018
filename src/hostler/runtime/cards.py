"""The choice among the GPUs of a node, from its settings to what backends and checks apply."""

from __future__ import annotations

from hostler.backends.selection import NO_CHOICE, Selection
from hostler.settings.nodes import GpuChoice, Node


def selection(node: Node) -> Selection:
    """The GPUs that the fleet file chooses; all of them where it chooses none."""
    chosen = node.gpus
    return Selection(only=chosen.only, exclude=chosen.exclude) if isinstance(chosen, GpuChoice) else NO_CHOICE
