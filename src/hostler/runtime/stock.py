"""How far replication has come, for people and instruments: what is counted now and then, and how places are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from hostler.model.artifact_views import BacklogView, KeepingView, ReplicationView, StockRow, StockView
from hostler.model.artifacts import ReplicationRules
from hostler.runtime.artifacts import Placed
from hostler.runtime.clock import Clock
from hostler.runtime.places import Located, Places, counts
from hostler.runtime.replicating import MOST, Backlog, Replicator
from hostler.store import Journal, finding
from hostler.store.finding import Sum

REST_S = 5.0
"""Between two counts there is this much time at least, and"""
REST_SHARE = 50.0
"""so many times of what the last one took: where there are millions, they are counted every few minutes."""
STALE_S = 600.0
"""It is counted again after so long though nothing was told: copies get old."""


class Stock:
    """Counts all artifacts, as often as that is cheap."""

    def __init__(
        self,
        journal: Journal,
        located: Places,
        rules: ReplicationRules,
        clock: Clock,
        trouble: Callable[[str], None],
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._journal = journal
        self._located = located
        self._rules = rules
        self._clock = clock
        self._trouble = trouble
        self._timer = timer
        self._is_stale = True
        self._said = ""
        self._places: Mapping[str, tuple[int, int]] | None = None
        self.view: StockView | None = None

    def wake(self) -> None:
        """Something was told of artifacts."""
        self._is_stale = True

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            took = await self._count_if_stale()
            await self._clock.sleep(max(REST_S, REST_SHARE * took))

    async def count(self) -> None:
        """Count now."""
        self._is_stale = False
        self.view, self._places = await asyncio.to_thread(self._counted)

    def replication(self, replicator: Replicator) -> ReplicationView:
        """How far replication has come; costs nothing that grows with the number of artifacts."""
        now = self._clock.now()
        places = (
            _keeping(name, each, now, replicator.looked_at, None if self._places is None else self._places.get(name))
            for name, each in self._located.items()
        )
        return ReplicationView(at=now, backlog=_backlog(replicator.backlog), stock=self.view, places=tuple(places))

    async def _count_if_stale(self) -> float:
        """How long it took, in seconds."""
        begun = self._timer()
        old = self.view is None or self._clock.now() - self.view.at > STALE_S
        if not (self._is_stale or old):
            return 0.0
        try:
            await self.count()
        except Exception as error:  # noqa: BLE001 - recorded once, and it is counted again later
            self._say(f"artifacts cannot be counted: {type(error).__name__}: {error}")
        else:
            self._said = ""
        return self._timer() - begun

    def _say(self, words: str) -> None:
        if words != self._said:
            self._trouble(words)
        self._said = words

    def _counted(self) -> tuple[StockView, Mapping[str, tuple[int, int]]]:
        placed = Placed(self._located, self._rules, self._clock.now())
        with self._journal.catalogue() as connection:
            sums = finding.sums(connection, placed.counting())
            by_place = finding.sums_of_places(connection)
        noted = {name: by_place.get(name, (0, 0)) for name in self._located}
        return StockView(at=placed.at, rows=tuple(_row(each, placed) for each in sums)), noted


def _row(each: Sum, placed: Placed) -> StockRow:
    return StockRow(
        kind=each.kind,
        standing=each.standing,
        artifacts=each.artifacts,
        bytes=each.bytes,
        copies=each.copies,
        wanted=each.artifacts * placed.rules.wanted[each.standing].copies,
        possible=each.artifacts * placed.counting().wanted[each.standing].copies,
        short=each.short,
        at_risk=each.at_risk,
    )


def _backlog(backlog: Backlog) -> BacklogView | None:
    if backlog.at is None:
        return None
    return BacklogView(
        at=backlog.at,
        artifacts=backlog.artifacts,
        bytes=backlog.bytes,
        at_risk=backlog.at_risk,
        oldest_due_at=backlog.oldest_due_at,
        at_least=backlog.artifacts >= MOST,
        shortfalls=backlog.shortfalls,
    )


def _keeping(
    name: str, each: Located, now: float, looked_at: float | None, noted: tuple[int, int] | None
) -> KeepingView:
    again = max(each.away_until, each.full_until)
    return KeepingView(
        name=name,
        domain=each.domain,
        keeps=counts(each, now),
        reachable=each.away_since is None,
        full=now < each.full_until,
        trouble=each.trouble,
        again_at=again if again > now else None,
        free_bytes=None if each.free_bytes is None else max(each.free_bytes - each.reserve_bytes, 0),
        looked_at=looked_at,
        bytes_per_s=each.bandwidth.bytes_per_s,
        moved_bytes=each.bandwidth.moved,
        copies=None if noted is None else noted[0],
        damaged=None if noted is None else noted[1],
    )
