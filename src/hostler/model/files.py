"""Files that travel: what a node is to hand over, and what came."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hostler.model.numbers import Count
from hostler.model.record import record

SHA256 = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")

LINKS_LEFT = "symbolic links are not fetched"
"""How the note on outputs begins that lacks links alone: what they lead to came by itself, or is elsewhere."""


@record
class Fetch:
    """What has to come from a node before the end of an attempt counts."""

    outputs: tuple[str, ...] = ()
    """Patterns of files it was asked to leave, relative to where it ran."""
    artifacts: tuple[str, ...] = ()
    """SHA-256s of what its result tells of."""
    changed_since: str | None = None
    """The digest of the snapshot it started from: files that are new or changed since are fetched."""


@record
class FileRef:
    """A file that came, and whose content was checked."""

    path: str
    """Relative to the folder of results, or, of an artifact, to that of artifacts."""
    size: Count
    """In bytes."""
    sha256: str


@record
class OutputFile:
    """A file that the accepted attempt of a job left, as the controller keeps it."""

    path: str
    """Relative to the folder in which the attempt ran."""
    size: Count
    """In bytes."""
    sha256: str


def named_in(order: Any) -> set[str]:
    """The SHA-256s in decoded JSON, wherever they stand: of an order, the artifacts it needs.

    What is `closed` of it is done, and needed by nobody.
    """
    needed = {name: order[name] for name in order if name != "closed"} if isinstance(order, Mapping) else order
    return set(SHA256.findall(json.dumps(needed)))
