"""What a virtual fleet made of its time, folded from the journal alone; speeds and prices are laid beside it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from hostler.model import events
from hostler.model.events import Entry
from hostler.model.fleet import NodeSpec
from hostler.model.record import entity, record
from hostler.model.rules import USUAL, Rules
from hostler.model.simulated import ConfigUse, DeviceUse, Measures, NodeUse, QuotaUse, Span, Waits
from hostler.model.work import JobSpec, WorkKind
from hostler.policy import fit, share
from hostler.sim.nature import CHECKPOINT_S, START_S, SYNC_S, is_gpu


@record
class Setting:
    """What a journal does not tell of a run."""

    fleet: str
    seed: int
    nodes: tuple[NodeSpec, ...]
    power: Mapping[str, float]
    """True power by device."""
    span_s: float
    rules: Rules = USUAL
    start_s: float = START_S
    """How long processes start up."""
    keeps_s: Mapping[WorkKind, float] = field(
        default_factory=lambda: {WorkKind.SELFPLAY: SYNC_S, WorkKind.TRAINING: CHECKPOINT_S}
    )
    """How often work of a kind is brought to safety; of other kinds it is lost with its attempt."""


def measures(
    entries: Iterable[Entry], setting: Setting, faults: Mapping[str, int], wall_s: float | None = None
) -> Measures:
    """Everything there is to say about a run."""
    tale = _Tale(setting)
    for entry in entries:
        if entry.at <= setting.span_s:
            tale.take(entry)
    tale.close()
    devices = tuple(_device_uses(tale, setting))
    quotas, errors = _quota_uses(tale, setting)
    return Measures(
        fleet=setting.fleet,
        seed=setting.seed,
        span_s=setting.span_s,
        devices=devices,
        nodes=tuple(_node_uses(tale, setting)),
        waits=tuple(_waits(tale)),
        quotas=quotas,
        quota_error=errors,
        configs=tuple(_config_uses(tale, setting)),
        kinds=dict(_by_kind(tale)),
        jobs=dict(Counter(tale.fates.values())),
        events=dict(tale.counts),
        faults=dict(faults),
        preemptions=tale.counts["attempt.preempt_requested"],
        lost_s=dict(tale.lost_s),
        start_s=tale.start_s,
        spans=tuple(tale.spans),
        wall_s=wall_s,
    )


@entity
class _Run:
    """An attempt that holds devices."""

    job: str
    devices: tuple[str, ...]
    leased_at: float
    began: float | None = None


@entity
class _Made:
    """What came of a config."""

    games: int = 0
    positions: int = 0
    trainings: int = 0
    promotions: int = 0


class _Tale:
    """The journal, told from its begin to its end."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.counts: Counter[str] = Counter()
        self.specs: dict[str, JobSpec] = {}
        self.fates: dict[str, str] = {}
        self.ready_at: dict[str, float] = {}
        self.blocked: dict[str, set[str]] = {}
        """Jobs that wait for others, with those that are not done."""
        self.waited: defaultdict[WorkKind, list[float]] = defaultdict(list)
        self.runs: dict[str, _Run] = {}
        self.spans: list[Span] = []
        self.starting_s: list[float] = []
        """Seconds of start-up of each span."""
        self.chunks: dict[str, tuple[str, float]] = {}
        self.searches: list[tuple[str, float, float]] = []
        self.searched_s: dict[str, float] = {}
        """Device seconds of sweeps, by device."""
        self.start_s = 0.0
        self.lost_s: defaultdict[WorkKind, float] = defaultdict(float)
        self.configs: dict[str, _Made] = {}
        self.presence = {node.name: _Presence() for node in setting.nodes}
        self._takes: dict[type, Callable[[float, Any], None]] = {
            events.JobSubmitted: self._submitted,
            events.AttemptLeased: self._leased,
            events.AttemptStarted: self._started,
            events.AttemptEnded: self._ended,
            events.AttemptLost: self._lost,
            events.JobRequeued: self._requeued,
            events.JobRetried: self._retried,
            events.JobDone: self._done,
            events.JobFailed: lambda at, event: self._over(event.job, "failed"),
            events.JobCancelled: lambda at, event: self._over(event.job, "cancelled"),
            events.ChunkLeased: self._chunk_leased,
            events.ChunkDone: self._chunk_over,
            events.ChunkReturned: self._chunk_over,
            events.NodeLinked: self._linked,
            events.NodeUnreachable: self._unreachable,
            events.ConfigDeclared: self._declared,
            events.SegmentsMade: self._segments,
            events.ModelPromoted: self._promoted,
        }

    def take(self, entry: Entry) -> None:
        """Take in what happened next."""
        self.counts[entry.event.kind] += 1
        take = self._takes.get(type(entry.event))
        if take is not None:
            take(entry.at, entry.event)

    def close(self) -> None:
        """The time is over: what waits has waited so far, what runs has run so far."""
        end = self.setting.span_s
        for job, since in self.ready_at.items():
            self.waited[self.specs[job].work].append(end - since)
        for attempt in list(self.runs):
            self._free(attempt, end, "open")
        for device, since in self.chunks.values():
            self.searches.append((device, since, end))
        self._part()

    def _part(self) -> None:
        """Of what shared a device, each has its part of the time: nothing adds up to more than the device had."""
        chunks = _chunks(self.searches)
        crowds = _crowds(self.spans, chunks)
        self.spans = [replace(span, weight=crowds[span.device].part(span.begin, span.end)) for span in self.spans]
        self.searched_s = {
            name: math.fsum((end - begin) * crowds[name].part(begin, end) for begin, end in held)
            for name, held in chunks.items()
        }
        for span, starting_s in zip(self.spans, self.starting_s, strict=True):
            self.start_s += starting_s * span.weight
            self.lost_s[span.kind] += (span.end - span.begin - starting_s - span.useful_s) * span.weight

    def _submitted(self, at: float, event: events.JobSubmitted) -> None:
        self.specs[event.job] = event.spec
        self.fates[event.job] = "pending"
        missing = {name for name in event.after if self.fates.get(name) != "done"}
        if missing:
            self.blocked[event.job] = missing
        else:
            self.ready_at[event.job] = at
        if event.spec.serves is not None:
            self.configs.setdefault(event.spec.serves, _Made())

    def _leased(self, at: float, event: events.AttemptLeased) -> None:
        since = self.ready_at.pop(event.job, None)
        if since is not None:
            self.waited[self.specs[event.job].work].append(max(at - since, 0.0))
        self.fates[event.job] = "running"
        self.runs[event.attempt] = _Run(job=event.job, devices=(event.device, *event.others), leased_at=at)

    def _started(self, at: float, event: events.AttemptStarted) -> None:
        self.runs[event.attempt].began = at

    def _ended(self, at: float, event: events.AttemptEnded) -> None:
        if event.started_at is not None:
            self.runs[event.attempt].began = event.started_at
        good = event.exit_code == 0 and event.reason is None
        self._free(
            event.attempt, event.ended_at, "done" if good else "stopped" if event.reason == "stopped" else "failed"
        )

    def _lost(self, at: float, event: events.AttemptLost) -> None:
        run = self.runs[event.attempt]
        node = run.devices[0].partition("/")[0]
        gone_at = self.presence[node].gone_at
        self._free(event.attempt, at if gone_at is None else max(gone_at, run.leased_at), "lost")

    def _requeued(self, at: float, event: events.JobRequeued) -> None:
        self.fates[event.job] = "pending"
        self.ready_at[event.job] = max(at, event.not_before)

    def _retried(self, at: float, event: events.JobRetried) -> None:
        self.fates[event.job] = "pending"
        self.ready_at[event.job] = at

    def _done(self, at: float, event: events.JobDone) -> None:
        spec = self.specs[event.job]
        if spec.work is WorkKind.TRAINING and spec.serves is not None:
            self.configs[spec.serves].trainings += 1
        self._over(event.job, "done")
        self._unblock(at, event.job)

    def _unblock(self, at: float, done: str) -> None:
        for job in [name for name, missing in self.blocked.items() if done in missing]:
            self.blocked[job].discard(done)
            if not self.blocked[job]:
                del self.blocked[job]
                self.ready_at[job] = at

    def _over(self, job: str, fate: str) -> None:
        self.fates[job] = fate
        self.ready_at.pop(job, None)
        self.blocked.pop(job, None)

    def _chunk_leased(self, at: float, event: events.ChunkLeased) -> None:
        self.chunks[event.chunk] = event.device, at
        self.ready_at.pop(event.job, None)

    def _chunk_over(self, at: float, event: events.ChunkDone | events.ChunkReturned) -> None:
        device, since = self.chunks.pop(event.chunk)
        self.searches.append((device, since, at))

    def _linked(self, at: float, event: events.NodeLinked) -> None:
        self.presence[event.node].linked(at, event.agent)

    def _unreachable(self, at: float, event: events.NodeUnreachable) -> None:
        self.presence[event.node].unreachable(at)

    def _declared(self, at: float, event: events.ConfigDeclared) -> None:
        self.configs.setdefault(event.config, _Made())

    def _segments(self, at: float, event: events.SegmentsMade) -> None:
        made = self.configs[event.config]
        made.games += sum(each.games for each in event.segments)
        made.positions += sum(each.positions for each in event.segments)

    def _promoted(self, at: float, event: events.ModelPromoted) -> None:
        self.configs[event.config].promotions += event.over is not None

    def _free(self, attempt: str, end: float, fate: str) -> None:
        run = self.runs.pop(attempt)
        if run.began is None:
            return
        spec = self.specs[run.job]
        worked_s = max(end - run.began, 0.0)
        useful_s, starting_s = self._useful(spec, worked_s, fate)
        for device in run.devices:
            self.starting_s.append(starting_s)
            self.spans.append(
                Span(
                    device=device,
                    job=run.job,
                    kind=spec.work,
                    config=spec.serves,
                    begin=run.began,
                    end=run.began + worked_s,
                    useful_s=useful_s,
                    fate=fate,
                )
            )

    def _useful(self, spec: JobSpec, worked_s: float, fate: str) -> tuple[float, float]:
        """Seconds of an attempt that count, and those of its start-up."""
        starting_s = 0.0 if spec.work is WorkKind.EXPORT else min(self.setting.start_s, worked_s)
        net_s = worked_s - starting_s
        keeps_s = self.setting.keeps_s.get(spec.work)
        if fate in ("done", "open") or (fate == "stopped" and keeps_s is not None):
            return net_s, starting_s
        return (0.0 if keeps_s is None else net_s // keeps_s * keeps_s), starting_s


@entity
class _Presence:
    """When a node was there: from the first contact with an agent to the last before another one took its place."""

    agent: str | None = None
    since: float = 0.0
    gone_at: float | None = None
    """Since when it has been out of reach."""
    deaths: int = 0
    there: list[tuple[float, float]] = field(default_factory=list)
    cut: list[tuple[float, float]] = field(default_factory=list)
    """When it was out of reach, whether it was there or not."""

    def linked(self, at: float, agent: str) -> None:
        """An agent answered; the same one as before was there all the time."""
        if self.gone_at is not None:
            self.cut.append((self.gone_at, at))
        if self.agent is None:
            self.since = at
        elif agent != self.agent:
            self.there.append((self.since, at if self.gone_at is None else self.gone_at))
            self.since = at
            self.deaths += 1
        self.agent, self.gone_at = agent, None

    def unreachable(self, at: float) -> None:
        """Nobody answers."""
        if self.gone_at is None:
            self.gone_at = at

    def intervals(self, end: float) -> list[tuple[float, float]]:
        """When it was there, as far as anybody knows: what is out of reach at the end was there until then."""
        return [*self.there, *([(self.since, end)] if self.agent is not None else [])]

    def cuts(self, end: float) -> list[tuple[float, float]]:
        """When it could not be reached."""
        return [*self.cut, *([(self.gone_at, end)] if self.gone_at is not None else [])]


def _device_uses(tale: _Tale, setting: Setting) -> Iterator[DeviceUse]:
    by_device: defaultdict[str, list[Span]] = defaultdict(list)
    for span in tale.spans:
        by_device[span.device].append(span)
    searches = _chunks(tale.searches)
    for node in setting.nodes:
        up_s = _length(tale.presence[node.name].intervals(setting.span_s))
        for spec in node.devices:
            if not is_gpu(spec) and not by_device[spec.id] and spec.id not in searches:
                continue
            spans, chunks = by_device[spec.id], searches.get(spec.id, [])
            busy = _merged([*((span.begin, span.end) for span in spans), *chunks])
            yield DeviceUse(
                device=spec.id,
                model=spec.model,
                node=node.name,
                provider=node.provider,
                tier=fit.tier(_vram_gb(node)) if is_gpu(spec) else None,
                gpu=is_gpu(spec),
                power=setting.power[spec.id],
                up_s=up_s,
                busy_s=_length(busy),
                useful_s=math.fsum(span.useful_s * span.weight for span in spans) + tale.searched_s.get(spec.id, 0.0),
            )


def _chunks(searches: Iterable[tuple[str, float, float]]) -> dict[str, list[tuple[float, float]]]:
    """When each device searched; what it had in hand at the same time counts once."""
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for device, begin, end in searches:
        found[device].append((begin, end))
    return {device: _merged(held) for device, held in found.items()}


def _crowds(spans: Sequence[Span], chunks: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, _Crowd]:
    held: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for span in spans:
        held[span.device].append((span.begin, span.end))
    for device, intervals in chunks.items():
        held[device].extend(intervals)
    return {device: _Crowd(intervals) for device, intervals in held.items()}


def _had_s(spans: Iterable[Span]) -> float:
    """Device seconds of these attempts, of shared devices their part."""
    return math.fsum((span.end - span.begin) * span.weight for span in spans)


class _Crowd:
    """How much a device had at work at the same time, over time."""

    def __init__(self, held: Sequence[tuple[float, float]]) -> None:
        edges = sorted([*((begin, 1) for begin, _ in held), *((end, -1) for _, end in held)])
        self._at: list[float] = []
        self._count: list[int] = []
        self._had: list[float] = []
        count, had, before = 0, 0.0, 0.0
        for at, change in edges:
            had += (at - before) / count if count else 0.0
            count, before = count + change, at
            self._at.append(at)
            self._count.append(count)
            self._had.append(had)

    def part(self, begin: float, end: float) -> float:
        """The part of the device that one had that was there from begin to end, on average."""
        return (self._until(end) - self._until(begin)) / (end - begin) if end > begin else 0.0

    def _until(self, at: float) -> float:
        """What one that was always there would have had by then."""
        place = bisect_right(self._at, at) - 1
        if place < 0:
            return 0.0
        count = self._count[place]
        return self._had[place] + ((at - self._at[place]) / count if count else 0.0)


def _node_uses(tale: _Tale, setting: Setting) -> Iterator[NodeUse]:
    for node in setting.nodes:
        presence = tale.presence[node.name]
        yield NodeUse(
            node=node.name,
            provider=node.provider,
            there=tuple(presence.intervals(setting.span_s)),
            cut=tuple(presence.cuts(setting.span_s)),
            price_per_h=node.price_per_h,
            deaths=presence.deaths,
        )


def _waits(tale: _Tale) -> Iterator[Waits]:
    still = Counter(tale.specs[job].work for job in tale.ready_at)
    for kind in WorkKind:
        waited = sorted(tale.waited.get(kind, ()))
        if waited:
            yield Waits(
                kind=kind,
                count=len(waited),
                mean_s=math.fsum(waited) / len(waited),
                p50_s=_quantile(waited, 0.5),
                p95_s=_quantile(waited, 0.95),
                max_s=waited[-1],
                waiting=still[kind],
            )


def _quota_uses(tale: _Tale, setting: Setting) -> tuple[tuple[QuotaUse, ...], dict[int, float | None]]:
    tiers = {device.id: fit.tier(_vram_gb(node)) for node in setting.nodes for device in node.devices}
    uses, errors = [], {}
    for tier in sorted({quota.tier for quota in setting.rules.quotas}):
        had_s: defaultdict[str, float] = defaultdict(float)
        for span in tale.spans:
            if span.config is not None and tiers.get(span.device) == tier:
                had_s[span.config] += (span.end - span.begin) * span.weight
        aims = share.targets(setting.rules.quotas, sorted(tale.configs), tier, {})
        had = share.achieved(had_s)
        target = share.by_pattern(aims, {name: aim.share for name, aim in aims.items()})
        got = share.by_pattern(aims, had)
        errors[int(tier)] = share.quota_error(target, got if had else {})
        for pattern, wanted in target.items():
            uses.append(QuotaUse(tier=tier, pattern=pattern, target=wanted, achieved=got[pattern] if had else None))
    return tuple(uses), errors


def _config_uses(tale: _Tale, setting: Setting) -> Iterator[ConfigUse]:
    by_config: defaultdict[str, list[Span]] = defaultdict(list)
    for span in tale.spans:
        if span.config is not None:
            by_config[span.config].append(span)
    for name, made in sorted(tale.configs.items()):
        spans = by_config[name]
        trained = [span.end - span.begin for span in spans if span.kind is WorkKind.TRAINING]
        yield ConfigUse(
            config=name,
            device_s=_had_s(spans),
            games=made.games,
            positions=made.positions,
            trainings=made.trainings,
            promotions=made.promotions,
            longest_without_s=_longest_gap([(span.begin, span.end) for span in spans], setting.span_s),
            longest_training_s=max(trained, default=0.0),
        )


def _by_kind(tale: _Tale) -> dict[WorkKind, float]:
    found: defaultdict[WorkKind, float] = defaultdict(float)
    for span in tale.spans:
        found[span.kind] += (span.end - span.begin) * span.weight
    if tale.searched_s:
        found[WorkKind.SWEEP] += math.fsum(tale.searched_s.values())
    return found


def _vram_gb(node: NodeSpec) -> float | None:
    known = [device.vram_gb for device in node.devices if is_gpu(device) and device.vram_gb is not None]
    return sum(known) if known else None


def _quantile(ordered: Sequence[float], q: float) -> float:
    """The smallest value that so many are not above."""
    return ordered[min(math.ceil(q * len(ordered)), len(ordered)) - 1]


def _merged(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def _length(intervals: Iterable[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in intervals)


def _longest_gap(intervals: Iterable[tuple[float, float]], end: float) -> float:
    """The longest time within `[0, end]` that none of the intervals covers."""
    longest, reached = 0.0, 0.0
    for begin, stop in _merged(intervals):
        longest, reached = max(longest, begin - reached), stop
    return max(longest, end - reached)
