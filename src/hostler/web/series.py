"""What is exported to Prometheus: one line for each metric, and how it is read off `Readings`.

Names follow Prometheus' conventions: base units, `_total` for what only grows. What is unknown has no series; what has
left the fleet has none any more. No label ever names a job, but those few that learn by reinforcement and have devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from hostler.model.artifact_views import BacklogView, KeepingView, StockRow
from hostler.model.fleet import Link
from hostler.model.learning import Losses, Rating
from hostler.model.readings import (
    ConfigReading,
    DeviceReading,
    NodeReading,
    PlaceReading,
    Readings,
    RlReading,
    WorkReading,
)
from hostler.model.rl_telemetry import AdviceTold, Waits
from hostler.model.steering import TierShares
from hostler.model.views import VelocityView

Sample: TypeAlias = tuple[tuple[str, ...], float | None]
"""The values of the labels, and the value; `None`: unknown, and then there is no such series."""

GIGA = 1e9
SILENT_S = 900.0
"""What a training told longer ago than that is not how it is now."""
LEVELS = ("none", "warning", "clean", "critical")


class Series(NamedTuple):
    """One metric."""

    name: str
    kind: Literal["counter", "gauge"]
    meaning: str
    labels: tuple[str, ...]
    read: Callable[[Readings], Iterator[Sample]]


class Spread(NamedTuple):
    """One histogram."""

    name: str
    meaning: str
    labels: tuple[str, ...]
    read: Callable[[Readings], Iterator[tuple[tuple[str, ...], Waits]]]


def _one(name: str, kind: Literal["counter", "gauge"], meaning: str, get: Callable[[Readings], float | None]) -> Series:
    def read(all_: Readings) -> Iterator[Sample]:
        yield (), get(all_)

    return Series(name, kind, meaning, (), read)


def _node(name: str, meaning: str, get: Callable[[NodeReading, float], float | None], *, total: bool = False) -> Series:
    def read(all_: Readings) -> Iterator[Sample]:
        return (((node.name,), get(node, all_.gist.at)) for node in all_.nodes)

    return Series(f"hostler_node_{name}", "counter" if total else "gauge", meaning, ("node",), read)


def _device(name: str, meaning: str, get: Callable[[DeviceReading, float], float | None]) -> Series:
    def read(all_: Readings) -> Iterator[Sample]:
        return (((each.node, each.id, each.kind), get(each, all_.gist.at)) for each in all_.devices)

    return Series(f"hostler_device_{name}", "gauge", meaning, ("node", "device", "kind"), read)


def _config(name: str, meaning: str, get: Callable[[ConfigReading, float], float | None]) -> Series:
    def read(all_: Readings) -> Iterator[Sample]:
        return (((each.name,), get(each, all_.gist.at)) for each in all_.configs if each.state != "retired")

    kind: Literal["counter", "gauge"] = "counter" if name.endswith("_total") else "gauge"
    return Series(f"hostler_config_{name}", kind, meaning, ("config",), read)


def _work(name: str, meaning: str, get: Callable[[WorkReading, float], float | None]) -> Series:
    def read(all_: Readings) -> Iterator[Sample]:
        return (((each.work,), get(each, all_.gist.at)) for each in all_.gist.works)

    kind: Literal["counter", "gauge"] = "counter" if name.endswith("_total") else "gauge"
    return Series(f"hostler_{name}", kind, meaning, ("work",), read)


def _place(name: str, meaning: str, get: Callable[[PlaceReading], float]) -> Series:
    def read(all_: Readings) -> Iterator[Sample]:
        return (((each.provider or "", each.tier), get(each)) for each in all_.places)

    return Series(f"hostler_provider_{name}", "counter", meaning, ("provider", "tier"), read)


def _stock(name: str, meaning: str, get: Callable[[StockRow], float]) -> Series:
    def read(all_: Readings) -> Iterator[Sample]:
        stock = None if all_.replication is None else all_.replication.stock
        return (((each.kind, each.standing), get(each)) for each in (() if stock is None else stock.rows))

    return Series(f"hostler_{name}", "gauge", meaning, ("kind", "standing"), read)


def _backlog(name: str, meaning: str, get: Callable[[BacklogView, float], float | None]) -> Series:
    def read(all_: Readings) -> Iterator[Sample]:
        backlog = None if all_.replication is None else all_.replication.backlog
        yield (), None if backlog is None else get(backlog, all_.gist.at)

    return Series(f"hostler_replication_{name}", "gauge", meaning, (), read)


def _store(name: str, meaning: str, get: Callable[[KeepingView], float | None]) -> Series:
    def read(all_: Readings) -> Iterator[Sample]:
        places = () if all_.replication is None else all_.replication.places
        return (((each.name,), get(each)) for each in places)

    kind: Literal["counter", "gauge"] = "counter" if name.endswith("_total") else "gauge"
    return Series(f"hostler_store_{name}", kind, meaning, ("place",), read)


def _rl(name: str, meaning: str, get: Callable[[RlReading], float | None], *, lasts: bool = False) -> Series:
    """`lasts`: it is so, however long ago it was told."""

    def read(all_: Readings) -> Iterator[Sample]:
        for each in all_.trainings:
            old = all_.gist.at - each.at > SILENT_S
            yield (each.told.job,), None if old and not lasts else get(each)

    kind: Literal["counter", "gauge"] = "counter" if name.endswith("_total") else "gauge"
    return Series(f"hostler_rl_{name}", kind, meaning, ("training",), read)


def _advice(name: str, meaning: str, get: Callable[[AdviceTold], float | None]) -> Series:
    return _rl(f"advice_{name}", meaning, lambda each: None if each.told.advice is None else get(each.told.advice))


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else max(now - at, 0.0)


def _of(whole: Rating | VelocityView | Losses | None, part: str) -> float | None:
    return None if whole is None else float(getattr(whole, part))


def _bytes(gigabytes: float | None) -> float | None:
    return None if gigabytes is None else gigabytes * GIGA


def _foreign_memory(all_: Readings) -> Iterator[Sample]:
    for each in all_.devices:
        if each.foreign_use is not None and each.foreign_use.vram_gb is not None:
            yield (each.node, each.id, each.foreign_use.who), each.foreign_use.vram_gb * GIGA


def _foreign_start(all_: Readings) -> Iterator[Sample]:
    for each in all_.devices:
        if each.foreign_use is not None:
            yield (each.node, each.id), each.foreign_use.since


def _controller(all_: Readings) -> Iterator[Sample]:
    yield (all_.fleet, all_.version), 1.0


def _nodes(all_: Readings) -> Iterator[Sample]:
    for each in all_.nodes:
        yield (each.name, each.backend, each.provider or "", each.tier or ""), 1.0


def _levels(all_: Readings) -> Iterator[Sample]:
    for node in all_.nodes:
        for signal, level in node.levels.items():
            yield (node.name, signal), float(LEVELS.index(level))


def _devices(all_: Readings) -> Iterator[Sample]:
    for each in all_.devices:
        yield (each.node, each.id, each.kind, each.model or ""), 1.0


def _held(all_: Readings) -> Iterator[Sample]:
    for each in all_.devices:
        for work, times in each.held.items():
            yield (each.node, each.id, each.kind, work), float(times)


def _jobs(all_: Readings) -> Iterator[Sample]:
    for each in all_.gist.works:
        for state, times in each.jobs.items():
            yield (each.work, state), float(times)


def _attempts(all_: Readings) -> Iterator[Sample]:
    for each in all_.gist.works:
        for outcome, times in each.attempts.items():
            yield (each.work, outcome), float(times)


def _chunks(all_: Readings) -> Iterator[Sample]:
    return (((outcome,), float(times)) for outcome, times in all_.sweeps.chunks.items())


def _calls(all_: Readings) -> Iterator[Sample]:
    for each in all_.trainings:
        calls = {} if each.told.advice is None else each.told.advice.calls
        for outcome, times in calls.items():
            yield (each.told.job, outcome), float(times)


def _told_ages(all_: Readings) -> Iterator[Sample]:
    return (((each.told.job,), _age(each.at, all_.gist.at)) for each in all_.trainings)


def _waits(all_: Readings) -> Iterator[tuple[tuple[str, ...], Waits]]:
    for each in all_.trainings:
        if each.told.advice is not None and each.told.advice.waits is not None:
            yield (each.told.job,), each.told.advice.waits


def _pressures(all_: Readings) -> Iterator[Sample]:
    return (((each.signal,), float(LEVELS.index(each.level))) for each in all_.gist.pressures)


def _bans(all_: Readings) -> Iterator[Sample]:
    return (((kind,), float(times)) for kind, times in all_.bans.items())


def _tier_error(all_: Readings) -> Iterator[Sample]:
    for tier in all_.quotas.tiers:
        yield (tier.tier,), None if tier.error_points is None else tier.error_points / 100


def _shares(pick: Callable[[TierShares], Iterator[Sample]]) -> Callable[[Readings], Iterator[Sample]]:
    return lambda all_: (each for tier in all_.quotas.tiers for each in pick(tier))


def _big(items: int) -> float:
    """Ranges may be longer than any float."""
    try:
        return float(items)
    except OverflowError:
        return float("inf")


CONTROLLER = (
    Series("hostler_controller_info", "gauge", "1; what controls the fleet", ("fleet", "version"), _controller),
    _one(
        "hostler_controller_start_time_seconds",
        "gauge",
        "When the controller began, Unix time",
        lambda all_: all_.gist.begun_at,
    ),
    _one("hostler_controller_epoch", "gauge", "Number of the controller on its journal", lambda all_: all_.gist.epoch),
    _one(
        "hostler_controller_leading",
        "gauge",
        "1: this controller leads; 0: it stands by for another one",
        lambda all_: float(all_.leads),
    ),
    _one("hostler_journal_entries_total", "counter", "Entries in the journal", lambda all_: all_.gist.seq),
    _one(
        "hostler_event_loop_lag_seconds",
        "gauge",
        "By how much the controller's loop was late, at worst within the last minute",
        lambda all_: all_.loop.lag_s,
    ),
    _one("hostler_event_streams", "gauge", "Event streams that are open", lambda all_: all_.loop.readers),
    _one(
        "hostler_event_streams_lost_total",
        "counter",
        "Event streams cut off because they were too slow, since the controller began",
        lambda all_: all_.loop.readers_lost,
    ),
    _one(
        "hostler_results_refused_total",
        "counter",
        "Results refused: late, doubled, or of other parameters",
        lambda all_: all_.refused,
    ),
    _one("hostler_troubles_total", "counter", "Failures of the controller itself", lambda all_: all_.troubles),
    Series("hostler_bans", "gauge", "What is held back or put first for a while, by kind", ("reason",), _bans),
)

NODES = (
    Series("hostler_node_info", "gauge", "1; what a node is", ("node", "backend", "provider", "tier"), _nodes),
    _node(
        "up",
        "1 while the node can be reached, else 0; none before the controller has tried",
        lambda node, _: None if node.link is None else node.link is Link.UP,
    ),
    _node("link_age_seconds", "For how long the link has been as it is", lambda node, now: _age(node.since, now)),
    _node("cordoned", "1 while the node is given nothing new because somebody said so", lambda node, _: node.cordoned),
    _node(
        "telemetry_age_seconds",
        "Since the node last told how it is",
        lambda node, now: _age(node.told_at, now),
    ),
    _node("memory_used_ratio", "Share of its memory in use", lambda node, _: node.memory_used),
    _node("load_ratio", "Processes that want a core, for each core", lambda node, _: node.load),
    _node("disk_used_ratio", "Share of its disk in use", lambda node, _: node.disk_used),
    _node("disk_free_bytes", "What may still be written to its disk", lambda node, _: _bytes(node.disk_free_gb)),
    _node("disk_full_seconds", "When its disk is full, if it goes on like this", lambda node, _: node.disk_full_in_s),
    _node(
        "results_waiting_seconds",
        "Age of the oldest report of it, as of a result, that the controller has not taken",
        lambda node, _: node.backlog_s,
    ),
    _node("price_per_hour", "Its price, in the currency of the fleet file", lambda node, _: node.price_per_h),
    _node(
        "games_at_risk",
        "Games in closed segments that nobody has but the node",
        lambda node, _: node.games_at_risk,
    ),
    _node("games_total", "Games of self-play that came from it", lambda node, _: node.games, total=True),
    Series(
        "hostler_node_pressure_level",
        "gauge",
        "What presses on a node: 1 warning, 2 make room, 3 work is held back",
        ("node", "signal"),
        _levels,
    ),
)

DEVICES = (
    Series("hostler_device_info", "gauge", "1; what a device is", ("node", "device", "kind", "model"), _devices),
    _device("busy", "1 while something is on the device, else 0", lambda each, _: bool(each.held)),
    Series(
        "hostler_device_held",
        "gauge",
        "Attempts and chunks on a device, by kind of work",
        ("node", "device", "kind", "work"),
        _held,
    ),
    _device("lanes", "Self-play jobs that may share the device", lambda each, _: each.lanes),
    _device("utilization_ratio", "Share of the time in which it computed something", lambda each, _: each.utilization),
    _device("memory_used_bytes", "VRAM in use", lambda each, _: _bytes(each.vram_used_gb)),
    _device("memory_bytes", "VRAM it has", lambda each, _: _bytes(each.vram_gb)),
    _device("temperature_celsius", "Its temperature", lambda each, _: each.temperature_c),
    _device("telemetry_age_seconds", "Since its node last told of it", lambda each, now: _age(each.told_at, now)),
    _device("quarantined", "1 while it is not trusted after failures", lambda each, _: each.quarantined),
    _device("cordoned", "1 while a person keeps it, or its node, from work", lambda each, _: each.cordoned),
    _device("foreign_use", "1 while others use it", lambda each, _: each.foreign_use is not None),
    Series(
        "hostler_device_foreign_memory_bytes",
        "gauge",
        "VRAM that others use, by who they are",
        ("node", "device", "who"),
        _foreign_memory,
    ),
    Series(
        "hostler_device_foreign_use_start_seconds",
        "gauge",
        "Since when others use it, in Unix seconds",
        ("node", "device"),
        _foreign_start,
    ),
    _device("unproved", "1 while its canary keeps it from work", lambda each, _: each.unproved),
)

WORK = (
    Series("hostler_jobs", "gauge", "Jobs", ("work", "state"), _jobs),
    _one("hostler_jobs_blocked", "gauge", "Jobs that wait for other jobs", lambda all_: all_.gist.blocked),
    _work(
        "queue_oldest_wait_seconds",
        "For how long the job waits that was submitted first; none where none waits",
        lambda each, now: _age(each.oldest_at, now),
    ),
    Series(
        "hostler_queue_pressure_level",
        "gauge",
        "What presses on the queue: 1 warning, 2 make room, 3 work is held back",
        ("signal",),
        _pressures,
    ),
    Series("hostler_attempts_total", "counter", "Attempts that ended", ("work", "outcome"), _attempts),
    _work("device_seconds_total", "Device time of attempts and chunks that ended", lambda each, _: each.device_s),
    _work("cost_total", "What of it has a price, in the currency of the fleet file", lambda each, _: each.cost),
    _work("unpriced_device_seconds_total", "Device time of unknown price", lambda each, _: each.unpriced_s),
    _place("device_seconds_total", "Device time of attempts and chunks that ended", lambda each: each.device_s),
    _place("cost_total", "What of it has a price, in the currency of the fleet file", lambda each: each.cost),
    _place("unpriced_device_seconds_total", "Device time of unknown price", lambda each: each.unpriced_s),
)

SWEEPS = (
    Series("hostler_chunks_total", "counter", "Chunks that ended", ("outcome",), _chunks),
    _one("hostler_sweep_items_total", "counter", "Items searched and accepted", lambda all_: _big(all_.sweeps.items)),
    _one("hostler_sweep_hits_total", "counter", "Hits accepted", lambda all_: all_.sweeps.hits),
    _one("hostler_sweep_chunks_out", "gauge", "Chunks that devices hold", lambda all_: all_.sweeps.chunks_out),
    _one("hostler_sweep_items_left", "gauge", "Items still to be searched", lambda all_: _big(all_.sweeps.left)),
    _one(
        "hostler_sweep_items_per_second",
        "gauge",
        "Measured speed of the devices at work on sweeps",
        lambda all_: all_.sweeps.per_s,
    ),
)

CONFIGS = (
    _config("open", "1 while it wants more, 0 once its goal is reached or missed", lambda c, _: c.state == "open"),
    _config("games_total", "Games of self-play", lambda c, _: c.games),
    _config("games_per_hour", "Games of self-play over the last hour", lambda c, _: c.games_per_h),
    _config("fresh_games", "Games since the last export", lambda c, _: c.fresh_games),
    _config("data_age_seconds", "Since its newest dataset was made", lambda c, now: _age(c.made_at, now)),
    _config("datasets_total", "Datasets made", lambda c, _: c.datasets),
    _config("models_total", "Models trained", lambda c, _: c.models),
    _config("promotions_total", "Candidates that won their test", lambda c, _: c.promotions),
    _config("rejections_total", "Candidates that were not shown to be better", lambda c, _: c.rejections),
    _config("generation", "Number of the current model; 0 is the untrained one", lambda c, _: c.generation),
    _config("elo", "Rating of the current model", lambda c, _: _of(c.rating, "elo")),
    _config("elo_low", "Lower end of its 95 % interval", lambda c, _: _of(c.rating, "low")),
    _config("elo_high", "Upper end of its 95 % interval", lambda c, _: _of(c.rating, "high")),
    _config("elo_per_day", "How fast the rating moves", lambda c, _: _of(c.velocity, "per_day")),
    _config("elo_per_day_low", "Lower end of its 95 % interval", lambda c, _: _of(c.velocity, "low")),
    _config("elo_per_day_high", "Upper end of its 95 % interval", lambda c, _: _of(c.velocity, "high")),
    _config(
        "loss_policy",
        "Loss of the newest model's policy on games held out, nats",
        lambda c, _: _of(c.loss, "policy"),
    ),
    _config("loss_value", "The same of its value", lambda c, _: _of(c.loss, "value")),
    _config("stages_resting", "Stages that failed and rest", lambda c, _: c.resting),
)

SHARES = (
    Series(
        "hostler_share_target_ratio",
        "gauge",
        "Share of a tier's device time that a config is meant to have",
        ("tier", "config"),
        _shares(lambda tier: (((tier.tier, row.name), row.target) for row in tier.configs)),
    ),
    Series(
        "hostler_share_had_ratio",
        "gauge",
        "Share of a tier's device time that a config has had; older time counts less",
        ("tier", "config"),
        _shares(lambda tier: (((tier.tier, row.name), row.had) for row in tier.configs)),
    ),
    Series(
        "hostler_quota_target_ratio",
        "gauge",
        "Share of a tier's device time that the configs of a quota are meant to have together",
        ("tier", "quota"),
        _shares(lambda tier: (((tier.tier, row.name), row.target) for row in tier.patterns)),
    ),
    Series(
        "hostler_quota_had_ratio",
        "gauge",
        "Share of a tier's device time that they have had; older time counts less",
        ("tier", "quota"),
        _shares(lambda tier: (((tier.tier, row.name), row.had) for row in tier.patterns)),
    ),
    Series(
        "hostler_quota_error_ratio",
        "gauge",
        "Share of a tier's device time that went to others than it was meant for",
        ("tier",),
        _tier_error,
    ),
    Series(
        "hostler_work_share_target_ratio",
        "gauge",
        "Share of the fleet's device time that a kind of work is meant to have",
        ("work",),
        lambda all_: (((row.work,), row.target) for row in all_.quotas.kinds),
    ),
    Series(
        "hostler_work_share_had_ratio",
        "gauge",
        "Share of the fleet's device time that a kind of work has had; older time counts less",
        ("work",),
        lambda all_: (((row.work,), row.had) for row in all_.quotas.kinds),
    ),
)

ARTIFACTS = (
    _stock("artifacts", "Artifacts that there are", lambda row: row.artifacts),
    _stock("artifact_bytes", "Their bytes, one copy of each", lambda row: row.bytes),
    _stock("artifact_copies", "Copies of them that count", lambda row: row.copies),
    _stock("artifact_copies_wanted", "Copies that there should be", lambda row: row.wanted),
    _stock("artifacts_short", "Those with fewer copies than the places there are could hold", lambda row: row.short),
    _stock(
        "artifacts_at_risk",
        "Those without a copy that counts; what is new counts once it was read back",
        lambda row: row.at_risk,
    ),
    _one(
        "hostler_artifacts_counted_age_seconds",
        "gauge",
        "Since artifacts were counted; none before the first time",
        lambda all_: (
            None
            if all_.replication is None or all_.replication.stock is None
            else _age(all_.replication.stock.at, all_.gist.at)
        ),
    ),
    _backlog(
        "backlog_artifacts",
        "Artifacts that were found to lack copies; at most some hundreds of each standing are looked at",
        lambda each, _: each.artifacts,
    ),
    _backlog("backlog_bytes", "Their bytes", lambda each, _: each.bytes),
    _backlog("backlog_at_risk", "Of these, what no place holds for certain, or not yet", lambda each, _: each.at_risk),
    _backlog(
        "overdue_seconds",
        "Since when the oldest of these copies should have been there; none where nothing lacks any",
        lambda each, now: _age(each.oldest_due_at, now),
    ),
    _backlog("looked_age_seconds", "Since it was looked what lacks copies", lambda each, now: _age(each.at, now)),
    _store("reachable", "1 while a place of copies answers, else 0", lambda each: each.reachable),
    _store("full", "1 while nothing is put there for want of room, else 0", lambda each: each.full),
    _store(
        "free_bytes", "What may still be put there; none for buckets, which do not say", lambda each: each.free_bytes
    ),
    _store("copies", "Copies that are noted for it", lambda each: each.copies),
    _store("damaged", "Those of them that were set aside", lambda each: each.damaged),
    _store(
        "moved_bytes_total", "Bytes read and written there since the controller began", lambda each: each.moved_bytes
    ),
)

RL = (
    _rl("steps_total", "Steps that a training by reinforcement has made", lambda each: each.told.steps, lasts=True),
    _rl("episodes_total", "Episodes that are over", lambda each: each.told.episodes, lasts=True),
    _rl("seconds_total", "Seconds it has learnt and waited for", lambda each: each.told.seconds, lasts=True),
    _rl("steps_per_second", "Steps a second, of late", lambda each: each.told.per_s),
    _rl("environments", "Environments of all its workers", lambda each: each.told.envs, lasts=True),
    _rl("reward", "Mean reward of its last episodes", lambda each: each.told.reward),
    _rl(
        "largest_component_ratio",
        "Share of the largest component in all that its reward has paid and taken",
        lambda each: each.told.largest_share,
    ),
    _rl(
        "components_over_share",
        "Components of its reward that make up more than its game allows",
        lambda each: None if each.told.largest_share is None else len(each.told.over_share),
    ),
    Series("hostler_rl_told_age_seconds", "gauge", "Since it told something new", ("training",), _told_ages),
    Series(
        "hostler_rl_advice_calls_total",
        "counter",
        "Calls for advice that came to something",
        ("training", "outcome"),
        _calls,
    ),
    _advice("success_ratio", "Share of its last calls that were answered as they should be", lambda each: each.success),
    _advice("resting_ratio", "Share of its workers that leave the endpoint alone", lambda each: each.resting),
    _rl(
        "advice_share_ratio",
        "Share of advice in all that its reward has paid and taken; none where it is paid nothing",
        lambda each: each.told.advice_share,
    ),
)

SERIES: tuple[Series, ...] = (*CONTROLLER, *NODES, *DEVICES, *WORK, *SWEEPS, *CONFIGS, *SHARES, *ARTIFACTS, *RL)
SPREADS: tuple[Spread, ...] = (
    Spread(
        "hostler_rl_advice_wait_seconds",
        "How long calls for advice took that were answered or given up",
        ("training",),
        _waits,
    ),
)
