"""What Slurm calls the states of a job, and what each of them means for us.

A state is over only where Slurm says so in a word that is known here. A word that is not keeps the job alive and is
shown as it is: who gives up a job that still runs starts it a second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from hostler.model.record import record


class Phase(StrEnum):
    """Where a job stands, as far as it matters to who waits for it."""

    WAITING = "waiting"
    """Its script does not run: it is in the queue, is held, is requeued, or its nodes are being started."""
    RUNNING = "running"
    """Its script has been started, and has not been told to end; it may be stopped or suspended."""
    ENDING = "ending"
    """It is told to end, or has ended, and its nodes are not free yet."""
    OVER = "over"
    """Nothing of it runs any more, if its nodes are in order: a node that failed may run it still."""
    UNKNOWN = "unknown"
    """A word that nobody here knows."""


class Outcome(StrEnum):
    """Why a job is over."""

    COMPLETED = "completed"
    """Its script has ended with status 0. That says nothing of its output."""
    FAILED = "failed"
    """Its script has ended with another status, or by a signal."""
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    NODE_FAIL = "node_fail"
    """One of its nodes is gone, or cannot be reached by Slurm: what ran there may run on."""
    OUT_OF_MEMORY = "out_of_memory"
    PREEMPTED = "preempted"
    BOOT_FAIL = "boot_fail"
    """Its nodes did not start."""
    DEADLINE = "deadline"
    """It could not be done before the deadline it was given."""
    REVOKED = "revoked"
    """Another cluster of a federation has it."""


@record
class State:
    """One state, understood."""

    text: str
    """What Slurm said."""
    phase: Phase
    outcome: Outcome | None = None
    """Only of what is over, or ending with a reason."""
    by: int | None = None
    """User id of who cancelled it, where Slurm tells."""

    @property
    def over(self) -> bool:
        """Whether nothing more happens to the job by itself, unless it is requeued (see `verdict`)."""
        return self.phase is Phase.OVER


STATES: Mapping[str, tuple[str, Phase, Outcome | None]] = {
    "PENDING": ("PD", Phase.WAITING, None),
    "CONFIGURING": ("CF", Phase.WAITING, None),
    "POWER_UP_NODE": ("PU", Phase.WAITING, None),
    "REQUEUED": ("RQ", Phase.WAITING, None),
    "REQUEUE_FED": ("RF", Phase.WAITING, None),
    "REQUEUE_HOLD": ("RH", Phase.WAITING, None),
    "RESV_DEL_HOLD": ("RD", Phase.WAITING, None),
    "SPECIAL_EXIT": ("SE", Phase.WAITING, None),
    "RUNNING": ("R", Phase.RUNNING, None),
    "RESIZING": ("RS", Phase.RUNNING, None),
    "SIGNALING": ("SI", Phase.RUNNING, None),
    "STOPPED": ("ST", Phase.RUNNING, None),
    "SUSPENDED": ("S", Phase.RUNNING, None),
    "COMPLETING": ("CG", Phase.ENDING, None),
    "STAGE_OUT": ("SO", Phase.ENDING, None),
    "COMPLETED": ("CD", Phase.OVER, Outcome.COMPLETED),
    "FAILED": ("F", Phase.OVER, Outcome.FAILED),
    "CANCELLED": ("CA", Phase.OVER, Outcome.CANCELLED),
    "TIMEOUT": ("TO", Phase.OVER, Outcome.TIMEOUT),
    "NODE_FAIL": ("NF", Phase.OVER, Outcome.NODE_FAIL),
    "OUT_OF_MEMORY": ("OOM", Phase.OVER, Outcome.OUT_OF_MEMORY),
    "PREEMPTED": ("PR", Phase.OVER, Outcome.PREEMPTED),
    "BOOT_FAIL": ("BF", Phase.OVER, Outcome.BOOT_FAIL),
    "DEADLINE": ("DL", Phase.OVER, Outcome.DEADLINE),
    "REVOKED": ("RV", Phase.OVER, Outcome.REVOKED),
}
"""Every state and flag that Slurm's commands show, with its short code. `SPECIAL_EXIT` is a job that waits, held, after
a requeue; `STOPPED` and `SUSPENDED` ones have their processes still."""

HOPELESS: Mapping[str, str] = {
    "AccountNotAllowed": "the partition takes no jobs of this `account`",
    "AssocMaxWallDurationPerJobLimit": "the account allows jobs no such wall time; lower `most_s`, or a job's `time_s`",
    "BadConstraints": "no node of the partition satisfies its `constraint`, `gpu_type`, CPUs and memory together",
    "DeadLine": "it cannot be done before its deadline",
    "DependencyNeverSatisfied": "what it depends on has failed",
    "InvalidAccount": "the `account` is not one of this user",
    "InvalidQOS": "the `qos` is not one of this account",
    "JobHeldAdmin": "an administrator holds it",
    "JobHeldUser": "somebody holds it (`scontrol release` frees it)",
    "NodeDown": "a node that it asks for is down",
    "PartitionConfig": "it asks for more than the partition allows",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "PartitionNodeLimit": "it asks for more than the partition's nodes have, or the partition is empty",
    "PartitionTimeLimit": "its wall time is beyond the `MaxTime` of the partition, lowered since it was asked for",
    "QOSMaxWallDurationPerJobLimit": "the `qos` allows jobs no such wall time; lower `most_s`, or a job's `time_s`",
    "QOSNotAllowed": "the partition takes no jobs of this `qos`",
    "ReservationDeleted": "its `reservation` is gone",
}
"""Reasons for which a job may wait for ever, and what is wrong: Slurm takes jobs that can never start."""

CODES: Mapping[str, str] = {code: name for name, (code, _, _) in STATES.items()}
_BY = re.compile(r"\bBY\s+(\d{1,10})\b")
_WORD = re.compile(r"[^\s,|+]+\+?")
_CUT_MIN = 5
_NOISE_MAX = 100


def read_state(text: str) -> State:
    """The state in the words of any of Slurm's commands: `RUNNING`, `pd`, `CANCELLED by 1000`, `COMPLETED+`.

    Where it is several (`PREEMPTED,REQUEUED`), what still goes on wins over what has been.
    """
    upper = text.upper()
    by = _BY.search(upper)
    said = text.strip()[:_NOISE_MAX]
    words = _WORD.findall(upper if by is None else upper[: by.start()])
    known = [_known(word) for word in words]
    if not known or None in known:
        return State(text=said, phase=Phase.UNKNOWN)
    found = [each for each in known if each is not None]
    phase = _phase({phase for phase, _ in found})
    outcome = next((outcome for _, outcome in found if outcome is not None), None)
    return State(
        text=said,
        phase=phase,
        outcome=outcome if phase in (Phase.OVER, Phase.ENDING) else None,
        by=int(by[1]) if by is not None and outcome is Outcome.CANCELLED else None,
    )


def verdict(listed: State | None, recorded: State | None) -> State | None:
    """How a job stands, of what the queue says and of what accounting says; `None`: neither knows it.

    `listed` is `None` only where the queue was asked, has answered, and does not have the job. A job that is requeued
    stays in the queue under its own id, waiting; accounting may meanwhile have `PREEMPTED`, `NODE_FAIL` or `REQUEUED`
    of the run before. So the queue's word wins, and what accounting says is the end only where the queue has the job no
    more, or has its end as well.
    """
    if listed is not None and (not listed.over or recorded is None or not recorded.over):
        return listed
    return recorded if recorded is not None else listed


def _known(word: str) -> tuple[Phase, Outcome | None] | None:
    whole = word.removesuffix("+")
    found = STATES.get(CODES.get(whole, whole))
    if found is None and whole != word and len(whole) >= _CUT_MIN:
        found = _completed(whole)
    return None if found is None else found[1:]


def _completed(begin: str) -> tuple[str, Phase, Outcome | None] | None:
    """The one state that begins so: in narrow columns `+` stands for the rest (`OUT_OF_ME+`)."""
    names = [name for name in STATES if name.startswith(begin)]
    return STATES[names[0]] if len(names) == 1 else None


def _phase(phases: Iterable[Phase]) -> Phase:
    return next(each for each in (Phase.ENDING, Phase.WAITING, Phase.RUNNING, Phase.OVER) if each in phases)
