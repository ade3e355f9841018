"""What is known of batches and of their tasks, each an allocation that an agent runs in: a berth. No I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TypeAlias

from hostler.agent.protocol import ALLOCATION_ENDS
from hostler.backends.base import Facts
from hostler.backends.channel import Channel
from hostler.backends.slurm.desk import News
from hostler.backends.slurm.resources import warning_s
from hostler.backends.slurm.states import Outcome
from hostler.model import pools
from hostler.model.batch import Ask
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.inputs import Ended, Input, Returned, Searched
from hostler.model.pools import BatchTask, Mode, SlotPhase, SlotSeen, Span
from hostler.model.record import entity, record

SLACK_S = 65.0
"""Slurm warns up to a minute before it was asked to."""
MARGIN_S = 90.0
"""What is left of an allocation when nothing more is begun in it."""


@record
class Stop:
    """Something that is to end."""

    why: str
    by: float
    """When its time of grace is over, by the clock here."""


@entity
class Berth:
    """One task of a batch."""

    token: str
    task: int
    slot: str
    orders: dict[str, AttemptOrder | None] = field(default_factory=dict)
    """What was put here and has not ended, by attempt; of what an earlier controller put here, the name alone."""
    workers: dict[str, WorkerOrder] = field(default_factory=dict)
    chunks: dict[str, tuple[str, ChunkOrder]] = field(default_factory=dict)
    """Chunks that have not come back, each with its worker."""
    found: dict[str, bool] = field(default_factory=dict)
    """Chunks of an earlier controller in its agent's journal, and whether they have not come back since."""
    stops: dict[str, Stop] = field(default_factory=dict)
    """Attempts and chunks that are to end: what its agent has not taken up is not asked for anew."""
    unsaid: list[Facts] = field(default_factory=list)
    """Requests to the agent for when it can be reached."""
    phase: SlotPhase = SlotPhase.ASKED
    says: str = "it is being submitted"
    stuck: bool = False
    """Whether it may wait for ever for the reason that is said."""
    run: int | None = None
    """The newest run that began."""
    began_at: float | None = None
    """By the clock here."""
    ends_at: float | None = None
    over_at: float | None = None
    """The same by the clock of its host, or of the cluster."""
    ended: Facts | None = None
    """What that run said at its end, or what there is to say of it."""
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)
    channel: Channel | None = None
    heard_at: float | None = None
    """When its agent last said anything, by the clock here."""
    declared: set[str] = field(default_factory=set)
    """Workers that were declared on this channel."""
    told: int = 0
    """Number of the last fact of this run that was passed on."""
    held_back: list[Ended] = field(default_factory=list)
    """Ends that only the cluster can explain."""
    cancelled_at: float | None = None
    """When the cluster was last told to end it because something in it did not."""
    unwanted: str | None = None
    """Why we had the cluster end it."""
    barred: bool = False
    """Whether its task is claimed by nobody, so that it finds nothing to do should it begin."""
    listed: tuple[str, ...] = ()
    """What the queue calls it until it says that it has begun; several names where it was submitted more than once."""
    missing_since: float | None = None
    """Since when the cluster's queue does not have it any more."""
    seen: set[int] = field(default_factory=set)
    """Runs that began."""
    coming: list[News] = field(default_factory=list)
    """Runs that began while the one before was still being followed."""
    ends: dict[int, Facts] = field(default_factory=dict)
    """What runs said at their ends."""
    adopted: dict[str, int] = field(default_factory=dict)
    """Attempts that a later run has which is not followed yet, and which of them."""
    following: bool = False
    """Whether somebody attends its run, or finds out what became of it."""
    over: bool = False

    @property
    def holds(self) -> bool:
        """Whether anything here has not come back."""
        return bool(self.orders or self.chunks)

    @property
    def wanted(self) -> bool:
        """Whether anything here has not come back that was not asked to."""
        return any(name not in self.stops for name in (*self.orders, *self.chunks))

    def has(self, name: str) -> bool:
        """Whether an attempt or a chunk is here of which nobody was told yet that it has come back."""
        if name in self.orders or name in self.chunks or name in self.adopted:
            return True
        return any(each.attempt == name for each in self.held_back)

    def awaits(self, name: str) -> bool:
        """Whether its agent has not said yet how an attempt or a chunk has ended."""
        return name in self.orders or name in self.chunks

    @property
    def is_up(self) -> bool:
        """Whether a run of it goes on, as far as anybody knows."""
        return self.run is not None and self.ended is None and not self.over

    @property
    def waits(self) -> bool:
        """Whether no run of it has begun, as far as anybody knows."""
        return self.run is None and not self.following and not self.over

    def lasts(self, needed_s: float, now: float) -> bool:
        """Whether so much may be begun here."""
        if self.over or self.ended is not None or self.unwanted is not None:
            return False
        return self.ends_at is None or self.ends_at - now >= needed_s + MARGIN_S

    def begin(self, run: int, told: Facts, now: float, time_s: float) -> None:
        """A run has begun; it may be over by now."""
        self.run, self.began_at, self.ended, self.told = run, now, None, 0
        self.channel, self.missing_since, self.heard_at = None, None, None
        self.cancelled_at = None
        self.has_ended.clear()
        self.declared.clear()
        self.held_back.clear()
        self.stuck, self.phase, self.says = False, SlotPhase.UP, f"RUNNING on {told.get('host')}"
        self.ends_at, self.over_at = _time_of(told, now, time_s)
        self.orders |= {name: None for name, its in self.adopted.items() if its == run and name not in self.orders}
        self.adopted = {name: its for name, its in self.adopted.items() if its != run}
        if run in self.ends:
            self.end(self.ends[run])

    def adopt(self, name: str, run: int) -> bool:
        """An attempt is in that run, whatever was thought of it; not where what that has left was told already."""
        if name in self.adopted:
            return False  # it is in a newer one
        if run == self.run:
            self.orders.setdefault(name, None)
            return True
        if any(news.run == run for news in self.coming):
            self.orders.pop(name, None)
            self.adopted[name] = run
            return True
        return False

    def end(self, told: Facts) -> None:
        """The run is over."""
        self.ended = self.ended or told
        self.has_ended.set()

    def await_run(self) -> None:
        """The cluster begins it anew by itself: it waits, as it did at first, and may be given work."""
        self.run, self.ended, self.following = None, None, False
        self.has_ended.clear()
        self.phase, self.says = SlotPhase.WAITING, "it waits to begin anew"
        self.began_at, self.ends_at, self.over_at = None, None, None

    def forget_run(self) -> None:
        """Nobody is connected any more: what goes on there is to be found out anew."""
        self.run, self.ended, self.missing_since, self.channel, self.following = None, None, None, None, False
        self.heard_at = None
        self.has_ended.clear()
        self.seen.clear()
        self.coming.clear()
        self.ends.clear()
        self.adopted.clear()

    def forget(self, given: Input) -> None:
        """What has come back is not held here any more."""
        if isinstance(given, Ended):
            self.orders.pop(given.attempt, None)
            self.stops.pop(given.attempt, None)
        elif isinstance(given, Searched | Returned):
            self.chunks.pop(given.chunk, None)
            self.found |= {given.chunk: False} if given.chunk in self.found else {}
            self.stops.pop(given.chunk, None)

    def forget_all(self) -> None:
        """Nothing that was put here is here any more."""
        self.orders.clear()
        self.chunks.clear()
        self.found.clear()
        self.workers.clear()
        self.stops.clear()
        self.unsaid.clear()


@entity
class Batch:
    """One submission."""

    token: str
    mode: Mode
    ask: Ask | None
    """`None`: an earlier controller asked for it."""
    wants: str
    time: Span
    berths: list[Berth]
    job: str | None = None
    requested_at: float = 0.0
    taken_at: float | None = None
    """When this process heard that the cluster has it."""
    prepared: bool = False
    """Whether its folder is there, with all that is in it."""
    doubtful: bool = False
    """Whether it may have been submitted, unheard."""
    names: set[str] = field(default_factory=set)
    """Attempts and chunks that were ever put into it."""
    stays: bool = False
    """Whether its agents take one order after the other."""
    own: bool = True
    """Whether this very process prepared it: it knows the first lines that its agents are told."""

    @property
    def over(self) -> bool:
        """Whether nothing of it is left."""
        return all(berth.over for berth in self.berths)

    @property
    def unwanted(self) -> bool:
        """Whether nothing of it is wanted any more."""
        return all(berth.over or berth.unwanted is not None for berth in self.berths)

    def lasts(self, berth: Berth, needed_s: float, now: float) -> bool:
        """Whether so much may be begun in one of its tasks, which may have to begin itself."""
        return berth.lasts(needed_s, now) and (berth.ends_at is not None or self.time.seconds >= needed_s)

    def tasks(self) -> tuple[BatchTask, ...]:
        """What each task is for."""
        return tuple(BatchTask(slot=each.slot, attempts=tuple(each.orders)) for each in self.berths)

    def name_of(self, berth: Berth) -> str | None:
        """What the cluster calls one of its tasks."""
        if self.job is None:
            return None
        return self.job if len(self.berths) == 1 and self.mode == "job" else f"{self.job}_{berth.task}"

    def names_of(self, berth: Berth) -> tuple[str, ...]:
        """What is to be cancelled where one of its tasks waits: what the queue says, else what its submission said."""
        name = self.name_of(berth)
        return berth.listed or (() if name is None else (name,))

    def slot(self, berth: Berth) -> SlotSeen:
        """What is shown of one."""
        return SlotSeen(
            phase=berth.phase,
            job=self.name_of(berth),
            says=berth.says,
            stuck=berth.stuck,
            stays=self.stays,
            asked_at=self.requested_at,
            began_at=berth.began_at,
            ends_at=berth.ends_at,
        )


def from_journal(known: pools.Batch) -> Batch:
    """What an earlier controller had asked for."""
    berths = [
        Berth(token=known.token, task=number, slot=task.slot, orders=dict.fromkeys(task.attempts))
        for number, task in enumerate(known.tasks)
    ]
    return Batch(
        token=known.token,
        mode=known.mode,
        ask=None,
        wants=known.wants,
        time=known.time,
        berths=berths,
        job=known.job,
        requested_at=known.requested_at,
        stays=known.mode == "pilot",
        own=False,
    )


Place: TypeAlias = tuple[Batch, Berth]


@entity
class Holdings:
    """Everything a pool has asked of its cluster that is not over."""

    batches: dict[str, Batch] = field(default_factory=dict)
    """By token."""
    places: dict[str, Place] = field(default_factory=dict)
    """Where attempts and chunks were put; some of them have come back since."""

    def add(self, batch: Batch) -> None:
        """A batch, with what was put into its berths already."""
        self.batches[batch.token] = batch
        for berth in batch.berths:
            self.note(batch, berth, (*berth.orders, *berth.chunks))

    def remove(self, batch: Batch) -> bool:
        """It is over; whether it was there."""
        for name in batch.names:
            if name in self.places and self.places[name][0] is batch:
                del self.places[name]
        return self.batches.pop(batch.token, None) is not None

    def note(self, batch: Batch, berth: Berth, names: Iterable[str]) -> None:
        """These attempts, or chunks, were put there."""
        placed = dict.fromkeys(names, (batch, berth))
        self.places.update(placed)
        batch.names.update(placed)

    def berths(self) -> Iterator[Place]:
        """All that are not over."""
        for batch in self.batches.values():
            for berth in batch.berths:
                if not berth.over:
                    yield batch, berth

    def of(self, name: str) -> Place | None:
        """Where an attempt or a chunk is."""
        place = self.places.get(name)
        if place is None:
            return None
        if self._is_there(name, *place):
            return place
        del self.places[name]
        return None

    def sweep(self) -> None:
        """Forget where things were that have come back."""
        self.places = {name: place for name, place in self.places.items() if self._is_there(name, *place)}

    def behind(self, slot: str, needed_s: float, now: float) -> Place | None:
        """The newest allocation behind a slot that takes one order after the other, if it lasts so long."""
        found = [(batch, berth) for batch, berth in self.berths() if berth.slot == slot and batch.stays]
        return next(((batch, berth) for batch, berth in reversed(found) if batch.lasts(berth, needed_s, now)), None)

    def waits(self) -> bool:
        """Whether anything that was submitted has not begun."""
        return any(
            batch.job is not None and berth.run is None and berth.unwanted is None for batch, berth in self.berths()
        )

    def slots(self) -> dict[str, SlotSeen]:
        """What stands behind each slot: of several allocations one that runs, else the newest."""
        seen: dict[str, SlotSeen] = {}
        for batch, berth in self.berths():
            for slot in berth.slot.split("+"):
                if slot not in seen or seen[slot].phase is not SlotPhase.UP:
                    seen[slot] = batch.slot(berth)
        return seen

    def _is_there(self, name: str, batch: Batch, berth: Berth) -> bool:
        return batch.token in self.batches and berth.has(name)


def is_held_back(given: Input) -> bool:
    """Whether this is an end that only the cluster can explain: it took the allocation away, for whatever reason."""
    return isinstance(given, Ended) and given.error is not None and given.error.startswith(ALLOCATION_ENDS)


def reason_of(outcome: Outcome | None, time: Span) -> str:
    """How an attempt has ended that was cut off by the end of its allocation, in the agent's words.

    Who was preempted has done nothing wrong. Who ran out of time goes on in another allocation if it has saved what it
    did; else it is tried again with more time (`short`), unless there is no more to be had.
    """
    if outcome is Outcome.PREEMPTED or (outcome is Outcome.TIMEOUT and time.saves):
        return "stopped"
    if outcome is Outcome.TIMEOUT:
        return "walltime" if time.longest else "short"
    return "memory" if outcome is Outcome.OUT_OF_MEMORY else "lost"


def has_run_out(batch: Batch, berth: Berth, now: float) -> bool:
    """Whether a run that was made to end had had all its time, but for what it is warned before."""
    if berth.ended is None or berth.ended.get("why") != "signal" or berth.ends_at is None:
        return False
    left_s, ended_at = berth.ends_at - now, berth.ended.get("at")
    if ended_at is not None and berth.over_at is not None:
        left_s = berth.over_at - ended_at  # it may be long ago
    return left_s <= warning_s(batch.time.seconds) + SLACK_S


def _time_of(told: Facts, now: float, time_s: float) -> tuple[float, float | None]:
    """When a run is over, by the clock here and by that of its host. That it has begun may be old news."""
    if told.get("at") is None:
        return now + time_s, None
    over_at = told["at"] + time_s if told.get("ends_at") is None else told["ends_at"]
    return min(now + (over_at - told["at"]), over_at), over_at
