"""Configs for which nothing new is ordered because somebody said so: what that means, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hostler.core.index import Index
from hostler.core.loop.state import Config, Pause
from hostler.core.state import State
from hostler.model import events
from hostler.model.events import Event
from hostler.model.units import duration
from hostler.model.views import BanView, PauseView

Emit: TypeAlias = Callable[[Event], None]
Fold: TypeAlias = Callable[[State, Index, Any], None]


def expire(config: Config, now: float, emit: Emit) -> None:
    """End a pause whose time is over."""
    if config.paused is not None and config.paused.until <= now:
        emit(events.ConfigResumed(config=config.spec.name, who=None))


def words(pause: Pause, now: float) -> str:
    """Who wants nothing new ordered, for how much longer, and why."""
    return f"paused by {pause.who} for {duration(max(pause.until - now, 0.0))} more: {pause.why}"


def view(config: Config) -> PauseView | None:
    """The same, to be shown."""
    pause = config.paused
    if pause is None:
        return None
    return PauseView(since=pause.since, until=pause.until, who=pause.who, why=pause.why)


def bans(state: State) -> Iterator[BanView]:
    """All configs for which nothing new is ordered because somebody said so."""
    for name, config in state.configs.items():
        if config.paused is not None:
            yield BanView(
                kind="pause",
                what=name,
                of=None,
                owner=config.paused.who,
                why=f"{config.paused.why}; `hostler train resume {name}` ends it",
                since=config.paused.since,
                until=config.paused.until,
            )


def faults(state: State, config: Config) -> Iterator[str]:
    """Whatever was ordered after somebody had said that nothing should be."""
    if config.paused is None:
        return
    if config.paused.until <= config.paused.since:
        yield f"its pause ends before it began: {config.paused}"
    for name in config.jobs:
        if state.jobs[name].submitted_at > config.paused.since:
            yield f"{name} was ordered though it has been paused since {config.paused.since}"


def _paused(state: State, index: Index, event: events.ConfigPaused) -> None:
    known = state.configs[event.config].paused
    since = state.at if known is None else known.since
    state.configs[event.config].paused = Pause(since=since, until=event.until, who=event.who, why=event.why)
    index.wake_loop(event.config, event.until)
    index.loops_due.add(event.config)


def _resumed(state: State, index: Index, event: events.ConfigResumed) -> None:
    state.configs[event.config].paused = None
    index.loops_due.add(event.config)


FOLDS: dict[type, Fold] = {events.ConfigPaused: _paused, events.ConfigResumed: _resumed}
