"""Text of Slurm's commands to records. Pure; what cannot be read is handed back as it is, not raised or guessed.

Columns are separated, and rows of the queue and of nodes ended, by characters that nobody types, so that names and
comments may hold any other: line feeds, too. Times are Unix seconds: the commands run with `SLURM_TIME_FORMAT=%s`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from hostler.backends.slurm.spans import Tasks, counted, duration_s, moment, number, tasks_of
from hostler.backends.slurm.states import State, read_state
from hostler.model.record import record

R = TypeVar("R")

SEPARATOR = "\x1f"
"""Unit separator; Slurm's commands print it as they are told."""
END = "\x1e"
"""Record separator; ends each row that somebody else's words may be in. What lacks it is torn off."""
QUEUE_FORMAT = SEPARATOR.join(("%A", "%F", "%K", "%T", "%r", "%u", "%P", "%V", "%S", "%e", "%N", "%j", "%k")) + END
"""For `squeue -o`: id, id and tasks of its array, state, reason, user, partition, submission, start, end, nodes, name,
comment."""
QUEUE_COLUMNS = QUEUE_FORMAT.count(SEPARATOR) + 1
ACCOUNTING_FIELDS = (
    "JobID", "JobIDRaw", "State", "ExitCode", "Submit", "Start", "End", "Partition", "NodeList", "JobName", "Comment",
)  # fmt: skip
"""For `sacct --format`."""
NODE_FIELDS = (
    "NodeList", "Partition", "Available", "StateLong", "CPUsState", "Memory", "AllocMem", "Gres", "GresUsed", "Time",
    "Features", "Reason",
)  # fmt: skip
"""For `sinfo -O`, one line for each node of each partition."""
NODE_FORMAT = ",".join(f"{name}:{SEPARATOR}" for name in NODE_FIELDS) + END
UNREAD_MAX = 300
"""Characters kept of a line that could not be read."""


@dataclass(frozen=True, slots=True)
class Parsed(Generic[R]):
    """What was read, and the lines that were not."""

    rows: tuple[R, ...]
    unread: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether all of it was read. Only then does it mean something that a row is not there."""
        return not self.unread


@record
class QueueRow:
    """A job in the queue; or some tasks of an array, which wait in one row together."""

    job: str
    """Its own id. Tasks that wait have that of their array."""
    array: str | None = None
    """Id of the array it is of. When the tasks that wait are cancelled together, Slurm tells of them in one row under
    the id of the array, which names no array and no tasks."""
    tasks: tuple[int, ...] = ()
    """Which tasks of the array; empty where it is none."""
    state: State
    reason: str | None = None
    user: str
    partition: str
    submitted: float | None = None
    started: float | None = None
    """Of what waits: when Slurm means to start it."""
    ends: float | None = None
    """When its wall time is over."""
    nodes: str | None = None
    name: str
    comment: str | None = None


@record
class AccountingRow:
    """A job as accounting has it: of what was requeued, the newest run."""

    job: str
    array: str | None = None
    tasks: tuple[int, ...] = ()
    state: State
    status: int | None = None
    """Exit status of its script."""
    signal: int | None = None
    """The signal that ended it; 0 where none did."""
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    partition: str | None = None
    nodes: str | None = None
    name: str
    comment: str | None = None
    """Kept only where the cluster is configured to (`AccountingStoreFlags=job_comment`)."""


@record
class Gres:
    """Generic resources of one kind and type, such as two H100."""

    kind: str
    type: str | None = None
    """As the cluster calls it; `None` where it has no name for it."""
    count: int


@record
class NodeRow:
    """A node as a member of one partition."""

    node: str
    partition: str
    default: bool
    """Whether jobs that name no partition go to this one."""
    available: str
    """Of the partition: `up`, `down`, `drain` or `inact`."""
    state: str
    """`idle`, `mixed`, `allocated`, `drained`, `down`, ... without the signs behind it."""
    signs: str = ""
    """Those signs: `*` does not answer, `~` is switched off, `#` `!` `%` is being switched on or off, `$` is in
    maintenance, `@` `^` reboots, `-` is planned for a job."""
    cpus_allocated: int | None = None
    cpus_idle: int | None = None
    cpus: int | None = None
    memory_mb: int | None = None
    memory_allocated_mb: int | None = None
    gres: tuple[Gres, ...] = ()
    used: tuple[Gres, ...] = ()
    time_limit_s: float | None = None
    """Longest wall time in the partition; infinite where there is no limit, `None` where it is not told."""
    features: tuple[str, ...] = ()
    reason: str | None = None
    """Why somebody has taken it out of use."""

    @property
    def usable(self) -> bool:
        """Whether it takes jobs, now or once it is switched on."""
        return self.state.rstrip("+") in USABLE and not set(self.signs) & set(GONE)


USABLE = frozenset(
    {"idle", "mixed", "allocated", "completing", "alloc", "mix", "comp", "planned", "power_down", "reserved"}
)
GONE = "*$"


@record
class JobRecord:
    """A job as `scontrol show job` has it: as long as it is there, and some minutes longer (`MinJobAge`)."""

    job: str
    array: str | None = None
    tasks: tuple[int, ...] = ()
    name: str | None = None
    comment: str | None = None
    state: State
    reason: str | None = None
    status: int | None = None
    signal: int | None = None
    restarts: int | None = None
    requeue: bool | None = None
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    """Of what is not over: when its wall time is."""
    partition: str | None = None
    nodes: str | None = None


@record
class PartitionRecord:
    """A partition and its rules, as `scontrol show partition` has them."""

    name: str
    default: bool
    state: str
    """`UP`, `DOWN`, `DRAIN` or `INACTIVE`."""
    max_time_s: float | None = None
    """Infinite where there is no limit, `None` where it is not told."""
    default_time_s: float | None = None
    """`None`: the longest."""
    allow_accounts: tuple[str, ...] | None = None
    """`None`: all."""
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] | None = None
    deny_qos: tuple[str, ...] = ()
    nodes: str | None = None
    cpus: int | None = None
    tres: Mapping[str, str]
    """All of its trackable resources: `cpu`, `mem`, `gres/gpu:h100`, ..."""


def queue_rows(text: str) -> Parsed[QueueRow]:
    """What `squeue -h -o QUEUE_FORMAT` prints."""
    return _parsed(_ended(text), _queue_row)


def accounting_rows(text: str) -> Parsed[AccountingRow]:
    """What `sacct -X -n -P --delimiter SEPARATOR --format ACCOUNTING_FIELDS` prints."""
    return _parsed(_lines(text), _accounting_row)


def node_rows(text: str) -> Parsed[NodeRow]:
    """What `sinfo -h -N -O NODE_FORMAT` prints."""
    return _parsed(_ended(text), _node_row)


def job_records(text: str) -> Parsed[JobRecord]:
    """What `scontrol -o show job` prints."""
    return _parsed(_paragraphs(text), _job_record)


def partition_records(text: str) -> Parsed[PartitionRecord]:
    """What `scontrol -o show partition` prints."""
    return _parsed(_lines(text), _partition_record)


def submitted_id(text: str) -> str | None:
    """The job id of `sbatch --parsable`, whatever the site prints before it; `None` where there is none."""
    found = [match[1] for match in map(_SUBMITTED.fullmatch, text.splitlines()) if match is not None]
    return found[-1] if found else None


def version_of(text: str) -> tuple[int, ...] | None:
    """`slurm-wlm 22.05.8` as numbers."""
    found = _VERSION.search(text)
    return None if found is None else tuple(map(int, found[1].split(".")))


def gres_of(text: str) -> tuple[Gres, ...]:
    """`gpu:h100:2(S:0-1),shard:8`; what is no resource with a count is left out."""
    return tuple(each for each in map(_gres, _COMMA.split(text)) if each is not None)


_SUBMITTED = re.compile(r"\s*([1-9]\d{0,17})(?:;[\w.-]+)?\s*", re.ASCII)
_VERSION = re.compile(r"\bslurm\S*\s+(\d{1,4}(?:\.\d{1,4}){1,3})", re.ASCII | re.IGNORECASE)
_COMMA = re.compile(r",(?![^(]*\))")
_GRES = re.compile(
    r"([A-Za-z_]\w*)(?::(?!no_consume:)([^:()]+))?(?::no_consume)?:(\d{1,15}[KMGT]?)(?:\(.*\))?", re.ASCII
)
_NODE_STATE = re.compile(r"([a-z_]+\+?)([*~#!%$@^-]*)", re.IGNORECASE)
_JOB_ID = re.compile(r"([1-9]\d{0,17})(?:_(.+))?", re.ASCII)
_EXIT = re.compile(r"(\d{1,9}):(\d{1,9})", re.ASCII)
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z/:_]*)=")
_JOB_NAME = re.compile(r"\sJobName=(.*?) UserId=", re.DOTALL)
_NEXT_JOB = re.compile(r"\n(?=JobId=\d)")
_EMPTY = frozenset({"No jobs in the system", "No partitions in the system"})
_NO_TASK = "4294967294"
_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "none", "NONE", "Unknown"})


def _parsed(pieces: Iterable[tuple[str, bool]], read: Callable[[str], R | None]) -> Parsed[R]:
    """Each piece of text, with whether it is complete, to a row."""
    rows: list[R] = []
    unread: list[str] = []
    for piece, complete in pieces:
        if not piece.strip() or piece.strip() in _EMPTY:
            continue
        row = read(piece) if complete else None
        if row is None:
            unread.append(piece[:UNREAD_MAX])
        else:
            rows.append(row)
    return Parsed(tuple(rows), tuple(unread))


def _ended(text: str) -> Iterator[tuple[str, bool]]:
    """Rows with an end of their own."""
    *whole, rest = text.split(f"{END}\n")
    yield from ((row, True) for row in whole)
    yield rest, False


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Lines, ended by line feeds alone: `splitlines` would also cut at our separators."""
    *whole, rest = text.split("\n")
    yield from ((line, True) for line in whole)
    yield rest, False


def _paragraphs(text: str) -> Iterator[tuple[str, bool]]:
    """Jobs, some of whose names and comments have line feeds."""
    *whole, rest = _NEXT_JOB.split(text)
    yield from ((job, True) for job in whole)
    yield rest, rest.endswith("\n")


def _queue_row(line: str) -> QueueRow | None:
    parts = line.split(SEPARATOR, QUEUE_COLUMNS - 2)
    if len(parts) != QUEUE_COLUMNS - 1 or SEPARATOR not in parts[-1]:
        return None
    job, array, indices, state, reason, user, partition, submitted, started, ends, nodes, words = parts
    name, _, comment = words.rpartition(SEPARATOR)
    tasks = _array_tasks(indices)
    if tasks is None or not _is_id(job) or not _is_id(array) or not state.strip():
        return None
    return QueueRow(
        job=job,
        array=array if tasks else None,
        tasks=tasks,
        state=read_state(state),
        reason=_text(reason),
        user=user,
        partition=partition,
        submitted=moment(submitted),
        started=moment(started),
        ends=moment(ends),
        nodes=_text(nodes),
        name=name,
        comment=_text(comment),
    )


def _accounting_row(line: str) -> AccountingRow | None:
    parts = line.split(SEPARATOR)
    if len(parts) != len(ACCOUNTING_FIELDS):
        return None
    shown, raw, state, ended_with, submitted, started, ended, partition, nodes, name, comment = parts
    found = _JOB_ID.fullmatch(shown)
    tasks = None if found is None else _array_tasks(found[2] or "")
    if found is None or tasks is None or not _is_id(raw) or not state.strip():
        return None
    status, signal = _exit(ended_with)
    return AccountingRow(
        job=raw,
        array=found[1] if tasks else None,
        tasks=tasks,
        state=read_state(state),
        status=status,
        signal=signal,
        submitted=moment(submitted),
        started=moment(started),
        ended=moment(ended),
        partition=_text(partition),
        nodes=None if nodes == "None assigned" else _text(nodes),
        name=name,
        comment=_text(comment),
    )


def _node_row(line: str) -> NodeRow | None:
    parts = [part.strip() for part in line.removesuffix(SEPARATOR).split(SEPARATOR)]
    if len(parts) != len(NODE_FIELDS):
        return None
    node, partition, available, state, cpus, memory, allocated, gres, used, limit, features, reason = parts
    found = _NODE_STATE.fullmatch(state)
    name = partition.removesuffix("*")
    if found is None or not node or not name:
        return None
    counts = [number(part) for part in cpus.split("/")]
    busy, idle, _, total = counts if len(counts) == 4 else (None, None, None, None)
    return NodeRow(
        node=node,
        partition=name,
        default=name != partition,
        available=available,
        state=found[1].lower(),
        signs=found[2],
        cpus_allocated=busy,
        cpus_idle=idle,
        cpus=total,
        memory_mb=number(memory),
        memory_allocated_mb=number(allocated),
        gres=gres_of(gres),
        used=gres_of(used),
        time_limit_s=duration_s(limit),
        features=() if _text(features) is None else tuple(features.split(",")),
        reason=_text(reason),
    )


def _job_record(line: str) -> JobRecord | None:
    said = _pairs(line)
    tasks = None if said is None else _array_tasks(said.get("ArrayTaskId", ""))
    if said is None or tasks is None or not _is_id(said.get("JobId", "")) or not said.get("JobState"):
        return None
    name = _JOB_NAME.search(line)
    status, signal = _exit(said.get("ExitCode", ""))
    requeue = number(said.get("Requeue", ""))
    return JobRecord(
        job=said["JobId"],
        array=said.get("ArrayJobId") if tasks else None,
        tasks=tasks,
        name=None if name is None else name[1],
        comment=_text(said.get("Comment", "")),
        state=read_state(said["JobState"]),
        reason=_text(said.get("Reason", "")),
        status=status,
        signal=signal,
        restarts=number(said.get("Restarts", "")),
        requeue=None if requeue is None else bool(requeue),
        submitted=moment(said.get("SubmitTime", "")),
        started=moment(said.get("StartTime", "")),
        ended=moment(said.get("EndTime", "")),
        partition=_text(said.get("Partition", "")),
        nodes=_text(said.get("NodeList", "")),
    )


def _partition_record(line: str) -> PartitionRecord | None:
    said = _pairs(line)
    if said is None or not said.get("PartitionName") or not said.get("State"):
        return None
    tres = (each.partition("=") for each in said.get("TRES", "").split(",") if "=" in each)
    return PartitionRecord(
        name=said["PartitionName"],
        default=said.get("Default") == "YES",
        state=said["State"],
        max_time_s=duration_s(said.get("MaxTime", "")),
        default_time_s=duration_s(said.get("DefaultTime", "")),
        allow_accounts=_those(said.get("AllowAccounts", "ALL")),
        deny_accounts=_those(said.get("DenyAccounts", "")) or (),
        allow_qos=_those(said.get("AllowQos", "ALL")),
        deny_qos=_those(said.get("DenyQos", "")) or (),
        nodes=_text(said.get("Nodes", "")),
        cpus=number(said.get("TotalCPUs", "")),
        tres={name: amount for name, _, amount in tres},
    )


def _pairs(line: str) -> dict[str, str] | None:
    """The `Key=value`s of a line; `None` where a key is there twice: one of them is part of somebody's text."""
    found = list(_KEY.finditer(line))
    if not found:
        return None
    ends = [each.start() for each in found[1:]] + [len(line)]
    pairs = {each[1]: line[each.end() : end].strip() for each, end in zip(found, ends, strict=True)}
    return pairs if len(pairs) == len(found) else None


def _gres(text: str) -> Gres | None:
    found = _GRES.fullmatch(text.strip())
    count = None if found is None else counted(found[3])
    return None if found is None or count is None else Gres(kind=found[1], type=found[2], count=count)


def _array_tasks(text: str) -> tuple[int, ...] | None:
    """Which tasks; `None` where some are left out, too: what a row says of fewer tells nothing of the others."""
    found = Tasks() if text in _NOTHING or text == _NO_TASK else tasks_of(text)
    return None if found is None or found.more else found.indices


def _exit(text: str) -> tuple[int | None, int | None]:
    found = _EXIT.fullmatch(text.strip())
    return (None, None) if found is None else (int(found[1]), int(found[2]))


def _those(text: str) -> tuple[str, ...] | None:
    return None if text == "ALL" else tuple(each for each in text.split(",") if each and each != "(null)")


def _is_id(text: str) -> bool:
    found = _JOB_ID.fullmatch(text)
    return found is not None and found[2] is None


def _text(text: str) -> str | None:
    return None if text.strip() in _NOTHING else text.strip()
