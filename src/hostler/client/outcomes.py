"""The end of a job: whether it has ended, how, and its exit status."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hostler.model.units import duration

FINAL = frozenset({"done", "failed", "cancelled"})
FAILED = 1
STATUS_MOST = 255
SIGNALLED = 128
"""A process that signal n ended has the exit status 128 + n, as shells count it."""
BUDGET = r"(?s)(?P<what>.*) \((?P<failure>[\w-]+): (?P<count>\d+) of (?P<budget>\d+) allowed attempts used\)"
"""The end of a failed job's `why`, as `policy.retry` writes it."""
EXIT = r"(?s)exit status (?P<code>\d+)(?:: (?P<line>.*))?"


def is_over(job: Mapping[str, Any]) -> bool:
    """Whether nothing more becomes of a job unless somebody retries it."""
    return job["state"] in FINAL


def outcome(job: Mapping[str, Any]) -> str:
    """A job that has ended: `j1 done in 12 s`, `j9 failed: exit 3, attempt 2 of 2: ValueError: no data`.

    It may contain what the job has printed, control characters included.
    """
    if job["state"] == "done":
        refused = not_kept(job)
        return f"{job['id']} done{_took(job)}" + (f"; {refused}" if refused else "")
    why = reason_of(job)
    return f"{job['id']} {job['state']}" + (f": {why}" if why else "")


def not_kept(job: Mapping[str, Any]) -> str:
    """That files which a job left were not kept, and why; empty where all were."""
    why = job.get("unfetched")
    return f"not all outputs were kept: {why}" if why else ""


def reason_of(job: Mapping[str, Any]) -> str:
    """Why a job has ended as it has, with the exit status and the count of attempts in front."""
    return _failure(headline(str(job["why"] or "")))


def headline(text: str) -> str:
    """A reason without what a build printed last (`policy.retry.PRINTED`)."""
    return text.partition(" Its last lines:\n")[0]


def status_of(job: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> int:
    """The exit status of a job that has ended, by its events: that of its last process if that failed, otherwise 1."""
    if job["state"] == "done":
        return 0
    if not is_of_process(job):
        return FAILED
    last: Mapping[str, Any] = {}
    for event in events:
        if event["kind"] == "attempt.leased":
            last = {}
        if event["kind"] == "attempt.ended":
            last = event
    if last.get("signal") is not None:
        return SIGNALLED + int(last["signal"])
    code = last.get("exit_code")
    return code if isinstance(code, int) and 0 < code <= STATUS_MOST else FAILED


def is_of_process(job: Mapping[str, Any]) -> bool:
    """Whether the exit status of a job may be that of its last process."""
    return bool(job["state"] == "failed" and job["work"] != "sweep" and job["attempts"])


def _took(job: Mapping[str, Any]) -> str:
    return "" if job["duration_s"] is None else f" in {duration(job['duration_s'])}"


def _failure(why: str) -> str:
    """The reason of a failed job with the exit status and the count of attempts in front."""
    found = re.fullmatch(BUDGET, why)
    if found is None:
        return why
    tries = f"attempt {found['count']} of {found['budget']}"
    ended = re.fullmatch(EXIT, found["what"])
    if ended is None:
        return f"{tries}: {found['what']}"
    return f"exit {ended['code']}, {tries}" + (f": {ended['line']}" if ended["line"] else "")
