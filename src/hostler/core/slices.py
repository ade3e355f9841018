"""Work in slices: a generator that pauses now and then, so that a caller can let other work go on in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Slices: TypeAlias = Generator[None, None, T]
"""Work that returns a `T`. It is the same work, whatever happens in its pauses, as long as the state stays."""

SLICE = 100
"""Jobs of a large submission that are looked at or queued between two pauses."""


def finished(work: Slices[T]) -> T:
    """What the work returns, done at once."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            value: T = done.value
            return value
