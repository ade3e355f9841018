"""What a person should know, in words: rules, what they measure, and what is told of an alert.

Every number of a rule is a setting (`alerts.rules` of the fleet file); the defaults here are the product's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field

from hostler.model.record import record
from hostler.model.work import Rest, Seconds

TEST_SUBJECT = "(test)"
"""What an alert that was asked for is about: no name that a node, a device, a sweep or a training config can have."""
EVERYTHING = "*"
"""In the place of a rule's name: every rule."""

Comparison: TypeAlias = Literal["below", "above"]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]


class Severity(StrEnum):
    """How soon somebody should look."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


SEVERITIES = tuple(Severity)
"""The least first."""


class Measure(StrEnum):
    """What a rule measures."""

    NODE_UTILIZATION = "node_utilization"
    FLEET_UTILIZATION = "fleet_utilization"
    SELFPLAY_RATE = "selfplay_rate"
    TRAINING_QUEUE = "training_queue"
    ELO_VELOCITY = "elo_velocity"
    OUT_OF_REACH = "out_of_reach"
    DISK_FULL_IN = "disk_full_in"
    LEDGER_STILL = "ledger_still"
    DISTRUST = "distrust"
    LOOP_STILL = "loop_still"
    GAMES_AT_RISK = "games_at_risk"
    ADVICE_SUCCESS = "advice_success"
    ADVICE_RESTING = "advice_resting"
    ADVICE_LATENCY = "advice_latency"
    ADVICE_SHARE = "advice_share"
    COMPONENTS_OVER = "components_over"


class Measured(NamedTuple):
    """What is to know about a measure; its values lie in `[lowest, highest]`, `None` where there is no bound."""

    unit: str
    about: str
    """What its subjects are."""
    meaning: str
    lowest: float | None = 0.0
    highest: float | None = None


MEASURES: Mapping[Measure, Measured] = {
    Measure.NODE_UTILIZATION: Measured(
        "share", "node", "mean utilisation of those of its GPUs that are meant to have work", highest=1.0
    ),
    Measure.FLEET_UTILIZATION: Measured(
        "share", "fleet", "mean utilisation of all GPUs that are meant to have work", highest=1.0
    ),
    Measure.SELFPLAY_RATE: Measured("games/h", "node", "games of self-play that a node at self-play hands in"),
    Measure.TRAINING_QUEUE: Measured("jobs", "fleet", "trainings that wait for a device"),
    Measure.ELO_VELOCITY: Measured(
        "Elo/day", "config", "what the rating of the current model has gained, with its interval", lowest=None
    ),
    Measure.OUT_OF_REACH: Measured("s", "node", "time since a node that cannot be reached was linked last"),
    Measure.DISK_FULL_IN: Measured("s", "node", "time until its disk is full, as it fills now"),
    Measure.LEDGER_STILL: Measured(
        "s", "sweep", "time without an accepted chunk beyond what the chunks that are out were expected to take"
    ),
    Measure.DISTRUST: Measured("times", "device", "how often in a row it was put into quarantine or failed its canary"),
    Measure.LOOP_STILL: Measured("s", "config", "time since a loop that goes on has made anything"),
    Measure.GAMES_AT_RISK: Measured("games", "node", "games in closed segments that nobody has but the node"),
    Measure.ADVICE_SUCCESS: Measured(
        "share", "rl job", "calls for advice that were answered as they should be, with its interval", highest=1.0
    ),
    Measure.ADVICE_RESTING: Measured(
        "share", "rl job", "its workers that leave whoever advises alone, since nothing came of calls", highest=1.0
    ),
    Measure.ADVICE_LATENCY: Measured("s", "rl job", "what nine in ten calls for advice took at most"),
    Measure.ADVICE_SHARE: Measured(
        "share", "rl job", "what advice makes up of all that the reward has paid and taken", highest=1.0
    ),
    Measure.COMPONENTS_OVER: Measured(
        "components", "rl job", "components of the reward that make up more than the game's `alarm_share`"
    ),
}


@record
class AlertRule:
    """A threshold, how long it must be crossed, and a second threshold at which that is over.

    The values have the unit of `MEASURES[measures]`. With `below`, a value less than `threshold` crosses it and one of
    at least `over` ends it; with `above`, the other way round. Between the two an alert stays as it is.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    measures: Measure
    comparison: Comparison
    threshold: Number
    over: Number
    for_s: Rest = 0.0
    """How long it must be crossed; time in which it is unknown does not count."""
    window_s: Seconds | None = None
    """What it is measured over; `None`: at the moment."""
    unknown_s: Rest | None = None
    """After so long, not to know the value is an alert itself; `None`: it never is."""
    severity: Severity = Severity.WARNING
    target: Number | None = None
    """What one would like it to be."""
    group: str = ""
    """Alerts of one group come in one message where they come together; an empty one stands for the rule's name."""
    enabled: bool = True


MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0

USUAL_ALERTS: tuple[AlertRule, ...] = (
    AlertRule(
        name="gpu_idle",
        measures=Measure.NODE_UTILIZATION,
        comparison="below",
        threshold=0.5,
        over=0.6,
        for_s=30 * MINUTE_S,
        window_s=5 * MINUTE_S,
        target=0.8,
        group="gpu_idle",
    ),
    AlertRule(
        name="fleet_idle",
        measures=Measure.FLEET_UTILIZATION,
        comparison="below",
        threshold=0.5,
        over=0.6,
        for_s=30 * MINUTE_S,
        window_s=5 * MINUTE_S,
        target=0.8,
        group="gpu_idle",
    ),
    AlertRule(
        name="selfplay_slow",
        measures=Measure.SELFPLAY_RATE,
        comparison="below",
        threshold=20.0,
        over=30.0,
        for_s=30 * MINUTE_S,
        window_s=HOUR_S,
        target=100.0,
    ),
    AlertRule(
        name="training_queue_long",
        measures=Measure.TRAINING_QUEUE,
        comparison="above",
        threshold=20.0,
        over=10.0,
        for_s=10 * MINUTE_S,
        target=5.0,
    ),
    AlertRule(
        name="elo_stalled",
        measures=Measure.ELO_VELOCITY,
        comparison="below",
        threshold=1.0,
        over=2.0,
        window_s=3 * DAY_S,
        target=5.0,
    ),
    AlertRule(
        name="node_unreachable",
        measures=Measure.OUT_OF_REACH,
        comparison="above",
        threshold=5 * MINUTE_S,
        over=0.0,
        severity=Severity.CRITICAL,
        target=0.0,
    ),
    AlertRule(
        name="disk_full_soon",
        measures=Measure.DISK_FULL_IN,
        comparison="below",
        threshold=6 * HOUR_S,
        over=9 * HOUR_S,
        for_s=10 * MINUTE_S,
        severity=Severity.CRITICAL,
    ),
    AlertRule(
        name="ledger_stalled",
        measures=Measure.LEDGER_STILL,
        comparison="above",
        threshold=30 * MINUTE_S,
        over=MINUTE_S,
        target=0.0,
    ),
    AlertRule(
        name="device_distrusted", measures=Measure.DISTRUST, comparison="above", threshold=0.0, over=0.0, target=0.0
    ),
    AlertRule(
        name="loop_stalled",
        measures=Measure.LOOP_STILL,
        comparison="above",
        threshold=2 * HOUR_S,
        over=10 * MINUTE_S,
    ),
    AlertRule(
        name="games_at_risk",
        measures=Measure.GAMES_AT_RISK,
        comparison="above",
        threshold=0.0,
        over=0.0,
        for_s=MINUTE_S,
        severity=Severity.CRITICAL,
        target=0.0,
    ),
    AlertRule(
        name="advice_failing",
        measures=Measure.ADVICE_SUCCESS,
        comparison="below",
        threshold=0.8,
        over=0.9,
        for_s=2 * MINUTE_S,
        window_s=10 * MINUTE_S,
        target=1.0,
        group="advice",
    ),
    AlertRule(
        name="advice_dead",
        measures=Measure.ADVICE_RESTING,
        comparison="above",
        threshold=0.5,
        over=0.1,
        for_s=2 * MINUTE_S,
        severity=Severity.CRITICAL,
        target=0.0,
        group="advice",
    ),
    AlertRule(
        name="advice_slow",
        measures=Measure.ADVICE_LATENCY,
        comparison="above",
        threshold=5.0,
        over=3.0,
        for_s=5 * MINUTE_S,
        window_s=10 * MINUTE_S,
        group="advice",
    ),
    AlertRule(
        name="advice_overpaid",
        measures=Measure.ADVICE_SHARE,
        comparison="above",
        threshold=0.3,
        over=0.25,
        for_s=5 * MINUTE_S,
    ),
    AlertRule(
        name="reward_lopsided",
        measures=Measure.COMPONENTS_OVER,
        comparison="above",
        threshold=0.0,
        over=0.0,
        for_s=5 * MINUTE_S,
        target=0.0,
    ),
)
"""The rules that a fleet file has unless it says otherwise."""


@record
class AlertNotice:
    """One alert of a message: what fired, or is over."""

    id: str
    state: Literal["firing", "over"]
    rule: str
    subject: str
    """The node, device, sweep, training config or rl job that it is about; `fleet`: all of it."""
    severity: Severity
    value: float | None
    """What it rests on; `null`: that is not known, which is the alert, or it is about nothing any more."""
    low: float | None
    high: float | None
    """The interval of the value, where chance has a part in it."""
    unit: str
    comparison: Comparison
    threshold: float
    at: float
    """When it fired, or was over; Unix seconds."""
    why: str
    test: bool
    """Somebody asked for it to see that it comes: nothing is wrong."""


@record
class AlertMessage:
    """What a webhook gets, as the JSON body of a POST. Answer with any status from 200 to 299 to have it taken.

    It comes again until it is taken; one that comes again has the same `id`. After a crash of the controller alerts may
    come once more in another message: each is known by its own `id` and `state`.
    """

    schema: Literal[1] = 1
    id: str
    fleet: str
    group: str
    severity: Severity
    """The worst of them."""
    text: str
    """The whole message for people."""
    test: bool
    """Whether all of it was asked for, to see that it comes."""
    alerts: tuple[AlertNotice, ...]
    """At most 100, oldest first."""
    left_out: int = 0
    """How many more there are."""
