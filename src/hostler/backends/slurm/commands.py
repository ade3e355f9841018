"""Slurm's own commands, asked in one way and understood in one way. Argument vectors only; no shell.

Variables with which users change what these commands print or ask for are unset, one by one, for each command.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from hostler.backends.slurm import answers
from hostler.backends.slurm.budget import Budget, Clock
from hostler.backends.slurm.errors import NoAccounting, SlurmDown, SlurmRefused
from hostler.backends.slurm.options import Options
from hostler.backends.slurm.parsing import (
    ACCOUNTING_FIELDS,
    NODE_FORMAT,
    QUEUE_FORMAT,
    SEPARATOR,
    AccountingRow,
    JobRecord,
    NodeRow,
    Parsed,
    PartitionRecord,
    QueueRow,
    accounting_rows,
    job_records,
    node_rows,
    partition_records,
    queue_rows,
    submitted_id,
    version_of,
)
from hostler.backends.slurm.variables import environment
from hostler.model.errors import LinkLost
from hostler.model.record import record

LOOK_S = 60.0
"""Commands give up by themselves within some 20 s where slurmctld is down; a busy one may take longer to answer."""
ACT_S = 120.0
ACTING_MAX, LOOKING_MAX = 3, 1
"""Commands at a time: those that do something, of which there may be many, and those that look, which must not wait
behind them. Together no more than a desk runs at a time: none waits there while its time goes by."""
IDS_MAX = 5000
"""Ids in one command, to stay well below the longest argument that Linux takes (128 KiB)."""
EARLY_S = 600.0
"""How much earlier than asked accounting is searched: clocks differ."""
JOB = re.compile(r"[1-9]\d{0,17}(?:_\d{1,7}|_\[[0-9,:%-]+\])?", re.ASCII)


@record
class Ran:
    """A command that was run, or was not."""

    status: int | None
    """Exit status; `None` where it has none: it did not end, was ended by a signal, or nobody could tell."""
    out: str
    err: str
    timed_out: bool = False
    cut: bool = False
    """Whether some of its output is missing."""


class Runs(Protocol):
    """Who runs commands where Slurm's are: on this machine, or on a login node."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout_s: float,
    ) -> Ran:
        """Run a program and wait for its end, at most so long; then it is killed. No shell sees the words.

        `env` changes the environment: `None` unsets a variable. Raises `LinkLost` where nobody can be asked to run it.
        A program that is not there has no status, or 127, and `err` says so.
        """


class Slurm:
    """A cluster as its user sees it. Every method raises `SlurmDown` and `SlurmRefused`.

    What only looks waits for the budget. A `Parsed` that is not whole says nothing of the rows that are missing.
    """

    def __init__(self, runs: Runs, clock: Clock, budget: Budget) -> None:
        self._runs = runs
        self._clock = clock
        self._budget = budget
        self._acting, self._looking = asyncio.Semaphore(ACTING_MAX), asyncio.Semaphore(LOOKING_MAX)

    async def submit(self, options: Options, script: str) -> str:
        """Submit the batch script at this path; the id of the job, or of the array.

        Raises `SlurmDown` with `unknown` where the job may be there all the same: then `find` it first.
        """
        ran = await self._act(["sbatch", *options.argv(), script], may_have=True)
        job = submitted_id(ran.out)
        if job is None:
            told = answers.words_of(ran.out + ran.err, 0)
            raise SlurmDown(f"sbatch told no job id ({told}); the job is looked for by its name", unknown=True)
        return job

    async def would_take(self, options: Options, script: str) -> None:
        """Ask whether this could be submitted, and submit nothing.

        A partition that is closed takes it all the same, and so does one that allows no such time, unless the cluster
        enforces limits at once (`EnforcePartLimits`).
        """
        await self._look(["sbatch", "--test-only", *options.argv(), script])

    async def cancel(self, ids: Sequence[str], signal: str | None = None) -> None:
        """End jobs and tasks (`823`, `820_3`); or send a signal to the scripts of those that run.

        Those that are over already count for nothing. A task that waits vanishes: the queue has it no more, slurmctld
        knows nothing of it, and neither does accounting, while the rest of its array goes on.
        """
        _checked(ids)
        # Without --state, scancel tries for a minute and a half to signal what does not run yet.
        options = [] if signal is None else [f"--signal={signal}", "--batch", "--state=RUNNING"]
        for some in _batches(ids):
            await self._act(["scancel", *options, *some], besides=answers.GONE)

    async def queue(self) -> Parsed[QueueRow]:
        """Every job of this user that the queue has, and those that ended a little while ago."""
        return queue_rows(await self._listed())

    async def find(self, name: str, since: float) -> tuple[str, ...]:
        """Ids of the jobs and arrays of exactly this name: in the queue, or in accounting since then (Unix seconds).

        None found, on a cluster without accounting, means: not there, and not ended within `MinJobAge`.
        """
        listed = queue_rows(await self._listed(f"--name={name}"))
        if not listed.whole:
            raise SlurmDown(f"squeue was not understood: {listed.unread[0]!r}; it is asked again")
        found = [row.array or row.job for row in listed.rows if row.name == name]
        if found:
            return tuple(dict.fromkeys(found))
        try:
            recorded = await self._recorded(since, f"--name={name}")
        except NoAccounting as missing:
            if missing.configured:
                raise SlurmDown(f"{missing}; whether there is a job {name!r} cannot be told", unknown=True) from missing
            return ()
        except SlurmRefused:  # as where there is no sacct: that says nothing against the job
            return ()
        return tuple(dict.fromkeys(row.array or row.job for row in recorded.rows if row.name == name))

    async def accounting(self, jobs: Sequence[str], since: float) -> Parsed[AccountingRow]:
        """What accounting has of jobs and arrays since then (Unix seconds). Ids are used again: look at the names, too.

        Raises `NoAccounting`, which tells whether there is none or it is down.
        """
        _checked(jobs)
        parts = [await self._recorded(since, f"--jobs={','.join(some)}") for some in _batches(jobs)]
        rows = tuple(row for part in parts for row in part.rows)
        return Parsed(rows, tuple(line for part in parts for line in part.unread))

    async def jobs(self, ids: Sequence[str]) -> Parsed[JobRecord]:
        """What slurmctld still knows of jobs, in one command; of an array, all tasks. What is gone is left out."""
        _checked(ids)
        if not ids:
            return Parsed(())
        asked = "".join(f"show job {each}\n" for each in ids)
        ran = await self._look(["scontrol", "-o"], stdin=asked, besides=answers.GONE)
        return job_records(_PROMPT.sub("", ran.out))

    async def nodes(self, partitions: Sequence[str] = ()) -> Parsed[NodeRow]:
        """The nodes of partitions, or of all."""
        # Either: sinfo refuses both.
        chosen = f"--partition={','.join(partitions)}" if partitions else "--all"
        return node_rows((await self._look(["sinfo", "-h", "-N", chosen, "-O", NODE_FORMAT])).out)

    async def partitions(self) -> Parsed[PartitionRecord]:
        """All partitions and their rules."""
        return partition_records((await self._look(["scontrol", "-o", "-a", "show", "partition"])).out)

    async def config(self) -> Mapping[str, str]:
        """How the cluster is configured, as `MaxArraySize` to `10001`."""
        pairs = (line.partition("=") for line in (await self._look(["scontrol", "show", "config"])).out.splitlines())
        return {name.strip(): value.strip() for name, equals, value in pairs if equals}

    async def version(self) -> tuple[int, ...] | None:
        """Of Slurm's commands there, as `(22, 5, 8)`; `None` where it was not understood."""
        return version_of((await self._look(["sinfo", "--version"])).out)

    async def ping(self) -> str:
        """What slurmctld says of itself. Raises `SlurmDown` where none of them is up."""
        ran = await self._look(["scontrol", "ping"], besides=re.compile("is DOWN"))
        if " UP" not in ran.out:
            raise SlurmDown(f"no slurmctld is up: {answers.words_of(ran.out, ran.status or 0)}")
        return ran.out.strip()

    async def _listed(self, *chosen: str) -> str:
        # --all: partitions that are hidden from us may still have jobs of ours.
        argv = ["squeue", "-h", "--me", "--all", "--states=all", *chosen, "-o", QUEUE_FORMAT]
        return (await self._look(argv, besides=answers.GONE)).out

    async def _recorded(self, since: float, chosen: str) -> Parsed[AccountingRow]:
        # Counted back from now, because moments are read in the time zone of whoever runs sacct.
        back = max(0, round(self._clock.now() - since + EARLY_S))
        form = [f"--delimiter={SEPARATOR}", f"--format={','.join(ACCOUNTING_FIELDS)}"]
        ran = await self._look(["sacct", "-X", "-n", "-P", *form, f"--starttime=now-{back}seconds", chosen])
        return accounting_rows(ran.out)

    async def _look(
        self, argv: Sequence[str], *, stdin: str | None = None, besides: re.Pattern[str] | None = None
    ) -> Ran:
        async with self._looking:
            await self._budget.turn(argv[0])
            return await self._run(argv, stdin, LOOK_S, besides, may_have=False)

    async def _act(self, argv: Sequence[str], *, besides: re.Pattern[str] | None = None, may_have: bool = False) -> Ran:
        async with self._acting:
            self._budget.count(argv[0])
            return await self._run(argv, None, ACT_S, besides, may_have)

    async def _run(
        self, argv: Sequence[str], stdin: str | None, timeout_s: float, besides: re.Pattern[str] | None, may_have: bool
    ) -> Ran:
        """The command, when it has done what it should, or failed only in a way that is named by `besides`."""
        try:
            ran = await self._runs.run(argv, stdin=stdin, env=environment(argv[0]), timeout_s=timeout_s)
            _refuse_failure(argv[0], ran, besides, may_have)
        except SlurmDown:
            self._budget.failed()
            raise
        except LinkLost as lost:
            self._budget.failed()
            raise SlurmDown(f"{argv[0]} could not be run: {lost}", unknown=may_have) from lost
        self._budget.succeeded()
        return ran


_PROMPT = re.compile(r"^scontrol: .*\n?", re.MULTILINE)


def _refuse_failure(command: str, ran: Ran, besides: re.Pattern[str] | None, may_have: bool) -> None:
    """Raise what a command that has not done what it should means; `may_have`: it may have been done unheard."""
    if ran.status is None and answers.NOT_STARTED.search(ran.err):
        raise answers.refused(command, answers.NOT_FOUND, ran.err)
    if ran.timed_out or ran.cut or ran.status is None or ran.status < 0:
        why = "took too long" if ran.timed_out else "was cut off" if ran.cut else "did not end by itself"
        raise SlurmDown(f"{command} {why}; it is asked again", unknown=may_have)
    if ran.status == 0:
        return
    said = f"{ran.err}\n{ran.out}" if command != "sbatch" else ran.err
    missing = answers.no_accounting(said, ran.status) if command == "sacct" else None
    if missing is not None:
        raise missing
    trouble = answers.down(command, ran.status, said)
    if trouble is not None:
        raise SlurmDown(str(trouble), unknown=may_have and trouble.unknown)
    if besides is None or not besides.search(said):
        raise answers.refused(command, ran.status, said)


def _checked(ids: Sequence[str]) -> None:
    strange = next((each for each in ids if not JOB.fullmatch(each)), None)
    if strange is not None:
        raise ValueError(f"{strange!r} is no id of a Slurm job")


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(ids), IDS_MAX):
        yield ids[begin : begin + IDS_MAX]


__all__ = ["NoAccounting", "Options", "Ran", "Runs", "Slurm", "SlurmDown", "SlurmRefused"]
