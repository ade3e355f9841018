"""What was found as a copy was read becomes a fact, or a word about its place: the same for all who read any."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeAlias

from hostler.model.artifacts import SUFFIXES
from hostler.model.errors import FilesChanged, FilesError, LinkError
from hostler.model.inputs import CopiesTold, GivePlaceUp, Input
from hostler.runtime import places
from hostler.runtime.clock import Clock
from hostler.runtime.pacing import Stopped
from hostler.runtime.places import Places
from hostler.store import Journal, catalogue
from hostler.stores.base import Damaged, Missing, ObjectName

SAMPLE = 5
"""Copies of which one has to be there, for a place that does not say who it is."""

Tell: TypeAlias = Callable[[Input], Awaitable[object]]


class Verdicts:
    """Judges what reading came to, and tells the core what follows of copies."""

    def __init__(
        self, journal: Journal, located: Places, clock: Clock, tell: Tell, trouble: Callable[[str], None]
    ) -> None:
        self._journal = journal
        self._located = located
        self._clock = clock
        self._tell = tell
        self._trouble = trouble
        self.told = 0
        """How often something was told."""

    async def done(
        self, source: str, other: str, name: ObjectName, work: Callable[[], object], executor: Executor | None = None
    ) -> bool | None:
        """Do it in a thread; what is wrong with the copy in `source` is told, what is wrong with `other` remembered.

        Whether it was done; `None`: it was not, and nothing follows of that for the copy. The threads of `executor`
        should be for these places alone: one that hangs keeps its thread.
        """
        located = self._located[other]
        try:
            await asyncio.get_running_loop().run_in_executor(executor, work)
        except Stopped:
            return None
        except (Damaged, FilesChanged) as error:
            await self._damaged(source, name, str(error), executor)
            return False
        except Missing as error:
            return await self._missing(source, name, error, executor)
        except LinkError as error:
            return self._unknown(other, error)
        except FilesError as error:
            return self._unreadable(other, error) if source == other else self._unknown(other, error)
        except OSError as error:
            fault = FilesError(f"{name.path} cannot be read or written: {error}")
            return self._unreadable(other, fault) if source == other else self._unknown(other, fault)
        places.answered(located, self._clock.now(), took=source != other)
        return True

    async def say(self, told: CopiesTold) -> None:
        """Tell the core."""
        self.told += 1
        await self._tell(told)

    async def give_up(self, place: GivePlaceUp) -> None:
        """Tell the core that nothing lies there any more."""
        self.told += 1
        await self._tell(place)

    def known(self, place: str, count: int = SAMPLE) -> list[ObjectName]:
        """Some of what is believed to lie in a place, from all over it; waits."""
        beginnings = [secrets.token_hex(4) for _ in range(count - 1)] + ["0"]
        with self._journal.catalogue() as connection:
            found = catalogue.by_name(connection, catalogue.some_in(connection, place, beginnings))
        return [ObjectName(name, SUFFIXES[each.kind]) for name, each in found.items()]

    def look(self, place: str) -> None:
        """Ask a place who it is, and for its room; waits."""
        places.look(self._located[place], self._clock, lambda: self.known(place))

    async def _damaged(self, place: str, name: ObjectName, why: str, executor: Executor | None) -> None:
        store = self._located[place].store
        try:
            await asyncio.get_running_loop().run_in_executor(executor, store.set_aside, name)
        except (FilesError, LinkError, OSError) as error:  # it counts no more all the same
            self._trouble(f"a damaged copy stays where it is: {error}")
        await self.say(CopiesTold(place=place, damaged=(name.sha256,), why=why))

    async def _missing(self, place: str, name: ObjectName, error: Missing, executor: Executor | None) -> bool | None:
        """It is gone where the place is the one that had it; what is not mounted proves nothing."""
        recognise = partial(places.recognise, self._located[place], lambda: self.known(place))
        try:
            await asyncio.get_running_loop().run_in_executor(executor, recognise)
        except (LinkError, FilesError) as doubt:
            return self._unknown(place, doubt)
        except OSError as doubt:
            return self._unknown(place, FilesError(f"it cannot be read: {doubt}"))
        await self.say(CopiesTold(place=place, gone=(name.sha256,), why=str(error)))
        return False

    def _unreadable(self, place: str, error: FilesError) -> bool | None:
        """One that cannot be read says nothing of the room for others: it would be in their way for ever."""
        self._located[place].trouble = str(error)
        return None

    def _unknown(self, place: str, error: LinkError | FilesError) -> bool | None:
        """Not to be able to read proves nothing of what lies there."""
        places.failed(self._located[place], error, self._clock.now())
        return None
