"""Work in slices on the event loop: other tasks run in its pauses."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TypeVar

from hostler.core import submission
from hostler.core.slices import SLICE, Slices
from hostler.model.inputs import Asked, Input, Submit, SubmitGroup

T = TypeVar("T")


async def in_slices(work: Slices[T]) -> T:
    """What the work returns; the event loop turns at each pause."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            value: T = done.value
            return value
        await asyncio.sleep(0)


async def vetted(given: Input) -> Input:
    """The input; of a large submission with its specs vetted, so that the core has less to do in its step."""
    if isinstance(given, Asked):
        wish = await vetted(given.given)
        return given if wish is given.given else replace(given, given=wish)  # type: ignore[arg-type]
    if isinstance(given, Submit) and len(given.specs) > SLICE:
        return replace(given, specs=await in_slices(submission.vetted(given.specs)))
    if isinstance(given, SubmitGroup) and len(given.jobs) > SLICE:
        return replace(given, jobs=await in_slices(submission.vetted(given.jobs)))
    return given
