"""What the core is told of artifacts and of files on the controller's disk; inputs as all others (`inputs.py`)."""

from __future__ import annotations

from typing import Any

from hostler.model.artifacts import Sha256
from hostler.model.disks import DoomedFile, FilePath
from hostler.model.numbers import Count
from hostler.model.record import record


@record
class SoFar:
    """What an attempt that runs has left as its result so far."""

    attempt: str
    result: Any


@record
class Secured:
    """Artifacts of an attempt that runs have come, hashes checked."""

    attempt: str
    artifacts: tuple[Sha256, ...]


@record
class CopiesTold:
    """What was found as copies of artifacts in a place were read: right, damaged, or not there."""

    place: str
    verified: tuple[Sha256, ...] = ()
    damaged: tuple[Sha256, ...] = ()
    gone: tuple[Sha256, ...] = ()
    why: str = ""
    """Of what is damaged or gone: what was read, or who deleted it by which rule."""


@record
class GivePlaceUp:
    """Nothing that lay in a place is there any more: its node was destroyed, its bucket is gone."""

    place: str
    who: str
    why: str


@record
class FilesTold:
    """What becomes of files on the controller's disk, told before they are moved and after they came back or went."""

    tombstone: str
    who: str
    until: float = 0.0
    """Of what is moved into it: when it is deleted for good."""
    retired: tuple[DoomedFile, ...] = ()
    restored: tuple[FilePath, ...] = ()
    why: str = ""
    """Of what is where it was."""
    deleted: tuple[FilePath, ...] = ()
    bytes: Count = 0
    """Of what is deleted."""


@record
class DropTold:
    """What becomes of artifacts in the artifact folder of a node, told before they are removed and after they went."""

    node: str
    who: str
    dropping: tuple[DoomedFile, ...] = ()
    dropped: tuple[FilePath, ...] = ()
    bytes: Count = 0
    """Of what was removed."""


@record
class CleanDisk:
    """Somebody wants the controller's disk to be cleaned; `id` tells a repetition from the first time."""

    id: str
    files: tuple[FilePath, ...] | None
    most: Count
    node: str | None = None
    """The node that is to be cleaned instead."""


@record
class UndoDisk:
    """Somebody wants files back that were deleted of late; `None`: all of them."""

    id: str
    files: tuple[FilePath, ...] | None


@record
class ReadCopies:
    """Somebody wants the copies of an artifact read again; what is found comes as `CopiesTold`."""

    artifact: Sha256
    place: str | None = None
    """`None`: wherever there is one."""
