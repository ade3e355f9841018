"""What waits in the cluster's queue, and whether it may wait for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.model.pools import SlotSeen

from .scripted import until
from .stage import Stage, order, stage

pytestmark = pytest.mark.usefixtures("quick")


async def _shown(it: Stage, says: str) -> SlotSeen:
    found: SlotSeen = await until(lambda: (slot := it.slot()) and slot.says.startswith(says) and slot)
    return found


async def test_a_reason_without_hope_is_told_from_others(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        it.job(token).reason = "Priority"
        assert not (await _shown(it, "PENDING (Priority)")).stuck
        it.job(token).reason = "QOSNotAllowed"
        assert (await _shown(it, "PENDING (QOSNotAllowed): the partition takes no jobs of this `qos`")).stuck
        assert it.table.cancelled == [], "that is for people to decide"
        await it.begun(token)
        assert not (await _shown(it, "RUNNING")).stuck
