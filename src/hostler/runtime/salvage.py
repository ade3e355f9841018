"""Folding a journal of which some entries are missing: what does not fit the state any more is left out, and named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hostler.core import Core
from hostler.core.snapshot import dump_state, load_state
from hostler.model.codec import dump_event
from hostler.model.errors import CorruptState
from hostler.model.events import Entry, TroubleRecorded
from hostler.store.checking import Fault

STEP = 500
"""Entries between two states that are kept: an entry that does not fit costs folding so many once more."""
SHOWN = 500


@dataclass
class Folded:
    """A core that was folded so, and what took the place of what was left out."""

    core: Core
    lost: list[tuple[Fault, Entry]] = field(default_factory=list)


def fold_what_fits(core: Core, entries: Iterable[Entry | Fault]) -> Folded:
    """Fold entries into a core; damaged ones, and those that do not fit without them, are replaced by a record of it.

    Raises `CorruptState` where the result contradicts itself.
    """
    made = Folded(core)
    base, since = dump_state(core.state), list[Entry]()
    for found in _ordered(core, entries):
        if isinstance(found, Fault):
            entry = record_of(found, made.core.state.at)
            made.lost.append((found, entry))
        else:
            entry = found
        try:
            made.core.replay([entry])
        except (CorruptState, LookupError, AttributeError, TypeError, ValueError) as error:
            # The fold may have changed a part of the state: it is built again.
            made.core = Core(load_state(base))
            made.core.replay(since)
            why = f"it does not fit what came before: {str(error).splitlines()[0]}"
            fault = Fault(seq=entry.seq, what=why, data=dump_event(entry.event).encode())
            entry = record_of(fault, made.core.state.at)
            made.lost.append((fault, entry))
            made.core.replay([entry])
        since.append(entry)
        if len(since) >= STEP:
            base, since = dump_state(made.core.state), []
    made.core.validate()
    return made


def record_of(fault: Fault, at: float) -> Entry:
    """What stands in the place of a damaged entry."""
    what = f"entry {fault.seq} was set aside: {fault.what}"[:SHOWN]
    return Entry(seq=fault.seq, at=at, event=TroubleRecorded(where="hostler journal repair", what=what))


def _ordered(core: Core, entries: Iterable[Entry | Fault]) -> Iterator[Entry | Fault]:
    """Those that the state does not have yet."""
    return (each for each in entries if each.seq > core.state.seq)
