"""What can come of a command of Slurm, apart from an answer."""

from __future__ import annotations

from hostler.model.errors import LinkLost, LinkRefused


class SlurmDown(LinkLost):
    """Slurm could not be asked, or its answer did not come whole. Nothing follows about any job; another try may do."""

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown
        """Whether what was asked for may have been done all the same. A job that may have been submitted is looked for
        by its name before it is submitted again."""


class SlurmRefused(LinkRefused):
    """Slurm has answered, and said no: to the request, not to the moment. The message says what to change."""

    def __init__(self, message: str, *, setting: str | None = None, later: bool = False, fewer: bool = False) -> None:
        super().__init__(message)
        self.setting = setting
        """What to change in the fleet file, as `slurm.account`; `None` where that is not known."""
        self.later = later
        """Whether the same request may be taken another time: a limit is reached, or the partition is closed."""
        self.fewer = fewer
        """Whether fewer tasks at a time may be taken where these were too many."""


class NoAccounting(LinkRefused):
    """Accounting cannot be asked. The queue, `scontrol show job` and what jobs write themselves have to do."""

    def __init__(self, message: str, *, configured: bool) -> None:
        super().__init__(message)
        self.configured = configured
        """Whether the cluster has accounting, which is only down; else there is no use in asking again."""
