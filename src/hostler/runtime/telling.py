"""From journal entries to messages for people: what is worth one, what comes together, how it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from hostler.model.alert_views import AlertView
from hostler.model.alerts import MEASURES, SEVERITIES, AlertMessage, AlertNotice, Severity
from hostler.model.events import AlertEnded, AlertFired, AlertsUnsilenced, Entry, Event
from hostler.model.record import record

LISTED_MOST = 100
"""Alerts in one message."""
READ_MOST = 20
"""Of which so many are written out in its text."""


@record
class Told:
    """A notice in its place in the journal."""

    seq: int
    group: str
    notice: AlertNotice


def concerns(event: Event) -> bool:
    """Whether an entry may be worth a message."""
    return isinstance(event, AlertFired | AlertEnded | AlertsUnsilenced)


def notices(entry: Entry, find: Callable[[str], AlertView | None], least: Severity) -> Iterator[Told]:
    """What is told because of an entry; `find` gives an alert by its id, if it is known still."""
    for told in _all(entry, find):
        if SEVERITIES.index(told.notice.severity) >= SEVERITIES.index(least):
            yield told


def messages(fleet: str, told: Iterable[Told]) -> Iterator[AlertMessage]:
    """One message for each group, in the order of what came first."""
    first: dict[str, int] = {}
    told = list(told)
    for each in told:
        first.setdefault(each.group, each.seq)
    for group, parts in groupby(sorted(told, key=lambda each: first[each.group]), key=lambda each: each.group):
        yield _message(fleet, group, list(parts))


def title(message: AlertMessage) -> str:
    """The whole in one line."""
    firing = sum(each.state == "firing" for each in message.alerts)
    over = len(message.alerts) - firing
    said = [f"{count} {word}" for count, word in ((firing, "firing"), (over, "over")) if count]
    test = "TEST: " if message.test else ""
    return f"{test}{message.fleet}: {message.group}, {', '.join(said)}"


def _message(fleet: str, group: str, parts: Sequence[Told]) -> AlertMessage:
    listed = tuple(each.notice for each in parts[:LISTED_MOST])
    made = AlertMessage(
        id=f"{fleet}/{group}/{parts[0].seq}-{parts[-1].seq}",
        fleet=fleet,
        group=group,
        severity=max((each.notice.severity for each in parts), key=SEVERITIES.index),
        text="",
        test=all(each.notice.test for each in parts),
        alerts=listed,
        left_out=len(parts) - len(listed),
    )
    lines = [title(made), *map(_line, listed[:READ_MOST])]
    if len(parts) > READ_MOST:
        lines.append(f"and {len(parts) - READ_MOST} more; `hostler alert list` lists them")
    return replace(made, text="\n".join(lines))


def _line(notice: AlertNotice) -> str:
    test = "TEST " if notice.test else ""
    state = notice.severity.upper() if notice.state == "firing" else "OVER"
    return f"{test}{state} {notice.rule} {notice.subject}: {notice.why} ({notice.id})"


def _all(entry: Entry, find: Callable[[str], AlertView | None]) -> Iterator[Told]:
    event = entry.event
    if isinstance(event, AlertFired) and event.silence is None:
        yield Told(seq=entry.seq, group=event.group, notice=_of_event(event, "firing", entry.at))
    elif isinstance(event, AlertEnded) and event.told:
        yield Told(seq=entry.seq, group=event.group, notice=_of_event(event, "over", entry.at))
    elif isinstance(event, AlertsUnsilenced):
        for alert in map(find, event.alerts):
            if alert is not None and alert.state == "firing":  # what is over by now, its own end tells
                yield Told(seq=entry.seq, group=alert.group, notice=_of_view(alert))


def _of_event(event: AlertFired | AlertEnded, state: str, at: float) -> AlertNotice:
    return AlertNotice(
        id=event.id,
        state="firing" if state == "firing" else "over",
        rule=event.rule,
        subject=event.subject,
        severity=event.severity,
        value=event.value,
        low=event.low,
        high=event.high,
        unit=MEASURES[event.measures].unit,
        comparison=event.comparison,
        threshold=event.threshold,
        at=at,
        why=event.why,
        test=event.test,
    )


def _of_view(alert: AlertView) -> AlertNotice:
    assert alert.id is not None
    assert alert.fired_at is not None
    return AlertNotice(
        id=alert.id,
        state="firing",
        rule=alert.rule,
        subject=alert.subject,
        severity=alert.severity,
        value=alert.value,
        low=alert.low,
        high=alert.high,
        unit=alert.unit,
        comparison=alert.comparison,
        threshold=alert.threshold,
        at=alert.fired_at,
        why=alert.why,
        test=alert.test,
    )
