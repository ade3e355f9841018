"""Function calls of `hostler.Executor`: batches of them, and one batch with what its calls returned or raised.

A batch is a sweep whose items are the calls (docs/decisions/0034). Results come from nodes and may hold anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.errors import NotFound
from hostler.model.views import HitView, SweepView
from hostler.web.desk import Desk
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip
from hostler.web.pages.sweep import speeds

LISTED = 50
RESULTS_SHOWN = 50
TEXT_SHOWN = 300
TRACEBACK_SHOWN = 4000
FAILURES = {
    "died": "ended its process",
    "unfit": "result not sent",
    "unloadable": "could not be loaded",
}
"""Ends of a call without a value and without an exception, by the name that a worker gives them."""


async def list_parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """Batches, the newest first, some at a time."""
    before = subject.get("before")
    last = int(before) if before is not None and before.isascii() and before.isdecimal() else None
    found = [each for each in desk.sweeps() if each.calls and (last is None or _number(each) < last)]
    found.sort(key=_number, reverse=True)
    more = _number(found[LISTED - 1]) if len(found) > LISTED else None
    shown = {"rows": [_rounded(each) for each in found[:LISTED]], "more": more}
    return [strip(desk.status()), Part("batches", "parts/batches.html", shown)]


def list_frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """The title."""
    return {"title": "Function calls"}


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """A batch in numbers, the devices at work on it, and its newest results."""
    seen = await desk.having(subject.name or "")
    ledger = seen.ledger()
    view = ledger.sweep
    hits = await desk.hits(view.job, max(view.hits - RESULTS_SHOWN, 0), RESULTS_SHOWN)
    job = seen.job().job
    numbers = {**_rounded(view), "owner": job.owner, "why": job.why, "submitted_at": job.submitted_at}
    return [
        strip(desk.status()),
        Part("numbers", "parts/batch_numbers.html", {"batch": numbers}, kind="numbers"),
        Part("devices", "parts/batch_devices.html", {"rows": speeds(ledger.leased, desk.status().at)}),
        Part("results", "parts/call_results.html", {"rows": [result(each) for each in hits][::-1], "of": view.hits}),
    ]


async def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Which batch it is. Raises `NotFound` for a job that is not one."""
    view = (await desk.having(subject.name or "")).ledger().sweep
    if not view.calls:
        raise NotFound(f"{view.job} is a sweep: there is no batch of function calls of that name")
    return {"title": f"Calls of {view.name}", "job": view.job}


BATCHES = Page("batches", "batches.html", list_parts, list_frame)
BATCH = Page("batch", "batch.html", parts, frame)


def result(hit: HitView) -> Mapping[str, Any]:
    """The outcome of a call: a word, the value or the exception, and the traceback of the exception."""
    data: Mapping[str, Any] = hit.data
    shown = {"call": hit.at, "good": False, "traceback": None}
    if "value" in data:
        return {**shown, "good": True, "how": "returned", "says": _short(data["value"])}
    if "pickle" in data:
        return {**shown, "good": True, "how": "returned", "says": "a pickled object"}
    error = data.get("error")
    if isinstance(error, Mapping):
        says = f"{error.get('type', 'an exception')}: {error.get('text', '')}"
        traceback = error.get("traceback")
        told = traceback[-TRACEBACK_SHOWN:] if isinstance(traceback, str) and traceback else None
        return {**shown, "how": "raised", "says": _short(says), "traceback": told}
    known = next((name for name in FAILURES if name in data), None)
    if known is None:
        return {**shown, "how": "unknown", "says": "the result has none of the known forms"}
    return {**shown, "how": FAILURES[known], "says": _short(data[known])}


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= TEXT_SHOWN else text[: TEXT_SHOWN - 1] + "…"


def _rounded(view: SweepView) -> dict[str, Any]:
    return {
        "job": view.job,
        "name": view.name,
        "state": str(view.state),
        "calls": view.total,
        "done": view.done,
        "share": round(view.done / view.total, 4) if view.done < view.total else 1.0,
        "out": view.leased,
        "waiting": view.free,
        "per_s": None if view.per_s is None else float(f"{view.per_s:.3g}"),
        "left_s": None if view.left_s is None else float(f"{view.left_s:.2g}"),
        "device_s": float(f"{view.device_s:.3g}"),
    }


def _number(view: SweepView) -> int:
    return int(view.job.removeprefix("j"))
