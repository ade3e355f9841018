"""One run of a berth, from its beginning to its end: what its agent is told, what it tells, what it leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog

from hostler.backends.base import Facts
from hostler.backends.bounds import SLICE, USUAL, Bounds
from hostler.backends.channel import Channel, greeted, opened, words
from hostler.backends.facts import WORDS_MAX, input_of, progress_of, returned_of, understood
from hostler.backends.outbox import Outbox
from hostler.backends.slurm.berths import Batch, Berth, Stop, has_run_out, is_held_back, reason_of
from hostler.backends.slurm.cluster import Clock, Cluster, Verdict
from hostler.backends.slurm.states import Outcome
from hostler.backends.slurm.verdicts import Verdicts
from hostler.model.commands import AttemptOrder
from hostler.model.errors import FilesError, LinkError, LinkLost, LinkRefused
from hostler.model.inputs import Ended, Input, Returned, Trouble
from hostler.model.units import duration, printable

FIRST = "first"
"""The stream whose beginning lies there before the run begins."""
UNTOLD = frozenset({None, Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED})
"""Outcomes that an allocation may have which was told that its time is over, and went before it was."""
ORDERLY = frozenset({"done", "idle", "told"})
"""Why a run ends that the cluster has not ended."""
SAID_MAX = 300
"""Characters of what a script said that are repeated."""
RESTS_S = (0.2, 1.0, 5.0, 15.0)
LEFT_TRIES = 40
"""How often more it is tried to read what a run has left, before all that is known of the cluster is asked anew."""
HERE_EVERY = 6
"""Of so many signs of life of an agent one is answered: leases are counted from the last word, and are longer."""


class Attendant:
    """Attends the runs of berths of one pool.

    `anew` is given the orders that an allocation has never taken up.
    """

    def __init__(
        self,
        name: str,
        controller: str,
        epoch: int,
        cluster: Cluster,
        outbox: Outbox,
        verdicts: Verdicts,
        anew: Callable[[Sequence[AttemptOrder]], None],
        bounds: Bounds = USUAL,
    ) -> None:
        self._bounds = bounds
        self._name = name
        self._controller = controller
        self._epoch = epoch
        self._cluster = cluster
        self._clock: Clock = cluster.clock
        self._outbox = outbox
        self._verdicts = verdicts
        self._anew = anew
        self._log = structlog.get_logger()

    async def attend(self, batch: Batch, berth: Berth) -> None:
        """Talk with the agent of the run until it has ended; what it has said last, `settle` finds in its journal."""
        talk = asyncio.create_task(self._talk(batch, berth))
        ended = asyncio.create_task(berth.has_ended.wait())
        try:
            await asyncio.wait({talk, ended}, return_when=asyncio.FIRST_COMPLETED)
            if talk.done():
                talk.result()
                await ended
        finally:
            talk.cancel()
            ended.cancel()
            berth.channel = None

    async def _talk(self, batch: Batch, berth: Berth) -> None:
        """As long as there is somebody to talk with, whatever happens to the connection."""
        tries = 0
        while True:
            channel: Channel | None = None
            try:
                channel = await self._connect(batch, berth, again=tries > 0)
                tries = 0
                channel.limit(self._bounds)
                self._say_what_waits(berth, channel)
                await self._hear(batch, berth, channel)
            except LinkRefused as error:
                self._outbox.post(Trouble(where=self._where(batch, berth), what=str(error)))
                return
            except (LinkError, FilesError) as error:
                self._log.debug("not connected to an allocation", berth=self._where(batch, berth), why=str(error))
            finally:
                berth.channel = None
                if channel is not None:
                    channel.close()
            await self._clock.sleep(RESTS_S[min(tries, len(RESTS_S) - 1)])
            tries += 1

    async def settle(self, batch: Batch, berth: Berth, verdict: Verdict | None = None) -> Verdict | None:
        """The run is over: tell what it has left, and what became of that which nobody saw end.

        Returns what the cluster says of it, where that mattered. Raises `LinkLost`.
        """
        left = await self._left(berth)
        self._take(batch, berth, [fact for fact in left["facts"] if fact["seq"] > berth.told])
        berth.told = max((fact["seq"] for fact in left["facts"]), default=berth.told)
        orderly = berth.ended is not None and berth.ended.get("why") in ORDERLY
        untouched = _untouched(berth, left) if orderly else []
        lost = [name for name in berth.orders if name not in {order.id for order in untouched}]
        if verdict is None and berth.unwanted is None and (berth.held_back or lost or not orderly):
            verdict = await self._verdicts.of(batch, berth)
        outcome, words = await self._understood(batch, berth, verdict)
        reason = "stopped" if berth.unwanted is not None else reason_of(outcome, batch.time)
        now = self._clock.now()
        ends = [replace(each, reason=reason, error=words) for each in berth.held_back]
        ends += [_lost(name, now, reason, words, berth.stops) for name in lost]
        self._outbox.post(*ends, *_returned(berth, left["chunks"], words))
        berth.held_back.clear()
        berth.forget_all()
        if untouched:
            self._anew(untouched)
        return verdict

    async def _connect(self, batch: Batch, berth: Berth, *, again: bool) -> Channel:
        desk, run = self._cluster.desk, berth.run
        assert run is not None
        prepared = batch.own and run == 0 and not again
        stream = FIRST if prepared else f"e{self._epoch}-{berth.task}-{self._cluster.next_number()}"
        streams = await desk.listen(berth.token, berth.task, run, stream, create=not prepared)
        berth.declared.clear()
        if prepared:
            berth.declared.update(berth.workers)
            return await greeted(*streams, self._epoch)
        return await opened(*streams, self._controller, self._epoch)

    def _say_what_waits(self, berth: Berth, channel: Channel) -> None:
        berth.channel = channel
        while berth.unsaid:
            channel.say(berth.unsaid.pop(0))

    async def _hear(self, batch: Batch, berth: Berth, channel: Channel) -> None:
        signs = 0
        async for message in channel.messages():
            berth.heard_at = self._clock.now()
            with understood(self._name, f"{words(message.get('type'), 40)!r}"):
                signs = self._hear_message(batch, berth, channel, message, signs)

    def _hear_message(self, batch: Batch, berth: Berth, channel: Channel, message: Facts, signs: int) -> int:
        """Take one message; how many signs of life there were."""
        kind = message.get("type")
        if kind == "facts" and message["facts"]:
            self._hear_facts(batch, berth, channel, message["facts"])
        elif kind == "progress":
            for part in progress_of(message):
                self._outbox.post(part)
        elif kind == "telemetry":
            signs += 1
            if signs % HERE_EVERY == 1:
                channel.say({"type": "here"})
        elif kind == "error":
            what = words(message["error"], WORDS_MAX)
            self._outbox.post(Trouble(where=f"agent of {berth.token} on {self._name}", what=what))
        return signs

    def _hear_facts(self, batch: Batch, berth: Berth, channel: Channel, facts: Sequence[Facts]) -> None:
        seq = facts[-1]["seq"]
        fresh = [fact for fact in facts if fact["seq"] > berth.told]
        berth.told = max(berth.told, seq)

        def acknowledge() -> None:
            # What was held back is not durable, nor is anything after it.
            if berth.channel is channel and not berth.held_back:
                with suppress(LinkError):
                    channel.say({"type": "ack", "seq": seq, "agent": channel.hello["agent"]})
                    if not batch.stays and not berth.holds:
                        channel.say({"type": "shutdown", "when": "idle"})  # nothing more is put there

        for at in range(SLICE, len(fresh) + SLICE, SLICE):
            self._take(batch, berth, fresh[at - SLICE : at], acknowledge if at >= len(fresh) else None)
        if not fresh:
            self._take(batch, berth, fresh, acknowledge)

    def _take(self, batch: Batch, berth: Berth, facts: Sequence[Facts], then: Callable[[], None] | None = None) -> None:
        told = [_as_asked(input_of(self._name, fact, self._bounds), berth.stops) for fact in facts]
        for given in told:
            berth.forget(given)
        kept = [given for given in told if is_held_back(given) and berth.unwanted is None]
        berth.held_back += [given for given in kept if isinstance(given, Ended)]
        self._outbox.post(*(given for given in told if given not in kept), then=then)

    async def _left(self, berth: Berth) -> Facts:
        if berth.run is None:
            return {"facts": [], "attempts": [], "chunks": []}
        said = ""
        for rest_s in (*RESTS_S, *(RESTS_S[-1] for _ in range(LEFT_TRIES))):
            try:
                return await self._cluster.desk.facts(berth.token, berth.task, berth.run)
            except FilesError as error:
                # Nobody can say now what is in it: results may be.
                if said != (said := f"its journal cannot be read: {error}; it is tried again"):
                    self._outbox.post(Trouble(where=f"allocation {berth.token} of {self._name}", what=said))
            await self._clock.sleep(rest_s)
        raise LinkLost(f"the journal of {berth.token} cannot be read, for as long as it was tried")

    async def _understood(self, batch: Batch, berth: Berth, verdict: Verdict | None) -> tuple[Outcome | None, str]:
        """Why the run is over, in Slurm's terms, and in words."""
        outcome, name = None if verdict is None else verdict.state.outcome, batch.name_of(berth)
        if berth.unwanted is not None:
            return outcome, berth.unwanted
        if outcome is Outcome.TIMEOUT or (outcome in UNTOLD and has_run_out(batch, berth, self._clock.now())):
            more = "there is no more for it" if batch.time.longest else "the next one is longer"
            return Outcome.TIMEOUT, f"the {duration(batch.time.seconds)} of its allocation {name} were over: {more}"
        if verdict is None:
            return None, f"its allocation {name} has ended, and the cluster does not say why"
        return outcome, verdict.words + await self._last_words(batch, berth)

    async def _last_words(self, batch: Batch, berth: Berth) -> str:
        """What the batch script said where it was that which failed."""
        if berth.run is not None and (berth.ended is None or berth.ended.get("why") != "failed"):
            return ""
        try:
            said = await self._cluster.desk.probe(f"jobs/{berth.token}/slurm-{batch.name_of(berth)}.out")
        except FilesError:
            return ""
        words = printable(" ".join((said or "").split())[-SAID_MAX:], SAID_MAX)
        return f"; its batch script said: {words}" if words else ""

    def _where(self, batch: Batch, berth: Berth) -> str:
        return f"job {batch.name_of(berth)} ({berth.token}) of {self._name}"


def _untouched(berth: Berth, left: Facts) -> list[AttemptOrder]:
    """Orders that came too late for an agent which had nothing to do, and ended."""
    begun = {str(each["id"]) for each in left["attempts"] if each["begun"]}
    kept = begun | berth.stops.keys()
    return [order for name, order in berth.orders.items() if order is not None and name not in kept]


def _as_asked(given: Input, stops: Mapping[str, Stop]) -> Input:
    """What was to end, and has not before its allocation did, has ended as it was asked to, whatever ended that."""
    if not isinstance(given, Ended) or not is_held_back(given) or given.attempt not in stops:
        return given
    return replace(given, reason="stopped", error=stops[given.attempt].why)


def _lost(attempt: str, now: float, reason: str, words: str, stops: Mapping[str, Stop]) -> Ended:
    """Of one whose end nobody saw: as it was asked to, or as its allocation."""
    asked = stops.get(attempt)
    return Ended(
        attempt=attempt,
        ended_at=now,
        reason=reason if asked is None else "stopped",
        error=words if asked is None else asked.why,
    )


def _returned(berth: Berth, held: Iterable[Sequence[Any]], words: str) -> Iterable[Returned]:
    """Chunks come back at their last checkpoint."""
    known = {str(told[0]): told[1:] for told in held}
    for chunk in berth.chunks:
        position, digest, hits = known.get(chunk, (None, None, ()))
        yield returned_of(chunk, position, digest, hits, reason="node_lost", error=words)
