"""The hint that a leader is connected: where it is gone, others wait less long before they take over."""

from __future__ import annotations

import threading
from contextlib import suppress

from hostler.model.errors import StoreError
from hostler.store import Journal


def give_hint(journal: Journal) -> None:
    """Beside everything else: a connection may take long to be made, and nobody needs to wait for a hint."""
    threading.Thread(target=_hold, args=(journal,), name="hostler-hint", daemon=True).start()


def _hold(journal: Journal) -> None:
    with suppress(StoreError):  # without it others wait a little longer
        journal.hold()
