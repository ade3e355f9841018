"""Learning by reinforcement: how fast it goes and what the time goes into, what is rewarded, where it has been."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hostler.model.rl_views import RlAxisView, RlDetail, RlRow
from hostler.web.desk import Desk
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip
from hostler.web.rl.trainings import Trainings
from hostler.workloads.gameboy.shown import ENVS_MAX

LISTED = 30
"""Jobs of the list whose output is read."""
SILENT_S = 60.0
"""One that runs and has told nothing for so long is shown as silent."""
THUMBS = 32
CELLS = 32
"""On each side of a map at most: of a larger one several places make a cell."""
NUMBERED = 8
"""Maps up to this size have numbers in their cells."""
HEATS = 8
PLACES_LISTED = 20
TROUBLES_SHOWN = 20


class Cell(NamedTuple):
    """A cell of a map: where it is, in which share of the episodes it was come to, and how it looks."""

    x: int
    y: int
    heat: int
    share: float
    words: str


def pages(trainings: Trainings) -> Mapping[str, Page]:
    """The list and the page of one, by path; what they show is read once for all who look, by `trainings`."""

    async def list_parts(desk: Desk, subject: Subject) -> Sequence[Part]:
        jobs = await trainings.jobs()
        rows = await trainings.rows(jobs[:LISTED])
        shown = {"rows": [_row(each, desk.status().at) for each in rows], "of": len(jobs)}
        return [strip(desk.status()), Part("trainings", "parts/rl_rows.html", shown)]

    async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
        told = await trainings.detail(subject.name or "")
        return _parts(desk, subject, told, await trainings.explored(told.row.job.id))

    async def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
        job = await trainings.job(subject.name or "")
        return {"title": f"RL: {job.name}", "job": job.id}

    return {
        "/pages/rl": Page("rl", "rl.html", list_parts, _list_frame),
        "/pages/rl/{name}": Page("rl-job", "rl_job.html", parts, frame),
    }


def chosen(asked: str | None, envs: int | None, pictured: Sequence[int]) -> int | None:
    """The environment that is looked at: the one that was asked for if there is one, or the first with a picture."""
    if asked is not None and asked.isascii() and asked.isdecimal() and len(asked) <= len(str(ENVS_MAX)):
        env = int(asked)
        if env in pictured or (envs is not None and env < envs):
            return env
    return pictured[0] if pictured else None


def grid(axes: Sequence[RlAxisView], places: Mapping[int, int], episodes: int | None) -> Mapping[str, Any] | None:
    """A map of two values, the first from left to right, the second from top to bottom; `None`: it is of others.

    A cell shows that of its places that was come to in most episodes.
    """
    if len(axes) != 2:
        return None
    width, height = (each.width for each in axes)
    across, down = math.ceil(width / CELLS), math.ceil(height / CELLS)
    most: dict[tuple[int, int], tuple[int, int]] = {}
    for number, count in places.items():
        at = number // height // across, number % height // down
        if number < width * height and count > most.get(at, (0, 0))[0]:
            most[at] = count, number
    whole = max(episodes or 0, max(places.values(), default=1), 1)
    return {
        "columns": math.ceil(width / across),
        "rows": math.ceil(height / down),
        "across": across,
        "down": down,
        "x": axes[0].name,
        "y": axes[1].name,
        "numbered": max(width, height) <= NUMBERED,
        "cells": [_cell(at, count / whole, number, axes) for at, (count, number) in sorted(most.items())],
        "of": width * height,
    }


def _list_frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    return {"title": "Reinforcement learning"}


def _parts(desk: Desk, subject: Subject, told: RlDetail, explored: Mapping[int, int]) -> Sequence[Part]:
    row, now = told.row, desk.status().at
    return [
        strip(desk.status()),
        Part("head", "parts/rl_head.html", _row(row, now)),
        Part("numbers", "parts/rl_numbers.html", _numbers(told), kind="numbers"),
        Part("curves", "parts/rl_curves.html", {"lines": row.lines, "steps": row.numbers.steps}, kind="curves"),
        Part("picture", "parts/rl_picture.html", _picture(told, subject.get("env")), kind="panel viewer"),
        Part("explored", "parts/rl_explored.html", _explored(told, explored)),
        Part("spent", "parts/rl_spent.html", _spent(told)),
        Part("rewards", "parts/rl_rewards.html", _rewards(told)),
        Part("advice", "parts/rl_advice.html", _advice(told)),
        Part("update", "parts/rl_update.html", {"update": _figures(told.update)}),
        Part("troubles", "parts/rl_troubles.html", _troubles(told)),
    ]


def _row(row: RlRow, now: float) -> Mapping[str, Any]:
    """A job in a line, rounded to what is seen."""
    numbers = row.numbers
    silent = row.told_at is not None and row.job.state.held and now - row.told_at >= SILENT_S and numbers.done is None
    return {
        "job": row.job.id,
        "name": row.job.name,
        "state": row.job.state,
        "why": row.job.why,
        "device": row.job.device,
        "attempt": row.attempt,
        "told_at": row.told_at,
        "is_silent": silent,
        "fault": row.fault,
        "lines": row.lines,
        "skipped": row.skipped,
        "steps": numbers.steps,
        "share": _share(numbers.steps, numbers.steps_asked),
        # What was the rate when it still told something is no rate now.
        "per_s": None if silent or not row.job.state.held else _three(numbers.per_s),
        "per_s_mean": _three(numbers.per_s_mean),
        "episodes": numbers.episodes,
        "reward": _three(numbers.reward),
        "alarms": numbers.alarms,
        "done": numbers.done,
    }


def _numbers(told: RlDetail) -> Mapping[str, Any]:
    numbers, is_held = told.row.numbers, told.row.job.state.held
    return {
        "steps": numbers.steps,
        "asked": numbers.steps_asked,
        "share": _share(numbers.steps, numbers.steps_asked),
        "per_s": _three(numbers.per_s),
        "is_now": is_held and numbers.done is None,
        "window_s": None if numbers.window_s is None else round(numbers.window_s),
        "per_s_mean": _three(numbers.per_s_mean),
        "per_cpu_s": _three(numbers.per_cpu_s),
        "seconds": None if numbers.seconds is None else round(numbers.seconds),
        "envs": numbers.envs,
        "updates": numbers.updates,
        "episodes": numbers.episodes,
        "reward": _three(numbers.reward),
        "places": _three(numbers.places),
        "explored": told.places_explored if told.row.numbers.steps is not None else None,
        "of": math.prod(each.width for each in told.map) if told.map else None,
    }


def _picture(told: RlDetail, asked: str | None) -> Mapping[str, Any]:
    """The environment that is looked at, those beside it, and small pictures of the others."""
    by_env = {each.env: each for each in told.pictures}
    envs = told.row.numbers.envs
    env = chosen(asked, envs, sorted(by_env))
    known = range(envs) if envs is not None else sorted(by_env)
    return {
        "job": told.row.job.id,
        "env": env,
        "envs": envs,
        "picture": None if env is None else by_env.get(env),
        "steps": told.row.numbers.steps,
        "before": None if env is None else _beside(known, env, -1),
        "after": None if env is None else _beside(known, env, 1),
        "thumbs": [by_env[each] for each in _around(sorted(by_env), env)],
    }


def _beside(known: Sequence[int], env: int, way: int) -> int:
    """The environment before or behind one, around the end."""
    if env not in known:
        return env
    return known[(known.index(env) + way) % len(known)]


def _around(pictured: Sequence[int], env: int | None) -> Sequence[int]:
    """At most `THUMBS` of them, with that one among them."""
    at = pictured.index(env) if env in pictured else 0
    begin = max(min(at - THUMBS // 2, len(pictured) - THUMBS), 0)
    return pictured[begin : begin + THUMBS]


def _explored(told: RlDetail, explored: Mapping[int, int]) -> Mapping[str, Any]:
    episodes = told.row.numbers.episodes
    most = sorted(told.explored, key=lambda each: (-each.episodes, each.number))[:PLACES_LISTED]
    return {
        "grid": grid(told.map, explored, episodes),
        "most": [(each.number, _where(each.number, told.map), _share(each.episodes, episodes)) for each in most],
        "explored": told.places_explored,
        "of": math.prod(each.width for each in told.map) if told.map else None,
        "episodes": episodes,
    }


def _cell(at: tuple[int, int], share: float, number: int, axes: Sequence[RlAxisView]) -> Cell:
    heat = max(math.ceil(min(share, 1.0) * HEATS), 1)
    return Cell(*at, heat, round(share, 2), _where(number, axes))


def _where(number: int, axes: Sequence[RlAxisView]) -> str:
    """A place by the values that it is a combination of, the last one fastest."""
    if not axes:
        return f"place {number}"
    words: list[str] = []
    for axis in reversed(axes):
        number, value = divmod(number, axis.width)
        words.append(f"{axis.name} {value}")
    return ", ".join(reversed(words))


def _spent(told: RlDetail) -> Mapping[str, Any]:
    """What time went into; and where each share begins in a bar of them all, in thousandths."""
    rows, x = [], 0.0
    for number, each in enumerate(told.spent):
        share = each.share or 0.0
        rows.append(
            {
                "name": each.name,
                "look": number % 6,
                "x": round(1000 * x),
                "width": round(1000 * (x + share)) - round(1000 * x),
                "seconds": _three(each.seconds),
                "share": None if each.share is None else round(each.share, 3),
                "share_now": None if each.share_now is None else round(each.share_now, 2),
            }
        )
        x += share
    return {"rows": rows, "whole": _three(sum(each.seconds for each in told.spent)), "seconds": _seconds(told)}


def _seconds(told: RlDetail) -> int | None:
    return None if told.row.numbers.seconds is None else round(told.row.numbers.seconds)


def _rewards(told: RlDetail) -> Mapping[str, Any]:
    episodes = told.row.numbers.episodes
    rows = [
        {
            "name": each.name,
            "paid": _three(each.paid),
            "by_episode": None if each.paid is None or not episodes else _three(each.paid / episodes),
            "share": None if each.share is None else round(each.share, 3),
            "is_alarm": each.is_alarm,
        }
        for each in told.parts
    ]
    return {"rows": rows, "alarms": [each.name for each in told.parts if each.is_alarm]}


def _advice(told: RlDetail) -> Mapping[str, Any]:
    advice = told.advice
    if advice is None:
        return {"is_told": False}
    rows = [(each.name, each.calls, _three(each.mean_s), _three(each.longest_s)) for each in advice.calls]
    return {
        "is_told": True,
        "success": None if advice.success is None else round(advice.success, 3),
        "half_s": _three(advice.half_s),
        "most_s": _three(advice.most_s),
        "numbers": _figures(advice.numbers),
        "calls": rows,
        "trouble": advice.trouble,
        "alarm": advice.alarm,
    }


def _figures(told: Mapping[str, float | None]) -> Mapping[str, float | None]:
    return {name: _three(value) for name, value in told.items()}


def _troubles(told: RlDetail) -> Mapping[str, Any]:
    return {"rows": told.troubles[-TROUBLES_SHOWN:][::-1], "of": told.troubles_told, "skipped": told.row.skipped}


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else min(round(part / whole, 3), 1.0)


def _three(value: float | None) -> float | None:
    """A number with three figures, as it is shown."""
    return None if value is None else float(f"{value:.3g}")
