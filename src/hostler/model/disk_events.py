"""Facts of disks: what is deleted by which rule and on which proof, and what came back."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hostler.model.disks import DoomedFile, FilePath
from hostler.model.numbers import Count
from hostler.model.record import record


@record
class FilesRetired:
    """These files are about to be moved into a tombstone, from which they can be brought back until `until`."""

    kind: Literal["files.retired"] = "files.retired"
    tombstone: str
    who: str
    until: float
    files: Annotated[tuple[DoomedFile, ...], Field(min_length=1)]


@record
class FilesRestored:
    """These files are where they were: they were brought back, or never got into the tombstone."""

    kind: Literal["files.restored"] = "files.restored"
    tombstone: str
    who: str
    why: str
    files: Annotated[tuple[FilePath, ...], Field(min_length=1)]


@record
class FilesDeleted:
    """These files are deleted for good: their grace was over, and their proof had been looked at once more."""

    kind: Literal["files.deleted"] = "files.deleted"
    tombstone: str
    files: Annotated[tuple[FilePath, ...], Field(min_length=1)]
    bytes: Count


@record
class FilesDropping:
    """These artifacts are about to be removed from the artifact folder of a node, which proves nothing for others."""

    kind: Literal["files.dropping"] = "files.dropping"
    node: str
    who: str
    files: Annotated[tuple[DoomedFile, ...], Field(min_length=1)]


@record
class FilesDropped:
    """These are removed there; what work needs of them is sent again."""

    kind: Literal["files.dropped"] = "files.dropped"
    node: str
    files: Annotated[tuple[FilePath, ...], Field(min_length=1)]
    bytes: Count
