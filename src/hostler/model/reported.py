"""Types of what a node reports, each with its limits: what does not fit is no value of a node."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from hostler.model.numbers import Count

HELD_MOST = 32_768
"""Attempts, and chunks, that one node may report to hold."""
WORDS_MOST = 8192
"""Characters of a longer text; what is longer was cut where it came in."""
CORES_MOST = 65_536
DEVICES_MOST = 4096
"""GPUs, and CPU slots, of one node."""

PartName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""An attempt, or a chunk."""
WorkerName: TypeAlias = Annotated[str, Field(max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A worker, which has the name of its node and of its device."""
Word: TypeAlias = Annotated[str, Field(max_length=256, pattern=r"^[^\x00]*$")]
"""A name, a reason, a digest."""
Words: TypeAlias = Annotated[str, Field(max_length=WORDS_MOST, pattern=r"^[^\x00]*$")]
Number: TypeAlias = Count
Status: TypeAlias = Annotated[int, Field(ge=-(2**31), lt=2**31)]
"""An exit status, or a signal."""
Moment: TypeAlias = Annotated[float, Field(ge=0, le=1e12)]
"""Seconds, since 1970 or of a duration."""
Cores: TypeAlias = Annotated[int, Field(ge=1, le=CORES_MOST)]
Index: TypeAlias = Annotated[int, Field(ge=0, le=65_535)]
Gigabytes: TypeAlias = Annotated[float, Field(ge=0, le=2**20)]
