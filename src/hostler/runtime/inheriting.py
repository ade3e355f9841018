"""What lay in the state directory of the controller that led before is not in this one's.

The index has said of those copies that they are in the leader's own store. What is not here is told to be gone, before
anything is deleted that was meant to have a copy there; what other places have is fetched when it is needed.
"""

from __future__ import annotations

import asyncio

from hostler.model.artifacts import HUB
from hostler.model.inputs import CopiesTold
from hostler.runtime.holding import lacking, look_around, some_names
from hostler.runtime.places import Places
from hostler.runtime.verdicts import Verdicts
from hostler.store import Journal

WHY = "another controller led before, and this is not in the store of the one that leads now"


async def inherit(journal: Journal, places: Places, verdicts: Verdicts) -> int:
    """Tell what is not here; returns how many artifacts that are. Raises `StoreError`."""
    missing = await asyncio.to_thread(lambda: lacking(journal, look_around({HUB: places[HUB]})))
    for names in some_names(missing):
        await verdicts.say(CopiesTold(place=HUB, gone=names, why=WHY))
    return len(missing)
