"""Limits of the cluster and of whoever uses it, beside the settings. What is not told sets none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hostler.backends.slurm.cluster import ARRAY_MAX
from hostler.backends.slurm.desk import Desk
from hostler.backends.slurm.finding import Finding
from hostler.backends.slurm.spans import number
from hostler.backends.slurm.terms import Terms
from hostler.model.record import record

FIELDS = ("account", "partition", "qos", "maxjobs", "maxsubmit", "grpjobs", "grpsubmit")
COMMAND_S = 30.0
NEVER_ASKED = re.compile(r"[^\w.@-]")


@record
class Association:
    """What a user may do under one account."""

    account: str
    partition: str | None
    """`None`: in all of them."""
    qos: tuple[str, ...]
    jobs: int | None
    """That may run at a time."""
    submitted: int | None
    """That may run or wait at a time."""


async def associations(desk: Desk) -> tuple[Association, ...]:
    """Those of the user there; none where nobody tells."""
    user = str(desk.hello["user"])
    if NEVER_ASKED.search(user):
        return ()
    words = ["env", "LC_ALL=C", "sacctmgr", "-n", "-P", "show", "assoc", f"user={user}", f"format={','.join(FIELDS)}"]
    ran = await desk.run(words, timeout_s=COMMAND_S)
    return tuple(read_associations(ran.out)) if ran.status == 0 else ()


def read_associations(text: str) -> Iterator[Association]:
    """What `sacctmgr -n -P show assoc format=FIELDS` prints; lines that are something else are left out."""
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) != len(FIELDS) or not parts[0]:
            continue
        account, partition, qos, jobs, submitted, group_jobs, group_submitted = parts
        yield Association(
            account=account,
            partition=partition or None,
            qos=tuple(name for name in qos.split(",") if name),
            jobs=_least(jobs, group_jobs),
            submitted=_least(submitted, group_submitted),
        )


def limit_findings(
    name: str, config: Mapping[str, str], known: Sequence[Association], parts: Sequence[tuple[str, Terms]]
) -> list[Finding]:
    """What is less than the settings count on; where nothing is, one finding that says so."""
    found = [finding for node, terms in parts for finding in _of_partition(node, config, known, terms)]
    array, jobs = config.get("MaxArraySize", "?"), config.get("MaxJobCount", "?")
    return found or [Finding(name, "limits", "ok", f"MaxArraySize {array}, MaxJobCount {jobs}")]


def _of_partition(
    node: str, config: Mapping[str, str], known: Sequence[Association], terms: Terms
) -> Iterator[Finding]:
    array, jobs = number(config.get("MaxArraySize", "")), number(config.get("MaxJobCount", ""))
    largest = min(terms.max_jobs, ARRAY_MAX)
    in_arrays = any(mode != "job" for mode in terms.modes.values())
    if in_arrays and array is not None and array < largest:
        fix = "write `slurm.mode: job`, or have MaxArraySize raised"
        says = f"the cluster allows arrays of {array} tasks (MaxArraySize), and up to {largest} may come together"
        yield Finding(
            node, "limits", "warning" if array else "error", f"{says}: they are divided" if array else says, fix
        )
    if jobs is not None and jobs < terms.max_jobs:
        fix = "lower `slurm.max_jobs`"
        yield Finding(node, "limits", "warning", f"the cluster takes {jobs} jobs in all (MaxJobCount)", fix)
    yield from _of_account(node, known, terms)


def _of_account(node: str, known: Sequence[Association], terms: Terms) -> Iterator[Finding]:
    place = terms.place
    mine = [each for each in known if each.partition in (None, place.partition)]
    if place.account is not None:
        mine = [each for each in mine if each.account == place.account]
    submitted = max((each.submitted for each in mine if each.submitted is not None), default=None)
    if not mine or any(each.submitted is None for each in mine) or submitted is None:
        return
    if submitted < terms.max_jobs:
        fix = f"write `slurm.max_jobs: {submitted}` or less, for all partitions of the account together"
        says = f"the account takes {submitted} jobs at a time (MaxSubmitJobs), and `max_jobs` is {terms.max_jobs}"
        yield Finding(node, "limits", "warning", says, fix)


def _least(*texts: str) -> int | None:
    return min((value for value in map(number, texts) if value is not None), default=None)
