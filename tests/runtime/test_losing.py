"""Numbers that may have been in lost entries are left out, once, by whoever leads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from hostler.core import Core
from hostler.model.errors import StoreError, StoreLost
from hostler.model.inputs import Restored
from hostler.runtime.clock import SteadyClock
from hostler.runtime.losing import JOBS, PARTS, Losses
from hostler.store import Journal, Leader

pytestmark = pytest.mark.anyio


@dataclass
class Row:
    """The leader's row, as the journal tells it."""

    lost: bool = True
    away: list[StoreError] = field(default_factory=list)
    """What goes wrong with the next questions."""
    unwritable: list[StoreError] = field(default_factory=list)
    """And with the next notes."""

    def leader(self) -> Leader:
        if self.away:
            raise self.away.pop()
        return Leader(epoch=1, lost=self.lost)

    def left_out(self) -> None:
        if self.unwritable:
            raise self.unwritable.pop()
        self.lost = False


def losses(row: Row, told: list[Any], *, is_told: bool = False) -> Losses:
    async def tell(*inputs: Any, patient: bool) -> None:
        assert patient
        told.extend(inputs)

    return Losses(cast(Journal, row), Core(), SteadyClock(), tell, is_told=is_told)


async def test_what_is_noted_is_left_out_and_crossed_out() -> None:
    row, told = Row(), list[Any]()
    looks = losses(row, told)
    await looks.look()
    await looks.look()
    assert [(type(each), each.jobs, each.parts) for each in told] == [(Restored, JOBS, PARTS)]
    row.lost = True
    await looks.look()
    assert len(told) == 2, "it is lost once more"


async def test_the_core_is_told_once_although_the_note_stays() -> None:
    row, told = Row(unwritable=[StoreLost("away"), StoreLost("away")]), list[Any]()
    looks = losses(row, told)
    for _ in range(2):
        with pytest.raises(StoreLost):
            await looks.look()
    await looks.look()
    assert (len(told), row.lost) == (1, False)


async def test_who_knew_it_from_the_beginning_only_crosses_it_out() -> None:
    row, told = Row(), list[Any]()
    await losses(row, told, is_told=True).look()
    assert (told, row.lost) == ([], False)


async def test_who_knew_it_although_another_has_crossed_it_out_is_told_of_the_next_one() -> None:
    """It stood by when entries were lost, and leads only after somebody else did."""
    row, told = Row(lost=False), list[Any]()
    looks = losses(row, told, is_told=True)
    await looks.look()
    row.lost = True
    await looks.look()
    assert (len(told), row.lost) == (1, False)


async def test_a_store_that_is_away_is_the_writers_to_tell() -> None:
    row, told = Row(away=[StoreLost("away")]), list[Any]()
    looks = losses(row, told)
    await looks.look()
    assert (told, row.lost) == ([], True)
    await looks.look()
    assert (len(told), row.lost) == (1, False)
