"""Durable memory: the journal and what is projected from it. Start reading at `journal.Journal`."""

from hostler.store.dialect import Place, named
from hostler.store.journal import Batch, Journal, Snapshot
from hostler.store.leading import Claim, Leader
from hostler.store.opening import open_journal, read_journal

__all__ = ["Batch", "Claim", "Journal", "Leader", "Place", "Snapshot", "named", "open_journal", "read_journal"]
