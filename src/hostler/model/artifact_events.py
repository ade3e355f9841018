"""Facts of artifacts: where copies were read back, and where they are no more.

That an artifact is there at all, the facts of loops say (`loop_events.py`). That its copy in the controller's own store
is right is said here, as of any other place: once it was read back.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hostler.model.artifacts import Sha256
from hostler.model.record import record

Some = Annotated[tuple[Sha256, ...], Field(min_length=1)]


@record
class CopiesVerified:
    """These copies were read in a place just now, and their hashes are right."""

    kind: Literal["copies.verified"] = "copies.verified"
    place: str
    artifacts: Some


@record
class CopiesDamaged:
    """These copies were read and have other hashes; they are set aside and count no more."""

    kind: Literal["copies.damaged"] = "copies.damaged"
    place: str
    artifacts: Some
    why: str


@record
class CopiesGone:
    """These copies are not there: they were looked for in vain, or deleted, by a rule that `why` names."""

    kind: Literal["copies.gone"] = "copies.gone"
    place: str
    artifacts: Some
    why: str


@record
class PlaceGone:
    """Nothing that lay in this place is there any more, because somebody said so."""

    kind: Literal["place.gone"] = "place.gone"
    place: str
    who: str
    why: str
