"""The rules of scheduling of a fleet file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hostler.model.rules import Cost, PastRules, Quota, Rules, Tier
from hostler.model.work import WorkKind
from hostler.settings.loading import Loaded
from hostler.settings.targets import alert_rules

TIERS: Mapping[str, Tier] = {"1": 1, "2": 2, "3": 3}


def rules(loaded: Loaded) -> Rules:
    """What the fleet's owner has decided about scheduling; what is not written is as `model.rules` has it."""
    fleet, asked = loaded.fleet, loaded.fleet.scheduling
    return Rules(
        shares={WorkKind(name): getattr(asked.shares, name) for name in type(asked.shares).model_fields},
        quotas=tuple(_quotas(asked.quotas or fleet.config_quotas)),
        priority=asked.priority,
        cost=Cost(
            providers=asked.cost.providers or fleet.provider_preferences,
            max_price_per_h=asked.cost.max_price_per_h,
        ),
        targets=asked.targets,
        quarantine=asked.quarantine,
        placement=asked.placement,
        past=PastRules(keep_finished=fleet.journal.keep_finished, keep_finished_s=fleet.journal.keep_finished_s),
        memory_gb=fleet.limits.memory_gb,
        alerts=alert_rules(loaded),
    )


def _quotas(written: Any) -> Iterator[Quota]:
    """Quotas of tier 1 where only patterns are written, otherwise those below each tier."""
    for name, value in written.items():
        if isinstance(value, dict):
            yield from (Quota(pattern=pattern, share=share, tier=TIERS[name]) for pattern, share in value.items())
        else:
            yield Quota(pattern=name, share=value)
