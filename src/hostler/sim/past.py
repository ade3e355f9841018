"""Jobs that have left the core's state, in a journal that lies in memory."""

from __future__ import annotations

from collections.abc import Iterable

from hostler.core import Core, past
from hostler.model.inputs import Input, Knowing
from hostler.model.past import Looked, PastJob


class PastShelf:
    """What `runtime.past` is to a real controller, which waits where this one looks at what is under way, too."""

    def __init__(self) -> None:
        self.jobs: dict[str, PastJob] = {}
        """As the journal has them."""
        self._leaving: dict[str, PastJob] = {}

    def leave(self, jobs: Iterable[PastJob]) -> None:
        """Jobs have left, and are on their way to the journal."""
        self._leaving |= {each.id: each for each in jobs}

    def written(self, jobs: Iterable[PastJob]) -> None:
        """They are in the journal."""
        self.jobs |= {each.id: each for each in jobs}

    def lost(self) -> None:
        """A controller has died: what was on its way has never left."""
        self._leaving.clear()

    def knowing(self, core: Core, given: Input) -> Input:
        """An input with what is known of the jobs that it names."""
        names = past.named(given)
        if not names:
            return given
        by_name = {name: each for each in (self.jobs | self._leaving).values() for name in (each.id, each.key)}
        found: dict[str, PastJob] = {}
        wanted = past.unknown(core.state, names)
        while more := {each.id: each for name in wanted if (each := by_name.get(name)) is not None}:
            found |= more
            wanted = past.needed(core.state, found.values())
        return Knowing(given=given, looked=Looked(at=core.state.past.seq, jobs=tuple(found.values())))  # type: ignore[arg-type]
