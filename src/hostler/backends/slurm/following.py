"""What becomes of berths: news of their runs, looks at the queue, and the end of it all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from typing import Any

from hostler.backends.outbox import Outbox
from hostler.backends.slurm.attending import Attendant
from hostler.backends.slurm.berths import Batch, Berth, Holdings, Place
from hostler.backends.slurm.cancelling import Canceller, bar
from hostler.backends.slurm.cluster import Cluster, Key, Look, Verdict, name_in_queue
from hostler.backends.slurm.desk import News
from hostler.backends.slurm.overdue import overdue
from hostler.backends.slurm.parsing import QueueRow
from hostler.backends.slurm.states import HOPELESS, Outcome, Phase, State
from hostler.backends.slurm.verdicts import UNEXPLAINED_S, Verdicts
from hostler.model.inputs import Closed, Ended, Returned, Trouble
from hostler.model.pools import SlotPhase

GRACE_S = 20.0
"""How long a task may be out of the queue before it is given up: its last words come through a shared file system."""


class Follower:
    """Follows the berths of one pool, as long as its link lasts. `taken` is told how the cluster calls a batch."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        outbox: Outbox,
        holdings: Holdings,
        attendant: Attendant,
        verdicts: Verdicts,
        taken: Callable[[Batch, str], None],
        start: Callable[[Coroutine[Any, Any, object]], None],
    ) -> None:
        self._name = name
        self._cluster = cluster
        self._outbox = outbox
        self._holdings = holdings
        self._attendant = attendant
        self._verdicts = verdicts
        self._taken = taken
        self._canceller = Canceller(name, cluster, outbox)
        self._leaving: set[Key] = set()
        """Tasks that are not in the queue any more, whose last words are waited for."""
        self._start = start

    def heard(self, news: News) -> None:
        """A run has begun or ended."""
        batch = self._holdings.batches.get(news.token)
        if batch is None or not 0 <= news.task < len(batch.berths):
            return
        berth = batch.berths[news.task]
        if news.what == "ended":
            berth.ends[news.run] = news.told
            if news.run == berth.run:
                berth.end(news.told)
        elif news.run not in berth.seen:
            berth.seen.add(news.run)
            self._began(batch, berth, news)

    def looked(self, look: Look) -> None:
        """The queue was looked at: what waits and why, and what is gone from it."""
        now, listed = self._cluster.clock.now(), {token for token, _ in look.rows}
        unwanted, late = list[Place](), list[str]()
        for batch, berth in list(self._holdings.berths()):
            key = (batch.token, berth.task)
            row = look.rows.get(key)
            berth.listed = look.names.get(key, ()) or _unheard(berth, row)
            if berth.run is not None and berth.began_at is not None and berth.began_at >= look.asked_at:
                continue  # what was seen is older than what it has said itself
            if row is not None:
                self._in_queue(batch, berth, row)
                late += self._overdue(berth, row, now)
                if berth.unwanted is not None and self._canceller.due(berth.listed):
                    unwanted.append((batch, berth))
            elif batch.job is not None and (batch.taken_at is None or batch.taken_at < look.asked_at):
                verdict = look.verdicts.get(key) or _vanished(batch, berth, batch.token in listed)
                self._not_in_queue(batch, berth, verdict, now)
        if unwanted or late:
            self._start(self.cancel(unwanted, late))

    def missing(self, known: Set[Key]) -> Mapping[str, float]:
        """Jobs with tasks that are not in the queue any more, and have not said themselves that they are over."""
        return {
            batch.job: batch.requested_at
            for batch, berth in self._holdings.berths()
            if batch.job is not None
            and (batch.token, berth.task) not in known
            and (not _ended_well(berth) or self._verdicts.awaited(batch, berth))
        }

    def let_go(self, batch: Batch, berth: Berth) -> list[Place]:
        """What is to be cancelled: an allocation in which nothing is left to do, before it has begun."""
        if berth.wanted or (berth.unwanted is not None and not berth.holds):
            return []
        berth.unwanted = "nothing was left to do in it"
        return [(batch, berth)]

    async def cancel(self, places: Sequence[Place], besides: Sequence[str] = (), *, again: bool = False) -> None:
        """Have allocations that nobody wants not begin, and jobs `besides` end. Raises `LinkLost`.

        That what was put there has ended is told once it cannot begin any more: it may be begun elsewhere then. What
        the cluster has not named yet is cancelled when the queue shows it. `again`: what it was told already, too.
        """
        await bar(self._cluster.desk, places)
        for _, berth in places:
            self._tell_ends(berth)
        named = (name for batch, berth in places for name in batch.names_of(berth))
        # Meanwhile a look may have seen them wait, and have had them cancelled.
        untold = (name for name in named if again or self._canceller.untold(name))
        await self._canceller.cancel(list(dict.fromkeys([*untold, *besides])))

    def _tell_ends(self, berth: Berth) -> None:
        if berth.run is not None or berth.following:
            return  # it has begun meanwhile: it is told to end what it has, and says how that ended
        now, stops = self._cluster.clock.now(), berth.stops
        ends: list[Ended | Returned] = [
            Ended(attempt=name, ended_at=now, reason="stopped", error=stops[name].why)
            for name in berth.orders
            if name in stops
        ]
        ends += [
            Returned(chunk=name, reason="recalled", error=stops[name].why) for name in berth.chunks if name in stops
        ]
        for each in ends:
            berth.forget(each)
        self._outbox.post(*ends)

    async def close(self, batch: Batch) -> None:
        """A batch of which nothing is left."""
        if self._holdings.remove(batch):
            self._outbox.post(Closed(node=self._name, token=batch.token, why="all of it is over"))
            await self._cluster.desk.unwatch([batch.token])

    def _began(self, batch: Batch, berth: Berth, news: News) -> None:
        if batch.job is None:
            # The answer of the submission has not come, or was lost: here it is.
            self._taken(batch, str(news.told.get("array_job") or news.told["job"]))
        if berth.following:
            berth.coming.append(news)
            berth.end({"why": "requeued"})
            self._verdicts.tell(batch, berth, _requeued(batch, berth))
            return
        self._begin(batch, berth, news)
        berth.following = True
        self._start(self._follow(batch, berth))

    def _begin(self, batch: Batch, berth: Berth, news: News) -> None:
        berth.begin(news.run, news.told, self._cluster.clock.now(), batch.time.seconds)

    async def _follow(self, batch: Batch, berth: Berth) -> None:
        """Attend its runs, one after the other, until there is none, for now or for good."""
        while True:
            await self._attendant.attend(batch, berth)
            again = _requeued(batch, berth) if berth.coming else None
            verdict = await self._attendant.settle(batch, berth, again)
            self._verdicts.forget(batch, berth)
            if not berth.coming:
                break
            self._begin(batch, berth, berth.coming.pop(0))
        berth.following = False
        if verdict is None or not verdict.again:
            await self._over(batch, berth)
            return
        berth.await_run()
        if not batch.stays:
            await self.cancel(self.let_go(batch, berth))

    async def _conclude(self, batch: Batch, berth: Berth, verdict: Verdict) -> None:
        """A berth that has not begun, or not anew, never will."""
        await self._attendant.settle(batch, berth, verdict)
        await self._over(batch, berth)

    async def _over(self, batch: Batch, berth: Berth) -> None:
        berth.over = True
        if batch.over:
            await self.close(batch)

    def _in_queue(self, batch: Batch, berth: Berth, row: QueueRow) -> None:
        berth.missing_since = None
        if batch.job is None:
            self._taken(batch, row.array or row.job)
        waits = row.state.phase is Phase.WAITING
        if berth.run is None or waits:
            berth.says = _said(row) if waits else row.state.text
            berth.stuck = waits and row.reason in HOPELESS
        if berth.run is None:
            berth.phase = SlotPhase.UNKNOWN if row.state.phase is Phase.UNKNOWN else SlotPhase.WAITING
        elif row.ends is not None and row.state.phase is Phase.RUNNING:  # of what is ending, it is no more the limit
            berth.ends_at = berth.over_at = row.ends
        if waits and berth.following:
            # It was taken off its host, and waits to begin anew: nothing of its run goes on.
            self._verdicts.tell(batch, berth, _requeued(batch, berth))
            berth.end({"why": "requeued"})

    def _overdue(self, berth: Berth, row: QueueRow, now: float) -> list[str]:
        """What of it is to be cancelled because something in it does not end."""
        late = overdue(berth, now)
        if not late:
            return []
        berth.cancelled_at, name = now, name_in_queue(row, berth.task)
        words = f"{', '.join(late)}: asked to end, and not heard to have; job {name} ({row.state.text}) is cancelled"
        self._outbox.post(Trouble(where=f"node {self._name}", what=words))
        return [name]

    def _not_in_queue(self, batch: Batch, berth: Berth, verdict: Verdict | None, now: float) -> None:
        berth.missing_since = berth.missing_since or now
        missing_s = now - berth.missing_since
        if verdict is not None and verdict.state.phase is Phase.UNKNOWN:
            return
        if verdict is not None and not verdict.state.over:
            verdict = None  # accounting comes later than the queue; of what slurmctld has forgotten, it hears no end
        if verdict is not None:
            self._verdicts.answer(batch, berth, verdict)
        if berth.following and berth.ended is not None:
            return
        # Who still talks is not gone, whatever the cluster knows.
        if verdict is None and now - max(berth.missing_since, berth.heard_at or 0.0) >= UNEXPLAINED_S:
            verdict = _unexplained(batch, berth)
        key = (batch.token, berth.task)
        if verdict is not None and key not in self._leaving:
            self._leaving.add(key)
            self._start(self._gone(batch, berth, verdict, max(GRACE_S - missing_s, 0.0)))

    async def _gone(self, batch: Batch, berth: Berth, verdict: Verdict, within_s: float) -> None:
        """It is not in the queue any more, and has not said that it ended: what it says may be on its way."""
        runs = len(berth.seen)
        try:
            if berth.unwanted is None:
                await self._cluster.clock.sleep(within_s)
        finally:
            self._leaving.discard((batch.token, berth.task))
        if berth.over or len(berth.seen) != runs or (berth.following and berth.ended is not None):
            return
        if berth.missing_since is None:
            return  # it is back
        if berth.following:
            self._verdicts.tell(batch, berth, verdict)
            berth.end({"why": "gone"})
        else:
            berth.following = True
            await self._conclude(batch, berth, verdict)


def _ended_well(berth: Berth) -> bool:
    """Whether nobody needs the cluster to know how it ended."""
    return berth.following and berth.ended is not None and not berth.holds and not berth.held_back


def _unheard(berth: Berth, row: QueueRow | None) -> tuple[str, ...]:
    """What the queue calls a task that runs, by the queue, and has not said so: its host may hang."""
    if row is None or berth.run is not None or row.state.phase is Phase.ENDING:
        return ()
    return (name_in_queue(row, berth.task),)


def _said(row: QueueRow) -> str:
    """What the queue says of a task that waits; and what is wrong, where it may wait for ever."""
    if not row.reason or row.reason == "None":
        return row.state.text
    wrong = HOPELESS.get(row.reason)
    return f"{row.state.text} ({row.reason})" + (f": {wrong}" if wrong else "")


def _vanished(batch: Batch, berth: Berth, listed: bool) -> Verdict | None:
    """A task that was cancelled before it began leaves no trace while others of its array go on."""
    if berth.run is not None or not (listed or berth.unwanted is not None):
        return None
    state = State(text="CANCELLED", phase=Phase.OVER, outcome=Outcome.CANCELLED)
    return Verdict(state=state, words=f"Slurm job {batch.name_of(berth)} was CANCELLED before it began")


def _unexplained(batch: Batch, berth: Berth) -> Verdict:
    state = State(text="unknown", phase=Phase.UNKNOWN)
    words = f"Slurm has job {batch.name_of(berth)} no more, and does not say what became of it"
    return Verdict(state=state, words=words)


def _requeued(batch: Batch, berth: Berth) -> Verdict:
    state = State(text="REQUEUED", phase=Phase.WAITING, outcome=Outcome.PREEMPTED)
    words = f"Slurm took job {batch.name_of(berth)} off its host, and begins it anew"
    return Verdict(state=state, words=words, again=True)
