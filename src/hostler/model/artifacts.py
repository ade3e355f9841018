"""Artifacts: immutable files named by their SHA-256, where copies of them lie, and what was proved of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from hostler.model.record import record

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


HUB = "controller"
"""The place in the state directory: what stages make comes here before it counts."""


class ArtifactKind(StrEnum):
    """What an artifact is; what it was made from is of the kind before it, but for evaluations."""

    GAMES = "games"
    DATASET = "dataset"
    MODEL = "model"
    EVALUATION = "evaluation"
    """Games that an evaluation played and recorded."""


SUFFIXES: Mapping[ArtifactKind, str] = {
    ArtifactKind.GAMES: ".segment.npz",
    ArtifactKind.EVALUATION: ".segment.npz",
    ArtifactKind.DATASET: ".dataset.npz",
    ArtifactKind.MODEL: ".safetensors",
}
"""How files of a kind are called, behind their SHA-256 (docs/reference/learning.md)."""


class Standing(StrEnum):
    """What an artifact is worth to those who come after it: it decides how many copies are wanted."""

    GAMES = "games"
    DATASET = "dataset"
    MODEL = "model"
    """The current model of a config, or the one before it."""
    CANDIDATE = "candidate"
    """A model that was not judged yet."""
    FORMER = "former"
    """A model that was current once, or lost its test."""


@record
class Artifact:
    """One immutable file."""

    sha256: Sha256
    kind: ArtifactKind
    bytes: Annotated[int, Field(ge=0)]
    config: str | None
    """The training config that it belongs to; `None`: none."""
    parents: tuple[Sha256, ...] = ()
    """What it was made from, as far as that is known: games of a dataset, dataset and base of a model."""
    job: str | None = None
    """Who made it."""
    made_at: float = 0.0


@record
class Copy:
    """A copy of an artifact in a place."""

    place: str
    verified_at: float | None
    """When its hash was last read back and was right (Unix time); `None`: never, which proves nothing."""
    damaged: bool = False
    """Whether another hash was read: it is in quarantine and is no copy any more."""


@record
class Place:
    """Somewhere that copies of artifacts lie."""

    name: str
    domain: str
    """What fails together: a provider, a building, this machine."""
    keeps: bool = True
    """Whether copies count there: on a node that may vanish without notice they do not."""
    takes: bool = True
    """Whether new copies may be put there: it can be reached, and has room."""
    reachable: bool = True
    """Whether it can be read from now; what cannot is not lost for that."""
    free_bytes: Annotated[int, Field(ge=0)] | None = None
    """What may be put there still; `None`: unknown, as of a bucket."""
    node: str | None = None
    """The node whose disk it is on, if it is one of the fleet's."""


@record
class Wanted:
    """How many copies of artifacts of a standing there should be, and how soon."""

    copies: Annotated[int, Field(ge=1, le=16)]
    domains: Annotated[int, Field(ge=1, le=16)] = 1
    """Failure domains that these copies should be spread over."""
    within_s: Annotated[float, Field(ge=0)] = 0.0
    """From when it was made until they should be there, in seconds."""


USUAL_COPIES: Mapping[Standing, Wanted] = {
    Standing.GAMES: Wanted(copies=2, domains=2, within_s=300.0),
    Standing.DATASET: Wanted(copies=1),
    Standing.MODEL: Wanted(copies=3, domains=2),
    Standing.CANDIDATE: Wanted(copies=1),
    Standing.FORMER: Wanted(copies=1, within_s=300.0),
}


@record
class ReplicationRules:
    """What is wanted of each standing."""

    wanted: Mapping[Standing, Wanted] = field(default_factory=lambda: dict(USUAL_COPIES))
    verified_within_s: Annotated[float, Field(gt=0)] = 30 * 86_400.0
    """A copy whose hash was not read for longer counts no more until it is. Copies are read again sooner than that."""
    scrub_bytes_per_s: Annotated[float, Field(gt=0)] = 20e6
    """Bytes of a place that are read again in a second, at most."""
    away_s: Annotated[float, Field(gt=0)] = 86_400.0
    """A place that did not answer for longer holds nothing that counts until it is back and a sample was right."""


@record
class StoreSpec:
    """A store of the fleet file. There are no secrets in it; `config` and `profile` say where these are."""

    name: str
    kind: Literal["directory", "s3", "rclone", "node"]
    root: str
    """The directory, the bucket, or the remote of rclone with its path."""
    domain: str
    node: str | None = None
    """The node whose directory it is."""
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    config: str | None = None
    bytes_per_s: float | None = None
    reserve_bytes: int = 0
