"""Where copies of artifacts are kept, how many of each, and how they come there."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hostler.model.artifacts import HUB, USUAL_COPIES, Standing, Wanted
from hostler.model.disks import Keeping, RetentionRules
from hostler.model.work import Rest, Seconds
from hostler.settings.section import NodeName, Section

Path = Annotated[str, Field(min_length=1)]
Domain = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
OWN: dict[str, tuple[str, ...]] = {
    "directory": ("path",),
    "s3": ("bucket", "prefix", "endpoint", "region", "profile"),
    "rclone": ("remote", "config"),
    "node": ("path", "node"),
}
"""What is said of a store of each kind; what `NEEDED` names of it has to be."""
NEEDED: dict[str, tuple[str, ...]] = {
    "directory": ("path",),
    "s3": ("bucket",),
    "rclone": ("remote",),
    "node": ("node", "path"),
}
STORING = frozenset({"local", "ssh", "dialin"})
"""Backends of nodes that stores can be on: they have files of their own, and an agent that serves them."""


class Store(Section):
    """A place for copies of artifacts besides the state directory. It holds no secrets: these stand elsewhere."""

    name: NodeName
    """What people call it."""
    kind: Literal["directory", "s3", "rclone", "node"]
    """`directory`: a folder of this machine, or of what is mounted here; `s3`: a bucket (extra `s3`); `rclone`: a
    remote of rclone, which has to be installed; `node`: a folder of a node of this fleet."""
    path: Path | None = None
    """Of a directory: where it is; of `node`: where it is there, as an absolute path. It has to be there, so that what
    is not mounted is not taken for empty."""
    node: NodeName | None = None
    """Of `node`: the node, which has to be on this machine, behind SSH, or one that calls."""
    bucket: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{1,253}$")] | None = None
    """Of `s3`: the bucket. Credentials come from where boto3 looks for them: `AWS_ACCESS_KEY_ID` and
    `AWS_SECRET_ACCESS_KEY`, `~/.aws/credentials`, the role of the machine. Jobs on this machine do not see the
    variables."""
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]*$")] | None = None
    """Of `s3`: what all names there begin with."""
    endpoint: Annotated[str, Field(pattern=r"^https?://[^/\s@]+/?$")] | None = None
    """Of `s3`: the address of a server that is not Amazon's."""
    region: Path | None = None
    """Of `s3`: the region."""
    profile: Path | None = None
    """Of `s3`: the profile of `~/.aws` to use."""
    remote: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w .+@-]*:[^\x00]*$")] | None = None
    """Of `rclone`: the remote and the folder in it, as `backup:games`."""
    config: Path | None = None
    """Of `rclone`: its configuration file; by default that of the user."""
    domain: Domain | None = None
    """What fails together with it: a provider, a building. By default `here` for a directory, the node of a folder of a
    node, else its name."""
    mb_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Megabytes that may move to and from it in a second; by default as many as do."""
    reserve_gb: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    """What is left free on it, in GB, where it can tell."""

    @model_validator(mode="after")
    def _is_of_its_kind(self) -> Self:
        if self.name == HUB:
            raise ValueError(f"{HUB!r} is what the store in the state directory is called; take another name")
        for needed in NEEDED[self.kind]:
            if getattr(self, needed) is None:
                raise ValueError(f"a store of kind {self.kind} needs `{needed}`")
        if self.kind == "node" and not str(self.path).startswith("/"):
            raise ValueError(
                f"{self.path!r} on a node has to be an absolute path: `~` and relative paths are not known"
            )
        others = {name for names in OWN.values() for name in names} - set(OWN[self.kind])
        strange = sorted(name for name in others & self.model_fields_set if getattr(self, name) is not None)
        if strange:
            raise ValueError(f"`{strange[0]}` says nothing of a store of kind {self.kind}")
        return self


class Copies(Section):
    """How many copies of something there should be."""

    copies: Annotated[int, Field(ge=1, le=16)]
    """Copies in all, that in the state directory included."""
    domains: Annotated[int, Field(ge=1, le=16)] = 1
    """Failure domains that they should be spread over."""
    within_s: Rest = 0.0
    """How soon they should be there, in seconds; what has not come by then is late, and is said to be."""

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.domains > self.copies:
            raise ValueError(f"{self.copies} copies cannot lie in {self.domains} domains")
        return self

    def wanted(self) -> Wanted:
        """The same, as the policy has it."""
        return Wanted(copies=self.copies, domains=self.domains, within_s=self.within_s)


def _usual(standing: Standing) -> Copies:
    usual = USUAL_COPIES[standing]
    return Copies(copies=usual.copies, domains=usual.domains, within_s=usual.within_s)


class Replication(Section):
    """How many copies of artifacts are kept. Where there are fewer places than that, there are fewer copies."""

    games: Copies = _usual(Standing.GAMES)
    """Of segments of games."""
    dataset: Copies = _usual(Standing.DATASET)
    """Of datasets; from their games they can be made again."""
    model: Copies = _usual(Standing.MODEL)
    """Of the current model of a config, and of the one before it."""
    candidate: Copies = _usual(Standing.CANDIDATE)
    """Of models that were not judged yet."""
    former: Copies = _usual(Standing.FORMER)
    """Of models that were current once, or lost their test."""
    domain: Domain = "here"
    """The failure domain of the state directory."""
    reread_s: Seconds = 30 * 86_400.0
    """A copy that was not read back for so long, in seconds, counts no more until it is. All copies are read again in
    three quarters of that, the longest unread first, so that what is damaged is found within it."""
    scrub_mb_per_s: Annotated[float, Field(gt=0, le=1e6)] = 20.0
    """Megabytes of one place that are read again in a second, at most; it is less where less will do."""
    away_s: Seconds = 86_400.0
    """A store that did not answer for so long, in seconds, holds nothing that counts until it is back and a sample of
    its copies was read and was right."""


USUAL = RetentionRules()


class Retention(Section):
    """What may go of the state directory's disk and of the artifact folders of nodes, and when. What people ask for by
    `hostler disk` goes by it, too.

    Which disk is too full, `scheduling.targets` says (`disk_store`, of nodes `disk_clean`; `disk_free_gb`,
    `disk_roomy_gb`).
    """

    mode: Literal["dry-run", "clean"] = "dry-run"
    """`dry-run`: nothing is deleted that nobody asked for, `hostler disk plan` shows what could be. `clean`: once the
    disk is too full, as much as it takes is deleted, caches first, then logs, then what has its copies elsewhere; and
    from a node behind SSH, or one that calls, artifacts that have all their copies."""
    grace_s: Rest = 86_400.0
    """How long, in seconds, what was deleted can be brought back (`hostler disk undo`).
    Until then it takes its room."""
    logs_s: Rest = USUAL.logs_s
    """How long, in seconds, logs of attempts that are over are kept here."""
    caches_s: Rest = USUAL.caches_s
    """How long, in seconds, what can be made again is kept after its last use; on nodes an hour at least."""
    empty_s: Rest = USUAL.empty_s
    """How long, in seconds, segments without games are kept."""
    checkpoints: Annotated[int, Field(ge=1, le=1000)] = USUAL.checkpoints
    """Newest checkpoints that are kept of each training that failed or was cancelled."""
    checkpoints_s: Rest = USUAL.checkpoints_s
    """How long, in seconds, its older ones are kept."""
    artifacts_s: Rest = USUAL.artifacts_s
    """How long, in seconds, games, datasets and models are kept here at least, since they came or were brought back."""
    copies: Annotated[int, Field(ge=1, le=16)] = USUAL.copies
    """Copies elsewhere that an artifact must have before it is deleted here, or on a node, whose own do not count;
    `replication` may want more of them."""
    read_within_s: Seconds = USUAL.read_within_s
    """A copy that was read longer ago than this, in seconds, proves nothing: with less than `replication.reread_s`,
    what was not read again of late stays. Those that prove something are read once more before the file goes, and
    again before it is deleted for good."""

    def keeping(self) -> Keeping:
        """The same, as the runtime has it."""
        rules = {name: getattr(self, name) for name in type(self).model_fields if name not in ("mode", "grace_s")}
        return Keeping(mode=self.mode, grace_s=self.grace_s, rules=RetentionRules(**rules))
