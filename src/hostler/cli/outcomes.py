"""The end of a job as one line, and as an exit status."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hostler.cli.show import clean, headline
from hostler.model.units import duration

if TYPE_CHECKING:
    from hostler.client import Client, View

FINAL = frozenset({"done", "failed", "cancelled"})
FAILED = 1
LISTED = 10
"""Jobs that a message names."""
STATUS_MOST = 255
SIGNALLED = 128
"""A process that signal n ended has the exit status 128 + n, as shells count it."""
BUDGET = re.compile(
    r"(?s)(?P<what>.*) \((?P<failure>[\w-]+): (?P<count>\d+) of (?P<budget>\d+) allowed attempts used\)"
)
"""The end of a failed job's `why`, as `policy.retry` writes it."""
EXIT = re.compile(r"(?s)exit status (?P<code>\d+)(?:: (?P<line>.*))?")


def is_over(job: Mapping[str, Any]) -> bool:
    """Whether nothing more becomes of a job unless somebody retries it."""
    return job["state"] in FINAL


def outcome_line(job: View) -> str:
    """A job that has ended: `j1 done in 12 s`, `j9 failed: exit 3, attempt 2 of 2: ValueError: no data`."""
    if job["state"] == "done":
        return f"{job['id']} done{_took(job)}"
    why = clean(_failure(headline(str(job["why"] or ""))))
    return f"{job['id']} {job['state']}" + (f": {why}" if why else "")


def exit_status(client: Client, job: View) -> int:
    """The exit status of a job that has ended: that of its last process where it failed by it, otherwise 1."""
    if job["state"] == "done":
        return 0
    if job["state"] != "failed" or job["work"] == "sweep" or not job["attempts"]:
        return FAILED
    return _status_of(entry["event"] for entry in client.story(job["id"]))


def _status_of(events: Iterable[Mapping[str, Any]]) -> int:
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


def _took(job: View) -> str:
    if job["started_at"] is None or job["ended_at"] is None:
        return ""
    return f" in {duration(max(job['ended_at'] - job['started_at'], 0.0))}"


def _failure(why: str) -> str:
    """The reason of a failed job with the exit status and the count of attempts in front."""
    found = BUDGET.fullmatch(why)
    if found is None:
        return why
    tries = f"attempt {found['count']} of {found['budget']}"
    ended = EXIT.fullmatch(found["what"])
    if ended is None:
        return f"{tries}: {found['what']}"
    return f"exit {ended['code']}, {tries}" + (f": {ended['line']}" if ended["line"] else "")


def print_interrupted(ids: Sequence[str]) -> None:
    """Print that these jobs go on although the command that waited for them was interrupted."""
    if ids:
        more = f" and {len(ids) - LISTED} more" if len(ids) > LISTED else ""
        what = "continues" if len(ids) == 1 else "continue"
        print(
            f"\nhostler: interrupted; {', '.join(ids[:LISTED])}{more} {what}, `hostler cancel {ids[0]}` would end "
            f"{'it' if len(ids) == 1 else 'the first'}",
            file=sys.stderr,
        )
