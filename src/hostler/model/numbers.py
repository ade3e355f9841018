"""Whole numbers with their limits: what is beyond 63 bits has no column in a database, and no meaning as a count."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

Count: TypeAlias = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""A number of bytes, of files, of steps, of entries."""
Few: TypeAlias = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""A number of attempts, of machines, of games: no one asks for two billion of them."""
Some: TypeAlias = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""The same where it is at least one."""
