"""The controller's disk for people."""

from __future__ import annotations

from hostler.model.disks import DoomedFile, Keeping, RetentionView, StoreDisk, TombView
from hostler.policy.retention import Deletion
from hostler.runtime.disks.measuring import Disk
from hostler.runtime.disks.planned import Graves, Planned
from hostler.runtime.disks.tombs import Buried, Tomb

STRANGER = "it is not among what may go; `hostler disk plan` lists that"
NOT_BURIED = "it is in no tombstone: it never was, was brought back, or is deleted for good"
TWICE = "another file of the same artifact goes at this moment"


def doomed(deletion: Deletion) -> DoomedFile:
    """A file that may go, with the rule and the proof."""
    found = deletion.found
    return DoomedFile(
        path=found.path,
        bytes=found.bytes,
        rule=deletion.rule.name.lower(),
        why=str(deletion.rule),
        used_at=found.used_at,
        sha256=None if found.artifact is None else found.artifact.sha256,
        proof=deletion.proof,
    )


def tomb(tomb: Tomb, each: Buried) -> TombView:
    """A file in a tombstone."""
    return TombView(
        path=each.file.path,
        bytes=each.file.bytes,
        rule=each.file.rule,
        why=each.file.why,
        who=tomb.who,
        buried_at=tomb.made_at,
        until=tomb.until,
        sha256=each.file.sha256,
        proof=each.file.proof,
    )


def retention(
    keeping: Keeping, disk: Disk, planned: Planned | None, graves: Graves, trouble: str | None
) -> RetentionView:
    """How things stand."""
    return RetentionView(
        mode=keeping.mode,
        grace_s=keeping.grace_s,
        disk=StoreDisk(
            total_bytes=disk.total_bytes,
            free_bytes=disk.free_bytes,
            used=disk.used,
            level=disk.level,
            says=disk.says,
        ),
        looked_at=None if planned is None else planned.at,
        may_go=() if planned is None else planned.may_go,
        stays=() if planned is None else planned.stays,
        buried_files=graves.files,
        buried_bytes=graves.bytes,
        next_at=graves.next_at,
        trouble=trouble,
    )
