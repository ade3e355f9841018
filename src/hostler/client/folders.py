"""Folders of the jobs of a group, named by their parameters: `lr=0.1,bs=16`.

Names consist of characters that every file system and shell takes, and no two jobs of a group share a folder, also
where upper and lower case are the same. They follow from the group alone: a later call finds the same folders.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.errors import FilesError

LONGEST = 120
UNFIT = re.compile(r"[^A-Za-z0-9._+=,-]")
JOB = re.compile(r"j[0-9]{1,18}")


def folders_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The name of the folder of each job, by its id; `rows` are all rows of the group (`GroupRow`)."""
    jobs = [expected_id(row["job"]) for row in rows]
    bases = {job: base_of(row["parameters"]) or job for job, row in zip(jobs, rows, strict=True)}
    made = {job: base[:LONGEST] for job, base in bases.items()}
    while True:
        sharing = defaultdict(list)
        for job, name in made.items():
            sharing[name.casefold()].append(job)
        # A name that ends with the id of its job differs from all others that do, so that this comes to an end.
        renamed = {
            job: with_id(bases[job], job)
            for jobs in sharing.values()
            if len(jobs) > 1
            for job in jobs
            if made[job] != with_id(bases[job], job)
        }
        if not renamed:
            return made
        made |= renamed


def base_of(parameters: Mapping[str, str]) -> str:
    """The name of a folder made from parameters; empty where there are none."""
    return UNFIT.sub("_", ",".join(f"{name}={value}" for name, value in parameters.items()))


def with_id(base: str, job: str) -> str:
    """The name of a folder that no other job gets."""
    return f"{base[: LONGEST - len(job) - 1]},{job}"


def expected_id(job: object) -> str:
    """The id of a job, which may become a part of a path here. Raises `FilesError`."""
    if not isinstance(job, str) or not JOB.fullmatch(job):
        raise FilesError(
            f"the controller's list of jobs cannot be understood: {str(job)[:100]!a} is not the id of a job. "
            "Nothing was copied; ask a controller of the same version"
        )
    return job
