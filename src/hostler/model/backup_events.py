"""Facts of backups; they are journalled with all others (`events.py`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hostler.model.record import record


@record
class JournalRestored:
    """The journal goes on from a backup, or from what its database had kept of what was confirmed: what happened after
    that is not in here, but nodes may know of it.

    Numbers that may have been given since are left out: the next job is `next_job`, and attempts and chunks count on
    from `skipped` beyond what they would be.
    """

    kind: Literal["journal.restored"] = "journal.restored"
    made_at: float
    """When the backup was made; or when the last entry was written that was kept."""
    next_job: Annotated[int, Field(ge=1)]
    skipped: Annotated[int, Field(ge=0)]
