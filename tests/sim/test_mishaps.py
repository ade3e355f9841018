"""Lives of rented nodes, and the levels of faults."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from hostler.sim.faults import DAY_S, LEVELS, Lives, level, lives_of

TRACE = ["0,add,a", "0,add,b", "60000,remove,a", "", "90000,add,c", "600000,remove,b"]


def test_lives_of_a_trace_are_of_those_that_end() -> None:
    assert lives_of(TRACE) == (60.0, 600.0)


@pytest.mark.parametrize("line", ["x,add,a", "0,join,a", "0,add", "-5,add,a"])
def test_other_lines_are_refused_with_their_number(line: str) -> None:
    with pytest.raises(ValueError, match="line 2"):
        lives_of(["0,add,a", line])


def test_a_trace_in_which_nothing_ends_teaches_nothing() -> None:
    with pytest.raises(ValueError, match="no instance"):
        lives_of(["0,add,a"])


def test_lives_are_drawn_from_what_was_seen_or_by_their_mean() -> None:
    random = Random(1)
    seen = {Lives(lives_s=(60.0, 600.0), scale=4.0).drawn_s(random, None) for _ in range(50)}
    assert seen == {240.0, 2400.0}
    own = fmean(Lives(scale=2.0).drawn_s(random, 500.0) or 0.0 for _ in range(5000))
    assert own == pytest.approx(1000.0, rel=0.1)
    assert Lives().drawn_s(random, None) is None


def test_levels_grow() -> None:
    none, light, heavy = (level(name, 10, DAY_S) for name in LEVELS)
    assert none.link_cut_every_s is None
    assert light.link_cut_every_s is not None
    assert heavy.link_cut_every_s is not None
    assert heavy.link_cut_every_s < light.link_cut_every_s
