"""Who gets what, given what every pair is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linear_sum_assignment

from hostler.policy.assignment import Wish, assign

CLASSES = ("a", "b", "c")
REPAIRS = 64


def wish(name: str, devices: int = 1, priority: int = 0, **worth: float) -> Wish:
    return Wish(name=name, priority=priority, devices=devices, worth=worth)


@st.composite
def wishes(draw: st.DrawFn, devices: Sequence[int] = (1,), priorities: Sequence[int] = (0,)) -> list[Wish]:
    worth = st.dictionaries(st.sampled_from(CLASSES), st.floats(0.01, 10.0), max_size=3)
    return [
        Wish(
            name=f"j{number}",
            priority=draw(st.sampled_from(priorities)),
            devices=draw(st.sampled_from(devices)),
            worth=draw(worth),
        )
        for number in range(draw(st.integers(0, 12)))
    ]


ROOM = st.fixed_dictionaries({cls: st.integers(0, 5) for cls in CLASSES})
FEW = settings(max_examples=20, deadline=None)
MIXED = wishes(devices=(1, 2, 4), priorities=(0, 1))


def total(asked: Sequence[Wish], placed: Mapping[str, str]) -> float:
    return sum(each.worth[placed[each.name]] for each in asked if each.name in placed)


def test_the_best_pair_comes_first() -> None:
    assert assign([wish("x", a=1.0), wish("y", a=2.0)], {"a": 1}, REPAIRS) == {"y": "a"}


def test_equals_go_by_name_whatever_their_order() -> None:
    pair = [wish("y", a=1.0), wish("x", a=1.0)]
    assert assign(pair, {"a": 1}, REPAIRS) == assign(pair[::-1], {"a": 1}, REPAIRS) == {"x": "a"}


def test_a_higher_priority_goes_before_any_worth() -> None:
    assert assign([wish("x", a=100.0), wish("y", priority=1, a=0.1)], {"a": 1}, REPAIRS) == {"y": "a"}


def test_assignment_moves_a_job_that_fits_elsewhere() -> None:
    asked = [wish("any", a=5.0, b=4.0), wish("only", a=1.0)]
    assert assign(asked, {"a": 1, "b": 1}, 0) == {"any": "b", "only": "a"}


def test_room_is_made_along_a_chain() -> None:
    asked = [wish("x", a=9.0, b=5.0), wish("y", b=8.0, c=1.0), wish("z", a=1.0)]
    assert assign(asked, {"a": 1, "b": 1, "c": 1}, 0) == {"x": "b", "y": "c", "z": "a"}


def test_two_that_gain_by_it_swap() -> None:
    asked = [wish("x", a=10.0, b=9.0), wish("y", a=9.5, b=1.0)]
    assert assign(asked, {"a": 1, "b": 1}, 0) == {"x": "a", "y": "b"}
    assert assign(asked, {"a": 1, "b": 1}, REPAIRS) == {"x": "b", "y": "a"}


def test_equal_gains_of_two_kinds_of_step() -> None:
    """A swap and a replacement that gain the same: once compared by the names in them, of which one may be none."""
    asked = [wish(f"j{number}", a=1.0 + number % 2, b=2.0 - number % 2, c=1.0) for number in range(9)]
    assert len(assign(asked, {"a": 2, "b": 2, "c": 2}, REPAIRS)) == 6


@pytest.mark.parametrize(("room", "placed"), [(4, {"gang": "a"}), (3, {"small": "a"})])
def test_a_gang_takes_all_or_nothing(room: int, placed: Mapping[str, str]) -> None:
    assert assign([wish("gang", devices=4, a=2.0), wish("small", a=1.0)], {"a": room}, REPAIRS) == placed


@FEW
@given(asked=MIXED, room=ROOM)
def test_nobody_gets_what_does_not_fit_or_is_not_there(asked: list[Wish], room: dict[str, int]) -> None:
    placed = assign(asked, room, REPAIRS)
    by_name = {each.name: each for each in asked}
    used = Counter[str]()
    for name, cls in placed.items():
        assert cls in by_name[name].worth
        used[cls] += by_name[name].devices
    assert all(used[cls] <= room[cls] for cls in used)


@FEW
@given(asked=MIXED, room=ROOM)
def test_mending_never_loses_anything(asked: list[Wish], room: dict[str, int]) -> None:
    before, after = assign(asked, room, 0), assign(asked, room, REPAIRS)
    of = {each.name: each.devices for each in asked}
    assert total(asked, after) >= total(asked, before) - 1e-6
    assert sorted(of[name] for name in after) == sorted(of[name] for name in before)


@FEW
@given(asked=wishes(), room=ROOM, more=st.sampled_from(CLASSES))
def test_more_devices_never_serve_fewer(asked: list[Wish], room: dict[str, int], more: str) -> None:
    richer = {**room, more: room[more] + 1}
    assert len(assign(asked, richer, REPAIRS)) >= len(assign(asked, room, REPAIRS))


@FEW
@given(asked=MIXED, room=ROOM)
def test_no_priority_is_inverted(asked: list[Wish], room: dict[str, int]) -> None:
    """Who waits could not have had what a lower priority has."""
    placed = assign(asked, room, REPAIRS)
    assert {name: placed[name] for name in placed if _of(asked, name).priority == 1} == assign(
        [each for each in asked if each.priority == 1], room, REPAIRS
    )


@FEW
@given(asked=wishes(), room=ROOM)
def test_as_many_as_can_be_are_served(asked: list[Wish], room: dict[str, int]) -> None:
    seats = [cls for cls in CLASSES for _ in range(room[cls])]
    fits = np.array([[cls in each.worth for cls in seats] for each in asked], dtype=float)
    most = int(fits[linear_sum_assignment(-fits)].sum()) if fits.size else 0
    assert len(assign(asked, room, REPAIRS)) == most


@pytest.mark.parametrize("seed", range(8))
def test_it_comes_close_to_the_best_assignment(seed: int) -> None:
    random = np.random.default_rng(seed)
    worth = random.random((60, 3)) ** 3
    asked = [wish(f"j{number}", **dict(zip(CLASSES, row, strict=True))) for number, row in enumerate(worth)]
    best = worth[:, np.repeat(np.arange(3), 10)]
    reached = total(asked, assign(asked, dict.fromkeys(CLASSES, 10), REPAIRS))
    assert reached >= 0.995 * best[linear_sum_assignment(-best)].sum()


def _of(asked: Sequence[Wish], name: str) -> Wish:
    return next(each for each in asked if each.name == name)
