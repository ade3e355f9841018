"""What lay in the state directory of the controller that led before is not in this one's.

The index has said of those copies that they are in the leader's own store. What is not here is told to be gone, before
anything is deleted that was meant to have a copy there; what other places have is fetched when it is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hostler.model.artifacts import HUB
from hostler.model.errors import FilesError, StoreError
from hostler.model.inputs import CopiesTold
from hostler.runtime.clock import Clock
from hostler.runtime.holding import lacking, look_around, some_names
from hostler.runtime.places import Places
from hostler.runtime.verdicts import Verdicts
from hostler.store import Journal

AGAIN_S = 10.0
WHY = "another controller led before, and this is not in the store of the one that leads now"


async def inherit(
    journal: Journal, places: Places, verdicts: Verdicts, clock: Clock, trouble: Callable[[str], None]
) -> int:
    """Tell what is not here, as soon as that can be found out; returns how many artifacts that are."""
    while True:
        try:
            return await _told(journal, places, verdicts)
        except (StoreError, FilesError, OSError) as error:
            trouble(f"what the controller before has left cannot be told: {error}")
            await clock.sleep(AGAIN_S)


async def _told(journal: Journal, places: Places, verdicts: Verdicts) -> int:
    missing = await asyncio.to_thread(lambda: lacking(journal, look_around({HUB: places[HUB]})))
    for names in some_names(missing):
        await verdicts.say(CopiesTold(place=HUB, gone=names, why=WHY))
    return len(missing)
