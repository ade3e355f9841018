"""What has changed on pages that somebody looks at.

A part is stale where its mark is another than the one it was made with. Marks are made once for all who look at the
same page, as a rule `SLOWEST_SHARE` of the time at most: the more a page has to look at, the rarer. A reader gets the
marks that changed since it was told last, whatever happened in between; so nothing is kept for a reader that is slow,
and one that comes back is told all of them and misses nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from hostler.model.codec import error_words
from hostler.model.errors import HostlerError
from hostler.model.inputs import Trouble
from hostler.web.desk import Desk
from hostler.web.pages.part import Page, Part, Subject

LOOK_S = 0.2
"""How often it is asked whether the journal has grown."""
IDLE_S = 1.0
"""How often marks are made anyway: what devices tell of themselves is in no journal."""
SLOWEST_SHARE = 0.08
MOST_REST_S = 0.3
"""But never rarer than that: what happens is seen within a second."""
BEAT_S = 5.0
"""A reader hears something at least this often, and knows by that that the line is alive."""

Marks: TypeAlias = Mapping[str, str]
Key: TypeAlias = tuple[str, str | None, tuple[tuple[str, str], ...]]


@dataclass
class _Watched:
    """One page that somebody looks at."""

    page: Page
    subject: Subject
    readers: int = 0
    parts: Sequence[Part] | None = None
    marks: Marks | None = None
    over: str | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Pulse:
    """The marks of all pages that are looked at now."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._watched: dict[Key, _Watched] = {}

    async def parts(self, page: Page, subject: Subject) -> Sequence[Part]:
        """All parts of a page: those that its readers were told of, or, where nobody follows it, as they are now."""
        watched = self._watched.get(_key(page, subject))
        if watched is not None and watched.parts is not None:
            return watched.parts
        return await page.parts(self._desk, subject)

    async def follow(self, page: Page, subject: Subject, closing: asyncio.Event) -> AsyncIterator[bytes]:
        """The event stream of one reader: `marks` with those that are new, `gone` where there is nothing to see.

        Ends by `closing`.
        """
        watched = self._join(page, subject)
        told: Marks = {}
        first = True
        try:
            while not closing.is_set():
                changed = watched.changed
                if watched.over is not None:
                    yield _frame("gone", {"why": watched.over})
                    return
                if watched.marks is not None and (first or watched.marks != told):
                    yield _frame("marks", self._news(told, watched.marks, whole=first))
                    told, first = watched.marks, False
                elif not first:
                    yield _frame("beat", {"at": self._desk.status().at})
                await _either(changed, closing, BEAT_S)
        finally:
            self._leave(watched)

    def _news(self, told: Marks, marks: Marks, *, whole: bool) -> Mapping[str, object]:
        new = {name: mark for name, mark in marks.items() if told.get(name) != mark}
        gone = [name for name in told if name not in marks]
        return {"at": self._desk.status().at, "marks": new, "whole": whole, "gone": gone}

    def _join(self, page: Page, subject: Subject) -> _Watched:
        key = _key(page, subject)
        watched = self._watched.setdefault(key, _Watched(page, subject))
        watched.readers += 1
        if watched.task is None:
            watched.task = asyncio.create_task(self._watch(key, watched), name=f"watch {page.name}")
        return watched

    def _leave(self, watched: _Watched) -> None:
        watched.readers -= 1
        if not watched.readers and watched.task is not None:
            watched.task.cancel()
            key = _key(watched.page, watched.subject)
            if self._watched.get(key) is watched:
                del self._watched[key]

    async def _watch(self, key: Key, watched: _Watched) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                begun, seq = loop.time(), self._desk.status().seq
                parts = await watched.page.parts(self._desk, watched.subject)
                marks = {part.id: part.mark for part in parts}
                took = loop.time() - begun
                if marks != watched.marks:
                    watched.parts, watched.marks = parts, marks
                    _tell(watched)
                await asyncio.sleep(min(max(took / SLOWEST_SHARE - took, LOOK_S), MOST_REST_S))
                await self._growth(seq, begun + IDLE_S, loop.time)
        except HostlerError as error:
            self._end(key, watched, str(error))
        except Exception as error:  # noqa: BLE001 - recorded, and told to whoever looks
            what = error_words(error)
            self._end(key, watched, f"the controller failed to look at this page, and recorded why: {what}")
            await self._desk.tell(Trouble(where=f"page {watched.page.name}", what=what[:2000]))

    def _end(self, key: Key, watched: _Watched, why: str) -> None:
        watched.over = why
        if self._watched.get(key) is watched:
            del self._watched[key]
        _tell(watched)

    async def _growth(self, seq: int, latest: float, now: Callable[[], float]) -> None:
        """Wait until the journal is longer than that, or it is that late."""
        # The journal tells nobody that it has grown without handing all of it over, and a number costs next to nothing.
        while self._desk.status().seq == seq and now() < latest:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)


def _tell(watched: _Watched) -> None:
    told, watched.changed = watched.changed, asyncio.Event()
    told.set()


async def _either(one: asyncio.Event, other: asyncio.Event, patience_s: float) -> None:
    waiting = [asyncio.ensure_future(each.wait()) for each in (one, other)]
    try:
        await asyncio.wait(waiting, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _key(page: Page, subject: Subject) -> Key:
    return page.name, subject.name, tuple(sorted(subject.query.items()))


def _frame(event: str, value: Mapping[str, object]) -> bytes:
    return f"event: {event}\ndata: {json.dumps(value)}\n\n".encode()
