"""What the rules measure, taken from the very facts that decisions are based on: never from what is shown.

Only what a rule is about has a reading; `None` in one says that it is not known. A device is meant to have work if it
holds something, or if something waits that fits on it and nobody keeps it off for a reason of the device's own (a
cordon, a quarantine, a canary that has not answered).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from statistics import fmean
from typing import TypeAlias

from hostler.core import dependencies, leases
from hostler.core.alerting import learners
from hostler.core.index import Index
from hostler.core.loop import closing
from hostler.core.loop.claims import gain_of
from hostler.core.loop.decide import over
from hostler.core.loop.state import RECORDED, Config, Segment
from hostler.core.state import Attempt, Device, Node, State
from hostler.model.alerts import AlertRule, Measure
from hostler.model.fleet import DeviceSpec, Link
from hostler.model.units import duration
from hostler.model.work import DeviceKind, WorkKind
from hostler.policy import alerting, pressure
from hostler.policy.alerting import Reading

FLEET = "fleet"
"""The subject of what is about all of it."""
KNOWN_LEAST = 0.5
"""Of less than this part of the devices nothing is said of all of them."""
HOUR_S = 3600.0
TELLING_S = 600.0
"""A rate is not told of less time than this."""
AWAY = "it is out of reach"
YOUNG = "the controller has not run for long enough to tell"

Readings: TypeAlias = Mapping[str, Reading]


class Sights:
    """One look at the state: what several rules need is looked up once."""

    def __init__(self, state: State, index: Index) -> None:
        self.state = state
        self.index = index

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes of the fleet."""
        fleet = self.index.watching.fleet
        return {name: node for name, node in self.state.nodes.items() if fleet is None or name in fleet}

    @cached_property
    def wanted(self) -> frozenset[str]:
        """Classes of devices for which something waits."""
        return frozenset(cls for cls in self.index.members if self._is_wanted(cls))

    @cached_property
    def utilization(self) -> Mapping[str, list[float | None]]:
        """By node: utilisation of its GPUs that are meant to have work, as heard of late."""
        found: dict[str, list[float | None]] = {}
        for name, node in self.nodes.items():
            if node.link is Link.UP and node.spec.pool is None:
                devices = (self.state.devices[each.id] for each in node.spec.devices if _is_gpu(each))
                values = [self._heard(each) for each in devices if self._is_meant_to_work(each)]
                if values:
                    found[name] = values
        return found

    @cached_property
    def missed(self) -> frozenset[str]:
        """Nodes that should answer: one that somebody has emptied on purpose is missed by nobody."""
        cordons = self.state.cordons
        return frozenset(name for name in self.nodes if name not in cordons or cordons[name].drained_at is None)

    @cached_property
    def out_of_reach(self) -> Mapping[str, Node]:
        """Single nodes that should answer and do not: what is measured of them is not known."""
        missed = ((name, self.nodes[name]) for name in sorted(self.missed))
        return {name: node for name, node in missed if node.link is not Link.UP and node.spec.pool is None}

    @cached_property
    def blind(self) -> Readings:
        """Nodes out of reach that have GPUs which may be meant to have work."""
        found = (name for name, node in self.out_of_reach.items() if self._may_be_meant_to_work(node))
        return {name: Reading(value=None, note=AWAY) for name in found}

    @cached_property
    def open_configs(self) -> list[Config]:
        """Training configs that go on."""
        return [config for config in self.state.configs.values() if over(config) is None]

    @cached_property
    def players(self) -> Mapping[str, list[Attempt]]:
        """By node: attempts of loops that are at self-play there, or about to begin: between two it is at it, too."""
        found: dict[str, list[Attempt]] = defaultdict(list)
        for config in self.state.configs.values():
            for name, stage in config.jobs.items():
                attempt = self.state.jobs[name].attempt
                if stage is WorkKind.SELFPLAY and attempt is not None:
                    found[self.state.devices[attempt.device].spec.node].append(attempt)
        return found

    def segments(self, window_s: float) -> Mapping[str, list[Segment]]:
        """By node: what came in of self-play of late."""
        since, found = self.index.now - window_s, defaultdict(list)
        for config in self.state.configs.values():
            for segment in reversed(config.segments.values()):
                if segment.at <= since:
                    break
                device = self.state.jobs[segment.job].last_device
                if segment.player != RECORDED and device is not None:
                    found[self.state.devices[device].spec.node].append(segment)
        return found

    def _is_wanted(self, cls: str) -> bool:
        groups = self.index.able_on(cls).groups
        if any(self.index.peek(self.state, group) is not None for group in groups):
            return True
        sweeps = (self.state.jobs[name] for name in self.index.active if self.state.sweeps[name].ledger.free)
        return any(self.index.misfit(job.spec.resources, job.spec.work, cls) is None for job in sweeps)

    def _is_meant_to_work(self, device: Device) -> bool:
        if device.attempts or device.chunks:
            return True
        name = device.spec.id
        able = name in self.index.places and self.state.puts_work_on(name)
        trusted = self.state.trust.takes(name, self.index.now, busy=False)
        return able and trusted and self.index.classes[name] in self.wanted

    def _may_be_meant_to_work(self, node: Node) -> bool:
        gpus = [self.state.devices[each.id] for each in node.spec.devices if _is_gpu(each)]
        holds = any(device.attempts or device.chunks for device in gpus)
        return holds or any(not self.state.is_cordoned(device.spec.id) for device in gpus)

    def _heard(self, device: Device) -> float | None:
        """As its driver told last; too long ago is unknown."""
        node = self.index.telemetry.get(device.spec.node)
        heard = None if node is None else node.devices.get(device.spec.id)
        if heard is None or self.index.now - heard.told_at > self.state.rules.targets.telemetry_max_age_s:
            return None
        return heard.utilization


def _is_gpu(device: DeviceSpec) -> bool:
    return device.kind is not DeviceKind.CPU


def readings(sights: Sights, rule: AlertRule) -> Readings:
    """What a rule measures now, by subject."""
    return GATHER[rule.measures](sights, rule)


def _node_utilization(sights: Sights, rule: AlertRule) -> Readings:
    known = {node: _mean(sights.index, rule, node, values) for node, values in sights.utilization.items()}
    return {**sights.blind, **known}


def _fleet_utilization(sights: Sights, rule: AlertRule) -> Readings:
    values = [value for of_node in sights.utilization.values() for value in of_node]
    if values:
        return {FLEET: _mean(sights.index, rule, FLEET, values)}
    return {FLEET: Reading(value=None, note=AWAY)} if sights.blind else {}


def _mean(index: Index, rule: AlertRule, subject: str, values: list[float | None]) -> Reading:
    """The mean over devices, and over the rule's window; older values count less."""
    known = [value for value in values if value is not None]
    note = f"{len(known)} of {len(values)} GPUs that should work are heard of"
    if len(known) < KNOWN_LEAST * len(values):
        return Reading(value=None, note=note)
    mean, means = fmean(known), index.watching.means
    if rule.window_s is not None:
        key = rule.name, subject
        means[key] = alerting.smoothed(means.get(key), mean, index.now, rule.window_s)
        mean = means[key].value
    return Reading(value=mean, note=note)


def _selfplay_rate(sights: Sights, rule: AlertRule) -> Readings:
    """Games of a node out of reach may wait there."""
    window_s = rule.window_s or HOUR_S
    came = sights.segments(window_s)
    at_it = {node: attempts for node, attempts in sights.players.items() if node in sights.nodes}
    return {
        node: Reading(value=None, note=AWAY)
        if sights.nodes[node].link is not Link.UP
        else _rate(sights, attempts, came.get(node, []), window_s)
        for node, attempts in at_it.items()
    }


def _rate(sights: Sights, attempts: list[Attempt], came: list[Segment], window_s: float) -> Reading:
    """Games of the window, or of less where the node has not been at it for so long.

    They come at the end of a job: while none has come and none had to, nothing is known.
    """
    now, jobs = sights.index.now, sights.state.jobs
    begun = [each.started_at for each in attempts] + [jobs[each.job].started_at for each in came]
    span_s = min(now - min((at for at in begun if at is not None), default=now), window_s)
    games = sum(each.games for each in came)
    if span_s < TELLING_S:
        return Reading(value=None, note=f"it has been at self-play for {duration(span_s)}")
    if not games and not any(_is_late(each, now, window_s) for each in attempts):
        return Reading(value=None, note="none of its jobs has had to end yet")
    return Reading(value=games * HOUR_S / span_s, note=f"{games} games in {duration(span_s)}")


def _is_late(attempt: Attempt, now: float, window_s: float) -> bool:
    """Whether games should have come of it; of one that nobody can predict, after the window."""
    if attempt.started_at is None:
        return False
    return now - attempt.started_at > (window_s if attempt.predicted_s is None else attempt.predicted_s)


def _training_queue(sights: Sights, rule: AlertRule) -> Readings:
    index, state = sights.index, sights.state
    heaps = (heap for group, heap in index.ready.items() if group.work is WorkKind.TRAINING)
    waiting = {entry[2] for heap in heaps for entry in heap if index.is_ready(state.jobs[entry[2]], entry)}
    return {FLEET: Reading(value=float(len(waiting)))}


def _elo_velocity(sights: Sights, rule: AlertRule) -> Readings:
    return {
        config.spec.name: _gain(config, sights.index.now, rule.window_s or HOUR_S)
        for config in sights.open_configs
        if config.switches
    }


def _gain(config: Config, now: float, window_s: float) -> Reading:
    if config.switches[0].at > now - window_s:
        return Reading(value=None, note=f"its first model is {duration(now - config.switches[0].at)} old")
    gain = gain_of(config, now - window_s, now)
    if gain is None:
        return Reading(value=None, note="its models are not rated yet")
    return Reading(value=gain.elo_per_day, low=gain.low, high=gain.high)


def _out_of_reach(sights: Sights, rule: AlertRule) -> Readings:
    nodes = ((name, sights.nodes[name]) for name in sorted(sights.missed))
    return {name: Reading(value=0.0) if node.link is Link.UP else _away(sights, rule, node) for name, node in nodes}


def _away(sights: Sights, rule: AlertRule, node: Node) -> Reading:
    since = leases.away_since(node)
    away_s = max(sights.index.now - since, 0.0)
    if _is_too_young(sights.state, since, sights.index.now - sights.state.begun_at, rule):
        return Reading(value=None, note=YOUNG)
    return Reading(value=away_s, note=node.trouble or "")


def _disk_full_in(sights: Sights, rule: AlertRule) -> Readings:
    nodes = sights.nodes.items()
    linked = (name for name, node in nodes if node.link is Link.UP and node.spec.pool is None)
    away = {name: Reading(value=None, note=AWAY) for name in sights.out_of_reach}
    return {**away, **{name: _filling(sights, name) for name in linked}}


def _filling(sights: Sights, node: str) -> Reading:
    """The forecast that back-pressure goes by; a disk without the free space that it must have is full."""
    heard, targets = sights.index.telemetry.get(node), sights.state.rules.targets
    known = {} if heard is None else heard.known
    full_in, free = (_fresh(sights, known.get(name)) for name in (pressure.DISK_FILL, pressure.DISK_FREE))
    if free is not None and free < targets.disk_free_gb:
        return Reading(value=0.0, note=f"{free:.3g} GB are free")
    if full_in is None:
        return Reading(value=None, note="too few readings of its disk of late")
    return Reading(value=full_in, note="" if free is None else f"{free:.3g} GB are free")


def _fresh(sights: Sights, known: tuple[float, float] | None) -> float | None:
    if known is None or sights.index.now - known[1] > sights.state.rules.targets.telemetry_max_age_s:
        return None
    return known[0]


def _ledger_still(sights: Sights, rule: AlertRule) -> Readings:
    """Of sweeps that have something free or out; those that wait for other jobs have no reason to move."""
    state, found = sights.state, {}
    for name in sorted(sights.index.active):
        sweep, job = state.sweeps[name], state.jobs[name]
        after = (each.ended_at or 0.0 for name in job.after for each in dependencies.jobs_of(state, name))
        begun = max(job.submitted_at, job.not_before, sweep.progressed_at or 0.0, *after)
        expected = [lease.expected_s or 0.0 for lease in sweep.leases.values()]
        note = f"{len(sweep.leases)} chunks are out, {sweep.ledger.free_items} items are free"
        found[name] = _still(sights, rule, begun, max(expected, default=0.0), note)
    return found


def _distrust(sights: Sights, rule: AlertRule) -> Readings:
    """Devices that are in quarantine, or have failed their canary."""
    trust, found = sights.state.trust, {}
    here = {each.id for node in sights.nodes.values() for each in node.spec.devices}
    for name in sorted((trust.doubts.keys() | trust.proofs.keys()) & here):
        doubt, proof = trust.doubts.get(name), trust.proofs.get(name)
        bans = 0 if doubt is None or doubt.until is None else doubt.bans
        failures = 0 if proof is None or proof.ok else proof.failures
        if bans or failures:
            whys = [None if doubt is None or not bans else doubt.why, proof.why if proof and failures else None]
            found[name] = Reading(value=float(bans + failures), note="; ".join(why for why in whys if why))
    return found


def _loop_still(sights: Sights, rule: AlertRule) -> Readings:
    found = {}
    for config in sights.open_configs:
        at, what = max(_made(config), default=(0.0, "nothing yet"))
        found[config.spec.name] = _still(sights, rule, at, 0.0, f"last: {what}")
    return found


def _still(sights: Sights, rule: AlertRule, since: float, allowed_s: float, note: str) -> Reading:
    """For how long nothing was made, beyond what is allowed. While there is no controller nothing can be."""
    still_s = sights.index.now - max(since, sights.state.begun_at) - allowed_s
    if _is_too_young(sights.state, since, still_s, rule):
        return Reading(value=None, note=YOUNG)
    return Reading(value=max(still_s, 0.0), note=note)


def _is_too_young(state: State, since: float, seen_s: float, rule: AlertRule) -> bool:
    """Whether the controller began after that, and has not seen it last long enough to say so.

    What fired before ends by something that has happened, not by a restart; and nothing fires for what went on while
    there was no controller. The first one on a journal has missed nothing.
    """
    return state.epoch > 1 and since < state.begun_at and seen_s <= rule.threshold


def _games_at_risk(sights: Sights, rule: AlertRule) -> Readings:
    """Of nodes with files of their own; what the others have closed is here."""
    found = closing.at_risk(sights.state)
    return {
        name: Reading(value=float(found.get(name, 0)))
        for name, node in sights.nodes.items()
        if node.spec.apart and node.spec.pool is None
    }


def _made(config: Config) -> Iterator[tuple[float, str]]:
    """The newest of each kind of thing that a loop makes, and when that was."""
    segment = next(reversed(config.segments.values()), None)
    dataset = next(reversed(config.datasets.values()), None)
    model = next(reversed(config.models.values()), None)
    if segment is not None:
        yield segment.at, "games"
    if dataset is not None:
        yield dataset.at, "a dataset"
    if model is not None:
        yield model.made_at, "a model"
    if config.rating_history:
        yield config.rating_history[-1].at, "a rating"


def _of_learners(sights: Sights, rule: AlertRule) -> Readings:
    return learners.readings(sights.state, sights.index, rule)


GATHER: Mapping[Measure, Callable[[Sights, AlertRule], Readings]] = {
    Measure.NODE_UTILIZATION: _node_utilization,
    Measure.FLEET_UTILIZATION: _fleet_utilization,
    Measure.SELFPLAY_RATE: _selfplay_rate,
    Measure.TRAINING_QUEUE: _training_queue,
    Measure.ELO_VELOCITY: _elo_velocity,
    Measure.OUT_OF_REACH: _out_of_reach,
    Measure.DISK_FULL_IN: _disk_full_in,
    Measure.LEDGER_STILL: _ledger_still,
    Measure.DISTRUST: _distrust,
    Measure.LOOP_STILL: _loop_still,
    Measure.GAMES_AT_RISK: _games_at_risk,
    **dict.fromkeys(learners.READ, _of_learners),
}
