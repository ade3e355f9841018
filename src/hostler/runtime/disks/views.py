"""The controller's disk for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hostler.model.disks import DoomedFile, GoingView, Keeping, KeptView, RetentionView, StoreDisk, TombView
from hostler.policy.retention import Deletion, Plan
from hostler.runtime.disks.measuring import Disk
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
    keeping: Keeping, disk: Disk, planned: tuple[float, Plan] | None, buried: Sequence[Tomb], trouble: str | None
) -> RetentionView:
    """How things stand."""
    files = [each.file for tomb in buried for each in tomb.files]
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
        looked_at=None if planned is None else planned[0],
        may_go=() if planned is None else tuple(_by_rule(planned[1])),
        stays=() if planned is None else tuple(_stays(planned[1])),
        buried_files=len(files),
        buried_bytes=sum(each.bytes for each in files),
        next_at=min((tomb.until for tomb in buried), default=None),
        trouble=trouble,
    )


def _by_rule(plan: Plan) -> Sequence[GoingView]:
    counts, sizes = Counter[str](), Counter[str]()
    rules = {each.rule.name: each.rule for each in plan.deletions}
    for each in plan.deletions:
        counts[each.rule.name] += 1
        sizes[each.rule.name] += each.found.bytes
    return [
        GoingView(rule=name.lower(), why=str(rule), files=counts[name], bytes=sizes[name])
        for name, rule in rules.items()
    ]


def _stays(plan: Plan) -> Sequence[KeptView]:
    """What is most first."""
    kept = [KeptView(why=str(why), files=count, bytes=size) for why, (count, size) in plan.kept.items()]
    return sorted(kept, key=lambda each: (-each.bytes, each.why))
