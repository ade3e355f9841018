"""Where things lie in the folder that the allocations of a cluster and the controller share.

A **batch** is what was given to the cluster's scheduler in one go. It has tasks, counted from 0, and a task that was
begun anew has several runs. ``ROOT/jobs/TOKEN/TASK/RUN`` is the agent's folder of one run.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .streams import FIRST

_TOKEN = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9._-]{1,200}\Z")


class Batch(NamedTuple):
    """The batch of a token; all paths are absolute if ``root`` is."""

    root: str
    token: str

    @property
    def folder(self) -> str:
        """All that it has."""
        return "%s/jobs/%s" % (self.root, self.token)

    @property
    def news(self) -> str:
        """The folder of the files that tell what has begun, and what has ended."""
        return self.folder + "/news"


class Run(NamedTuple):
    """One run of a task."""

    batch: Batch
    task: int
    run: int

    @property
    def task_folder(self) -> str:
        """What all runs of the task have in common."""
        return "%s/%d" % (self.batch.folder, self.task)

    @property
    def folder(self) -> str:
        """Its agent's."""
        return "%s/%d" % (self.task_folder, self.run)

    @property
    def first(self) -> str:
        """What is said to its agent first, whoever comes: to that of the task's first run only."""
        return "%s/%s.in" % (self.task_folder, FIRST)

    def stream(self, name: str) -> str:
        """A stream's files, without what their names end with."""
        return "%s/streams/%s" % (self.folder, name)

    def source(self, name: str) -> str:
        """The file of what is said to the agent."""
        return self.first if name == FIRST and self.run == 0 else self.stream(name) + ".in"

    def news(self, what: str) -> str:
        """The file that tells that it has ``began`` or ``ended``."""
        return "%s/%d.%d.%s" % (self.batch.news, self.task, self.run, what)


def is_token(value: object) -> bool:
    """Whether a value may name a batch: such a name is also a safe file name."""
    return type(value) is str and _TOKEN.match(value) is not None
