"""What led to what: each entry of the journal with the earlier one that it follows from, and those that follow from it.

The journal does not say so; what an entry is about does. An attempt ends because it ran, or because somebody asked it
to; it runs because its job was next; the job was there because somebody submitted it. Where nothing of that is known,
because it lies before the entries that are looked at, there is no cause: none is made up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from hostler.model import events
from hostler.model.access_events import RequestAccepted
from hostler.model.events import Entry, Event, job_of, subject

Thread: TypeAlias = tuple[str, str]
"""Something that goes on, and what it is called: its newest entry is what the next one follows from."""

Because: TypeAlias = Mapping[int, Sequence[int]]

ASKED = (
    events.JobSubmitted,
    events.CancelRequested,
    events.JobRetried,
    events.PriorityChanged,
    events.NodeCordoned,
    events.NodeResumed,
    events.DeviceCordoned,
    events.DeviceResumed,
    events.AlertsSilenced,
    events.AlertsUnsilenced,
    events.AlertAcknowledged,
    events.ConfigPaused,
    events.ConfigResumed,
    events.StageSpawned,
    events.ModelRolledBack,
    events.TokenCreated,
    events.TokenRevoked,
)
"""What people ask for by name. The rest of what follows at once follows from these."""
QUEUED = (events.JobSubmitted, events.JobRequeued, events.JobRetried)
BAD = (
    events.NodeUnreachable,
    events.NodeCordoned,
    events.DiskSpaceLow,
    events.NodeOverloaded,
    events.ResourceConstraint,
    events.BackpressureActivated,
    events.DeviceCordoned,
    events.DeviceInUse,
    events.DeviceQuarantined,
    events.DeviceProved,
    events.StageResting,
    events.ConfigPaused,
    events.RatingFailed,
    events.SweepBarred,
    events.ChunkReturned,
)
"""What an alert about its subject may come of."""


def causes(entries: Sequence[Entry]) -> Because:
    """By number of an entry, the numbers of those that it follows from, as far as they are among these."""
    return _Fold().through(entries)


def before(entry: int, because: Because) -> Sequence[int]:
    """Everything that led to an entry, the first beginnings first."""
    found: dict[int, None] = {}
    waiting = [entry]
    while waiting:
        for cause in because.get(waiting.pop(), ()):
            if cause not in found:
                found[cause] = None
                waiting.append(cause)
    first = {cause: min(effect, cause) for effect in sorted(because, reverse=True) for cause in because[effect]}
    # A request stands behind what it led to.
    return sorted(found, key=lambda cause: (first[cause], -cause))


def after(entry: int, because: Because) -> Iterator[tuple[int, int]]:
    """What followed from an entry, each with how many steps away it is; each at once before what follows from it."""
    effects: defaultdict[int, list[int]] = defaultdict(list)
    for effect in sorted(because):
        for cause in because[effect]:
            effects[cause].append(effect)
    seen = {entry}
    waiting = [(each, 1) for each in reversed(effects[entry])]
    while waiting:
        found, depth = waiting.pop()
        if found in seen:
            continue
        seen.add(found)
        yield found, depth
        waiting += [(each, depth + 1) for each in reversed(effects[found])]


def device_of(event: Event) -> str | None:
    """The device that an event names."""
    found = getattr(event, "device", None)
    return found if isinstance(found, str) else None


class _Fold:
    """Goes through entries in order and remembers the newest of everything that goes on."""

    def __init__(self) -> None:
        self._because: dict[int, list[int]] = {}
        self._newest: dict[Thread, int] = {}
        self._place: dict[str, str] = {}
        """Devices of attempts and chunks."""
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        """By job and by group, the jobs that come after it."""
        self._group: dict[str, str] = {}
        """The groups of jobs."""

    def through(self, entries: Iterable[Entry]) -> Because:
        """The causes of all of these."""
        known: dict[int, Event] = {}
        for entry in entries:
            known[entry.seq] = entry.event
            if isinstance(entry.event, RequestAccepted):
                self._asked_for(entry, entry.event, known)
                continue
            cause = self._cause(entry.event)
            if cause is not None:
                self._because[entry.seq] = [cause]
            self._note(entry)
        return self._because

    def _asked_for(self, entry: Entry, request: RequestAccepted, known: Mapping[int, Event]) -> None:
        """The request stands behind what it led to, in the same step."""
        for seq in range(entry.seq - request.entries, entry.seq):
            if isinstance(known.get(seq), ASKED):
                self._because.setdefault(seq, []).append(entry.seq)

    def _cause(self, event: Event) -> int | None:
        """The newest of the things that this kind of event comes of, the first of them that is known."""
        threads = RULES.get(type(event), _of_its_own)(event)
        if isinstance(event, events.AttemptEnded):
            return self._latest((("attempt", event.attempt), ("cancel", job_of(event.attempt))))
        if isinstance(event, events.AttemptLost | events.ChunkReturned):
            return self._latest(threads + self._trouble_of(event))
        return next((seq for each in threads if (seq := self._newest.get(each)) is not None), None)

    def _trouble_of(self, event: events.AttemptLost | events.ChunkReturned) -> tuple[Thread, ...]:
        """Its node may have gone, or nobody wants its job any more."""
        part = event.attempt if isinstance(event, events.AttemptLost) else event.chunk
        place = self._place.get(part)
        return (("cancel", job_of(part)), *(() if place is None else (("bad", _node(place)),)))

    def _latest(self, threads: Sequence[Thread]) -> int | None:
        return max((seq for each in threads if (seq := self._newest.get(each)) is not None), default=None)

    def _note(self, entry: Entry) -> None:
        for thread in _threads(entry.event):
            self._newest[thread] = entry.seq
        event = entry.event
        device = device_of(event)
        part = getattr(event, "attempt", None) or getattr(event, "chunk", None)
        if device is not None and part is not None:
            self._place[part] = device
        if isinstance(event, events.JobSubmitted):
            for job in event.after:
                self._waiting[job].append(event.job)
            if event.group is not None:
                self._group[event.job] = event.group
        elif isinstance(event, events.JobDone):
            # Of a group, any of its jobs may be the last that was awaited.
            group = self._group.get(event.job)
            waiting = [*self._waiting.pop(event.job, ()), *(() if group is None else self._waiting.get(group, ()))]
            for job in waiting:
                self._newest["queued", job] = entry.seq


def _threads(event: Event) -> Iterator[Thread]:
    """What an entry is the newest of from now on."""
    for name in ("attempt", "chunk", "config"):
        if isinstance(found := getattr(event, name, None), str):
            yield name, found
    job = subject(event)
    if job is not None and not isinstance(event, events.PriorityChanged):
        yield "job", job
        if isinstance(event, QUEUED):
            yield "queued", job
        if isinstance(event, events.CancelRequested):
            yield "cancel", job
    if isinstance(event, events.AlertFired | events.AlertAcknowledged | events.AlertsSilenced):
        yield "named", event.id
    if isinstance(
        event, events.NodeCordoned | events.NodeUnreachable | events.NodeLinked | events.BackpressureActivated
    ):
        yield "node", str(event.node)
    if isinstance(event, events.DeviceQuarantined | events.DeviceProved | events.DeviceCordoned | events.DeviceInUse):
        yield "device", event.device
    if isinstance(event, events.JobRequeued | events.JobFailed):
        yield from (("against", device) for device in event.against)
    if isinstance(event, BAD):
        yield from (("bad", about) for about in _about(event))


def _about(event: Event) -> Iterator[str]:
    """Whom something bad is about: its device, its node, its config, its sweep."""
    for name in ("device", "node", "config", "job"):
        if isinstance(found := getattr(event, name, None), str):
            yield found
    device = device_of(event)
    if device is not None:
        yield _node(device)
    if isinstance(event, events.ChunkReturned):
        yield job_of(event.chunk)


def _node(device: str) -> str:
    return device.partition("/")[0]


Rule: TypeAlias = Callable[[Any], tuple[Thread, ...]]


def _of_its_own(event: Any) -> tuple[Thread, ...]:
    """Most follow from what was last told of the same attempt, chunk, job or config."""
    part = getattr(event, "attempt", None) or getattr(event, "chunk", None)
    job = subject(event)
    config = getattr(event, "config", None)
    threads: list[Thread] = []
    if part is not None:
        threads += [("attempt", part), ("chunk", part)]
    if job is not None and not isinstance(event, events.JobSubmitted):
        threads.append(("job", job))
    if isinstance(config, str):
        threads.append(("config", config))
    return tuple(threads)


def _submitted(event: events.JobSubmitted) -> tuple[Thread, ...]:
    """What a loop wants follows from how far it has come."""
    return () if event.why is None or event.spec.serves is None else (("config", event.spec.serves),)


RULES: Mapping[type, Rule] = {
    events.JobSubmitted: _submitted,
    events.CancelRequested: lambda event: (),
    events.PriorityChanged: lambda event: (),
    events.AttemptLeased: lambda event: (("queued", event.job),),
    events.ChunkLeased: lambda event: (("queued", event.job),),
    events.PreemptRequested: lambda event: (("queued", event.by or ""), ("attempt", event.attempt)),
    events.NodeLinked: lambda event: (("node", event.node),),
    events.NodeUnreachable: lambda event: (),
    events.NodeCordoned: lambda event: (),
    events.NodeDrained: lambda event: (("node", event.node),),
    events.NodeResumed: lambda event: (("node", event.node),),
    events.DeviceCordoned: lambda event: (),
    events.DeviceDrained: lambda event: (("device", event.device),),
    events.DeviceResumed: lambda event: (("device", event.device),),
    events.DeviceInUse: lambda event: (),
    events.DeviceFreed: lambda event: (("device", event.device),),
    events.BackpressureReleased: lambda event: (("node", str(event.node)),),
    events.DeviceQuarantined: lambda event: (("against", event.device),),
    events.DeviceTrusted: lambda event: (("device", event.device),),
    events.AlertFired: lambda event: (("bad", event.subject),),
    events.AlertEnded: lambda event: (("named", event.id),),
    events.AlertAcknowledged: lambda event: (("named", event.id),),
    events.AlertsUnsilenced: lambda event: (("named", event.id),),
}
"""What a kind of event comes of: the first that is known."""
