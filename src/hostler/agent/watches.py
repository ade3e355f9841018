"""News of batches: the small files in which berths tell that they have begun, and that they have ended."""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple

from .batches import Batch
from .loop import Loop, Timer
from .node import log
from .pace import Pace
from .protocol import Json, RequestError, decode
from .shared import names

SHORTEST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
SETTLED_S = 2.0
"""For so long after its time has changed a folder is listed at every look: times are coarse."""
LISTED_EVERY_S = 5.0
"""Over NFS the time of a folder may be an old one, for up to a minute; a listing is not."""
_NEWS = re.compile(r"(\d{1,9})\.(\d{1,9})\.(began|ended)\Z")


class Watch:
    """One batch: what has been told of it, and what is known of its folder."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._told: Set[str] = set()
        self._changed: Optional[int] = None
        self._changed_at = 0.0
        self._listed_at = -LISTED_EVERY_S

    def news(self, now: float) -> Iterator[Tuple[str, Json]]:
        """What has not been told yet: the file's name, and its content. Raises OSError."""
        changed = _changed(self.batch.news)
        if changed != self._changed:
            self._changed, self._changed_at = changed, now
        is_settled = now - self._changed_at > SETTLED_S
        if is_settled and now - self._listed_at < LISTED_EVERY_S:
            return
        self._listed_at = now
        for name in names(self.batch.news):
            if name not in self._told and _NEWS.match(name):
                with open(os.path.join(self.batch.news, name), "rb") as source:
                    told = decode(source.read())
                self._told.add(name)
                yield name, told


class Watches:
    """All of them. ``tell`` is called with each piece of news."""

    def __init__(self, loop: Loop, root: str, tell: Callable[[Json], None]) -> None:
        self._loop = loop
        self._root = root
        self._tell = tell
        self._watches: Dict[str, Watch] = {}
        self._pace = Pace(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
        self._next: Optional[Timer] = None

    def watch(self, tokens: List[str]) -> None:
        """Tell all news of these batches, what is there already at once: before it is said that they are watched."""
        for token in tokens:
            self._watches[token] = Watch(Batch(self._root, token))
        self._poll()

    def unwatch(self, tokens: List[str]) -> None:
        """Tell nothing more of these."""
        for token in tokens:
            self._watches.pop(token, None)

    def _later(self, pause_s: float) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = self._loop.call_later(pause_s, self._poll)

    def _poll(self) -> None:
        has_news = [self._look(watch) for watch in list(self._watches.values())]
        pause_s = self._pace.next(any(has_news))
        if self._watches:
            self._later(pause_s)

    def _look(self, watch: Watch) -> bool:
        has_news = False
        try:
            for name, told in watch.news(self._loop.monotonic()):
                has_news = True
                task, run, what = name.split(".")
                news: Json = {"type": "news", "token": watch.batch.token, "task": int(task), "run": int(run)}
                self._tell({**news, "what": what, "told": told})
        except (OSError, RequestError) as error:  # it is looked at again
            log("cannot read the news of %s: %s" % (watch.batch.token, error))
        return has_news


def _changed(folder: str) -> Optional[int]:
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return None
