"""How an interval is cut into launches, on a device that is made up."""

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.opencl.launch import GROWTH, LAUNCH_S, MOST_LAUNCHED, ROOM, Rows, Sweep
from hostler.workloads.sieve.opencl.tuning import Setting

ROWS = Rows(None, 1, 1, 0, 1, (0, 0, 0, 0))


class Made:
    """A device that searches so many items a second and finds what is planted."""

    def __init__(self, items_per_s: float, planted: list[int]) -> None:
        self._speed, self._planted = items_per_s, planted
        self.now = 0.0
        self.launches: list[tuple[int, int]] = []

    def clock(self) -> float:
        return self.now

    def launch(self, rows: Rows, start: int, count: int, setting: Setting) -> tuple[int, list[int]]:
        self.launches.append((start, count))
        self.now += 1e-4 + count / self._speed
        found = [item for item in self._planted if start <= item < start + count]
        return len(found), found[:ROOM]

    def sweep(self, guess: float) -> Sweep:
        return Sweep(self, ROWS, Setting(64, 1), guess, self.clock)


@given(
    speed=st.floats(1e4, 1e11),
    wrong=st.floats(1e-3, 10),
    start=st.one_of(st.just(0), st.integers(0, 1 << 127), st.just((1 << 64) - 12345)),
    size=st.integers(1, 1 << 22),
)
@settings(max_examples=60)
def test_launches_cover_an_interval_and_take_a_moment(speed: float, wrong: float, start: int, size: int) -> None:
    # At most thousands of launches where the guess is too low.
    size = int(min(size, 2 * speed))
    planted = {start, start + size - 1}
    made = Made(speed, sorted({*planted, start + size}))
    found = made.sweep(speed * wrong).find(start, start + size)
    assert found == sorted(planted)
    assert [begin for begin, _ in made.launches] == [start, *(begin + count for begin, count in made.launches[:-1])]
    for begin, count in made.launches:
        assert 1 <= count <= MOST_LAUNCHED
        assert begin >> 64 == begin + count - 1 >> 64
        assert count == 1 or count / speed <= LAUNCH_S * (1 + GROWTH)


def test_a_fast_device_is_soon_given_as_much_as_it_can_take() -> None:
    made = Made(1e10, [])
    made.sweep(1e9).find(0, 1 << 36)
    assert max(count for _, count in made.launches) == MOST_LAUNCHED
    assert len(made.launches) < 50


def test_an_empty_interval_is_no_launch() -> None:
    made = Made(1e6, [])
    assert made.sweep(1e6).find(7, 7) == []
    assert made.launches == []


def test_more_candidates_than_there_is_room_for_are_told() -> None:
    made = Made(1e6, list(range(ROOM + 1)))
    with pytest.raises(TooManyHits, match=rf"more than {ROOM} items in \[0, "):
        made.sweep(1e6).find(0, 1 << 20)
    few = Made(1e6, list(range(ROOM)))
    assert few.sweep(1e6).find(0, 1 << 20) == list(range(ROOM))
