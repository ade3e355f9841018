"""The end of a job as one line, and as an exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hostler.cli.show import clean
from hostler.client.outcomes import is_of_process, outcome, status_of

if TYPE_CHECKING:
    from hostler.client import Client, View

LISTED = 10
"""Jobs that a message names."""


def outcome_line(job: View) -> str:
    """A job that has ended: `j1 done in 12 s`, `j9 failed: exit 3, attempt 2 of 2: ValueError: no data`."""
    return clean(outcome(job))


def exit_status(client: Client, job: View) -> int:
    """The exit status of a job that has ended: that of its last process where it failed by it, otherwise 1."""
    events = (entry["event"] for entry in client.story(job["id"])) if is_of_process(job) else ()
    return status_of(job, events)


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
