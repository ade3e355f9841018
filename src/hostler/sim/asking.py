"""Somebody who asks until an answer comes: controllers may die with the question in hand, and are asked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hostler.model.errors import HostlerError
from hostler.sim.agenda import Action, Agenda

Done: TypeAlias = Callable[[Sequence[Any]], None]


def ask_until_answered(agenda: Agenda, ask: Callable[[Done], None], pause_s: float, answered: Action) -> None:
    """Ask now, and each `pause_s` again; `answered` is called once. Raises what the first answer refuses with."""
    is_over = False

    def done(answers: Sequence[Any]) -> None:
        nonlocal is_over
        if isinstance(answers[0], HostlerError):
            raise answers[0]
        if not is_over:
            is_over = True
            answered()

    def again() -> None:
        if not is_over:
            ask(done)
            agenda.later(pause_s, again)

    again()
