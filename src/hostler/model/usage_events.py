"""Facts of how devices were used; they are journalled with all others (`events.py`)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hostler.model.record import record


@record
class HourEnded:
    """An hour was over, and the controller lived: where nothing else happened, this is what shows it."""

    kind: Literal["hour.ended"] = "hour.ended"


UsageEvent: TypeAlias = HourEnded
