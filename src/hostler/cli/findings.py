"""What a fleet file says that cannot be, or that its owner may not have meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hostler.model.fleet import NodeSpec
    from hostler.model.rules import Rules
    from hostler.settings import Loaded


class Finding(NamedTuple):
    """One finding; what is `wrong` contradicts itself, anything else is only worth knowing."""

    wrong: bool
    text: str

    def __str__(self) -> str:
        return f"{'wrong' if self.wrong else 'note'}: {self.text}"


def findings(loaded: Loaded, now: float) -> list[Finding]:
    """What there is to say of a fleet file that could be read, at `now` in Unix seconds; what is wrong comes first."""
    from hostler.policy import programme, share
    from hostler.settings import node_spec, rules

    asked = rules(loaded)
    nodes = [node_spec(node) for node in loaded.fleet.nodes]
    configs = [config.name for config in loaded.fleet.configs]
    wrong = [Finding(True, text) for text in share.contradictions(asked.quotas, configs)]
    notes = [*_of_nodes(nodes, asked, now), *_of_providers(nodes, asked)]
    if configs and not programme.available():
        notes.append(WITHOUT_SOLVER)
    return [*wrong, *(Finding(False, text) for text in notes)]


WITHOUT_SOLVER = (
    "highspy is not installed (extra `opt`): devices are shared by deficit counters alone. Lost are the proof that "
    "quotas can be met or cannot, prices of devices that know the whole queue, and the bound of what could be achieved"
)


def _of_nodes(nodes: Sequence[NodeSpec], asked: Rules, now: float) -> Iterator[str]:
    blind = [node.name for node in nodes if any(each.model and each.vram_gb is None for each in node.devices)]
    if blind:
        yield f"video memory unknown: {_listed(blind)}; what asks for some is not put there (gpus[].vram_gb)"
    unpriced = [node.name for node in nodes if node.price_per_h is None and node.provider is not None]
    if unpriced and _looks_at_prices(nodes, asked):
        yield f"price unknown: {_listed(unpriced)}; they pass every cap and count as nothing (price_per_h)"
    over = [node.name for node in nodes if node.ends_at is not None and node.ends_at <= now]
    if over:
        yield f"gone already, by its ends_at: {_listed(over)}; nothing is put there"


def _looks_at_prices(nodes: Sequence[NodeSpec], asked: Rules) -> bool:
    return bool(asked.cost.max_price_per_h) or any(node.price_per_h is not None for node in nodes)


def _of_providers(nodes: Sequence[NodeSpec], asked: Rules) -> Iterator[str]:
    known = {node.provider for node in nodes}
    for work, preferences in asked.cost.providers.items():
        named = (*preferences.prefer, *preferences.fallback, *preferences.avoid)
        strangers = sorted({*named} - known)
        if strangers:
            yield f"providers of {work}: no node is of {', '.join(strangers)}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
