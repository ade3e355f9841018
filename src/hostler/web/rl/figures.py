"""What the controller keeps in mind of what a training told: few numbers, under names that are ours."""

from __future__ import annotations

from collections.abc import Mapping

from hostler.model.inputs import RlTelemetry
from hostler.model.rl_telemetry import ADVICE, OTHER, OUTCOMES, AdviceTold
from hostler.web.rl.account import Account, Mark
from hostler.web.rl.lines import Advice, Calls

SHORTEST_S = 0.001


def telemetry(job: str, attempt: str, account: Account) -> RlTelemetry | None:
    """What a training told last; `None`: nothing yet."""
    last = account.last
    if last is None:
        return None
    return RlTelemetry(
        job=job,
        attempt=attempt,
        steps=last.steps,
        seconds=last.seconds,
        episodes=last.episodes,
        envs=last.envs,
        per_s=rate_of(account.window),
        reward=last.reward,
        largest_share=max(last.shares.values(), default=None),
        over_share=tuple(name for name in last.alarms if name in last.shares),
        advice_share=None if last.advice is None else last.shares.get(ADVICE),
        advice=None if last.advice is None else _advice(last.advice),
    )


def rate_of(window: tuple[Mark, Mark] | None) -> float | None:
    """Steps a second from where to where a training went; `None`: that is not known yet."""
    return None if window is None else rate(window[1].steps - window[0].steps, window[1].seconds - window[0].seconds)


def rate(steps: int, seconds: float) -> float | None:
    """Steps a second; `None`: of so short a time nothing can be said."""
    return steps / seconds if seconds >= SHORTEST_S else None


def share(number: float | None) -> float | None:
    """A share that somebody told as a number, if it is one."""
    return number if number is not None and 0 <= number <= 1 else None


def _advice(told: Advice) -> AdviceTold:
    return AdviceTold(
        calls=_calls(told.calls),
        success=share(told.numbers.get("success")),
        resting=share(told.numbers.get("resting")),
        waits=told.waits,
    )


def _calls(told: Mapping[str, Calls]) -> Mapping[str, int]:
    """By what they came to; names that are not ours are one, or a job would make as many series as it likes."""
    found = {name: told[name].calls for name in OUTCOMES if name in told}
    others = sum(each.calls for name, each in told.items() if name not in OUTCOMES)
    return {**found, OTHER: others} if others else found
