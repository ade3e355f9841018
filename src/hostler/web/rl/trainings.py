"""Jobs that learn by reinforcement, and what they told: the values that pages and the API show."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import nlargest

from hostler.model.errors import NotFound
from hostler.model.events import AttemptLeased
from hostler.model.rl_views import (
    RlAdviceView,
    RlAxisView,
    RlCallsView,
    RlDetail,
    RlNumbers,
    RlPartView,
    RlPictureView,
    RlPlaceView,
    RlPointView,
    RlRow,
    RlSpentView,
    RlTroubleView,
)
from hostler.model.views import JobView
from hostler.model.work import HELD_STATES, JobState, WorkKind
from hostler.web.desk import Desk
from hostler.web.rl.account import Account, Point, Shown
from hostler.web.rl.figures import rate, rate_of, share
from hostler.web.rl.lines import Advice
from hostler.web.rl.pictures import Picture
from hostler.web.rl.trails import Trail, Trails

PLACES_SHOWN = 4096
SPENT = ("emulate", "encode", "policy", "advice", "transport", "learn")
UNTOLD = RlNumbers(
    envs=None, steps=None, steps_asked=None, updates=None, episodes=None, seconds=None, per_s=None, window_s=None,
    per_s_mean=None, per_cpu_s=None, reward=None, places=None, alarms=(), done=None,
)  # fmt: skip
"""Of one that has told nothing."""
LOOKED_THROUGH = 1000
"""Jobs that are looked through without letting others go on."""


class Trainings:
    """What there is to know of them; all who look share it."""

    def __init__(self, desk: Desk, trails: Trails | None = None) -> None:
        self._desk = desk
        self._trails = trails or Trails(desk)
        self._names: list[str] = []
        self._over: dict[str, JobView] = {}
        """Those that are done, and stay as they are."""
        self._seen = 0
        """The number up to which jobs were looked through: of what kind a job is never changes."""
        self._attempts: dict[str, tuple[int, str | None]] = {}
        """The last attempt of a job, and how many it had then."""

    async def jobs(self) -> Sequence[JobView]:
        """All jobs that learn by reinforcement: those that have devices, those that wait, the others; newest first."""
        await self._look_through()
        found = [self._over.get(name) or (await self._desk.having(name)).job().job for name in self._names]
        self._over |= {job.id: job for job in found if job.state is JobState.DONE}
        return sorted(found, key=_rank)

    async def rows(self, jobs: Sequence[JobView]) -> Sequence[RlRow]:
        """What they told, in a line each."""
        trails = await asyncio.gather(*(self._trail(each) for each in jobs))
        return [_row(job, *each) for job, each in zip(jobs, trails, strict=True)]

    async def detail(self, name: str) -> RlDetail:
        """Everything that a job told. Raises `NotFound`, also where it does not learn by reinforcement."""
        job = await self.job(name)
        attempt, trail = await self._trail(job)
        return _detail(_row(job, attempt, trail), trail.account)

    async def explored(self, name: str) -> Mapping[int, int]:
        """Every place that was come to, and in how many episodes. Raises `NotFound` as `detail`."""
        _, trail = await self._trail(await self.job(name))
        return trail.account.last.explored if trail.account.last else {}

    async def curve(self, name: str) -> Sequence[RlPointView]:
        """How it went, as far back as was read. Raises `NotFound` as `detail`."""
        _, trail = await self._trail(await self.job(name))
        return _points(trail.account)

    async def picture(self, name: str, env: int) -> Picture:
        """The last picture of an environment. Raises `NotFound` as `detail`, and where there is none."""
        job = await self.job(name)
        _, trail = await self._trail(job)
        shown = trail.account.pictures.get(env)
        if shown is None:
            raise NotFound(f"{job.id} has told no picture of environment {env} yet; a few come with each of its lines")
        return shown.picture

    async def job(self, name: str) -> JobView:
        """One job that learns by reinforcement. Raises `NotFound`."""
        job = (await self._desk.having(name)).job().job
        if job.work is not WorkKind.RL:
            raise NotFound(f"{job.id} is no rl job but a {job.work} job; `hostler job show {job.id}` shows it")
        return job

    async def _look_through(self) -> None:
        while jobs := await self._desk.all_jobs(None, self._seen, LOOKED_THROUGH, WorkKind.RL):
            self._seen = int(jobs[-1].id.removeprefix("j"))
            self._names += [job.id for job in jobs]

    async def _trail(self, job: JobView) -> tuple[str | None, Trail]:
        """The last attempt of a job, which may be over, and its output; none, where it had none yet."""
        attempt = job.attempt or await self._last_attempt(job)
        return attempt, Trail() if attempt is None else await self._trails.look(attempt)

    async def _last_attempt(self, job: JobView) -> str | None:
        known = self._attempts.get(job.id)
        if known is None or known[0] != job.attempts:
            events = [entry.event for entry in await self._desk.story(job.id)] if job.attempts else []
            leased = [each.attempt for each in events if isinstance(each, AttemptLeased)]
            known = self._attempts[job.id] = job.attempts, leased[-1] if leased else None
        return known[1]


def _rank(job: JobView) -> tuple[int, int]:
    standing = 2 if job.state.final else 0 if job.state in HELD_STATES else 1
    return standing, -int(job.id.removeprefix("j"))


def _row(job: JobView, attempt: str | None, trail: Trail) -> RlRow:
    account = trail.account
    return RlRow(
        job=job,
        attempt=attempt,
        told_at=account.told_at,
        fault=trail.fault,
        lines=account.lines,
        skipped=account.skipped,
        numbers=_numbers(account),
    )


def _numbers(account: Account) -> RlNumbers:
    last, window = account.last, account.window
    done = None if account.ending is None else account.ending.done
    if last is None:
        return replace(UNTOLD, done=done)
    return RlNumbers(
        envs=last.envs,
        steps=last.steps,
        steps_asked=last.steps_asked,
        updates=last.updates,
        episodes=last.episodes,
        seconds=last.seconds,
        per_s=rate_of(window),
        window_s=None if window is None else window[1].seconds - window[0].seconds,
        per_s_mean=rate(last.steps, last.seconds),
        per_cpu_s=rate(last.steps, sum(last.spent.values())),
        reward=last.reward,
        places=last.places,
        alarms=last.alarms,
        done=done,
    )


def _detail(row: RlRow, account: Account) -> RlDetail:
    last = account.last
    explored = last.explored if last else {}
    most = nlargest(PLACES_SHOWN, explored.items(), key=lambda each: (each[1], -each[0]))
    return RlDetail(
        row=row,
        spent=_spent(account),
        parts=_parts(account),
        map=tuple(RlAxisView(name=name, width=width) for name, width in (last.axes if last else ())),
        explored=tuple(RlPlaceView(number=number, episodes=count) for number, count in sorted(most)),
        places_explored=len(explored),
        pictures=tuple(_pictured(env, shown) for env, shown in sorted(account.pictures.items())),
        advice=_advice(last.advice) if last and last.advice else None,
        update=last.update if last else {},
        troubles=tuple(RlTroubleView(at=each.at, says=each.says) for each in account.troubles),
        troubles_told=account.troubles_told,
    )


def _spent(account: Account) -> tuple[RlSpentView, ...]:
    """In the order in which people think of them; what else is told, behind them."""
    told = account.last.spent if account.last else {}
    window = account.window
    now = {} if window is None else {name: told[name] - window[0].spent.get(name, 0.0) for name in told}
    names = [*(name for name in SPENT if name in told), *(name for name in told if name not in SPENT)]
    shares, shares_now = _shares(told), _shares(now)
    return tuple(
        RlSpentView(name=name, seconds=told[name], share=shares.get(name), share_now=shares_now.get(name))
        for name in names
    )


def _shares(amounts: Mapping[str, float]) -> Mapping[str, float]:
    """Of the whole; nothing, where there is none or an amount went back."""
    whole = sum(amounts.values())
    if whole <= 0 or min(amounts.values()) < 0:
        return {}
    return {name: min(amount / whole, 1.0) for name, amount in amounts.items()}


def _parts(account: Account) -> tuple[RlPartView, ...]:
    last = account.last
    if last is None:
        return ()
    names = dict.fromkeys((*last.parts, *last.shares))
    return tuple(
        RlPartView(name=name, paid=last.parts.get(name), share=last.shares.get(name), is_alarm=name in last.alarms)
        for name in names
    )


def _advice(told: Advice) -> RlAdviceView:
    return RlAdviceView(
        success=share(told.numbers.get("success")),
        half_s=_within(told, 0.5),
        most_s=_within(told, 0.9),
        numbers={name: value for name, value in told.numbers.items() if name != "success"},
        calls=tuple(
            RlCallsView(name=name, calls=each.calls, mean_s=each.mean_s, longest_s=each.longest_s)
            for name, each in told.calls.items()
        ),
        trouble=told.trouble,
        alarm=told.alarm,
    )


def _within(told: Advice, part: float) -> float | None:
    return None if told.waits is None else told.waits.quantile(part)


def _pictured(env: int, shown: Shown) -> RlPictureView:
    made = shown.picture
    return RlPictureView(env=env, steps=shown.steps, at=shown.at, width=made.width, height=made.height, mark=made.mark)


def _points(account: Account) -> Sequence[RlPointView]:
    found: list[RlPointView] = []
    before: Point | None = None
    for each in account.points:
        per_s = None if before is None else rate(each.steps - before.steps, each.seconds - before.seconds)
        found.append(
            RlPointView(steps=each.steps, seconds=each.seconds, per_s=per_s, reward=each.reward, places=each.places)
        )
        before = each
    return found
