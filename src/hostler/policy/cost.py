"""Which provider? Preferences, price caps, what a device costs, and whether a node will live long enough.

Prices are per hour, in the currency of the fleet file; what is unknown is `None` and refuses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.rules import Cost, Preferences
from hostler.model.work import DeviceKind, WorkKind

PREFERRED = (1.0, 0.85)
"""How much the first and the last of several preferred providers are liked; those between them evenly between."""
FALLBACK = (0.7, 0.6)
UNNAMED = 0.5
AVOIDED = 0.1
"""Not 0: to avoid is not to forbid. What must not run on a node at all is said by its `work` limit."""

USUAL_LIFETIME_S = 4 * 3600.0 / math.log(2)
"""Mean life of an ephemeral node of which nobody has said more: a median of 4 h.

That is four times the median in the p3 spot trace of Bamboo (uclasystem/bamboo), the calm variant of our benchmark.
"""
SURVIVAL_MIN = 0.7
"""Least odds that a node outlives work that would be lost with it.

Work of `d` seconds that starts from nothing after each death takes `L·(e^(d/L) - 1)` seconds in the mean on nodes that
live `L` seconds in the mean; at these odds that is a fifth more than `d`.
"""

SEED_PREFERENCES: Mapping[WorkKind, Preferences] = {
    WorkKind.TRAINING: Preferences(prefer=("runpod", "nebius"), avoid=("vast",)),
    WorkKind.SELFPLAY: Preferences(prefer=("vast",), fallback=("runpod", "vultr")),
}
"""What the fleet that the product was first asked for prefers; an example, not a default."""


def liking(preferences: Preferences | None, provider: str | None) -> float:
    """How much a kind of work likes a provider, in 0..1 and never 0: preferred, fallback, not named, avoided.

    1 where nobody has said anything. A provider that is named twice counts where it is liked better.
    """
    if preferences is None or preferences == Preferences():
        return 1.0
    if provider in preferences.prefer:
        return _by_order(PREFERRED, preferences.prefer, provider)
    if provider in preferences.fallback:
        return _by_order(FALLBACK, preferences.fallback, provider)
    return AVOIDED if provider in preferences.avoid else UNNAMED


def over_cap(cost: Cost, work: WorkKind, device_price_per_h: float | None) -> str | None:
    """Why a device is too dear for a kind of work; `None`: it is not, or what it costs is unknown."""
    cap = cost.max_price_per_h.get(work)
    if cap is None or device_price_per_h is None or device_price_per_h <= cap:
        return None
    return f"costs {device_price_per_h:g} per hour, {work} may cost {cap:g}"


def device_price(node: NodeSpec, device: DeviceSpec | None = None) -> float | None:
    """Price per hour of a device of a node; where none is named, of one that is paid for. `None`: unknown.

    A node is rented for its GPUs: they share its price evenly and its CPU slots cost nothing extra. Only where it has
    no GPUs do the CPU slots share the price.
    """
    if node.price_per_h is None:
        return None
    gpus = sum(each.kind is not DeviceKind.CPU for each in node.devices)
    if gpus and device is not None and device.kind is DeviceKind.CPU:
        return 0.0
    return node.price_per_h / max(gpus or len(node.devices), 1)


def survival(lifetime_s: float, duration_s: float) -> float:
    """Odds that a node which lives `lifetime_s` in the mean is still there after `duration_s`.

    Lives are taken as exponentially distributed, so that a node's age does not matter.
    """
    if lifetime_s <= 0:
        return 1.0 if duration_s <= 0 else 0.0
    return math.exp(-max(duration_s, 0.0) / lifetime_s)


def _by_order(between: tuple[float, float], names: tuple[str, ...], name: str) -> float:
    first, last = between
    return first + (last - first) * names.index(name) / max(len(names) - 1, 1)
