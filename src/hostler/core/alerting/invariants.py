"""What must always be true of alerts and silences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hostler.core.alerting import folds
from hostler.core.alerting.state import RECENT
from hostler.core.state import State


def alert_faults(state: State) -> Iterator[str]:
    """Everything that is wrong with them, in words."""
    kept = state.alerts
    for rule, by_subject in kept.firing.items():
        if not by_subject or any((each.rule, each.subject) != (rule, name) for name, each in by_subject.items()):
            yield f"alerts of {rule} fire under other names, or there are none: {by_subject}"
    ids = Counter(each.id for each in (*folds.firing(state), *kept.recent))
    if any(times > 1 or int(name[1:]) >= kept.next_alert for name, times in ids.items()):
        yield f"alerts have ids twice, or of the future: {ids}, the next is {kept.next_alert}"
    if any(each.ended_at is None for each in kept.recent) or len(kept.recent) > RECENT:
        yield f"alerts that are over fire still, or are too many: {len(kept.recent)}"
    for alert in folds.firing(state):
        if alert.ended_at is not None or (alert.silence is None and not alert.told):
            yield f"{alert.id} fires and is over, or nobody is told of it"
        if alert.silence is not None and alert.silence not in kept.silences:
            yield f"{alert.id} is kept from being told by {alert.silence}, which is over"
    for name, silence in kept.silences.items():
        if silence.id != name or silence.until <= silence.since or int(name[1:]) >= kept.next_silence:
            yield f"silence {name} is {silence}"
