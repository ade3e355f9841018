"""What was told, line by line, never grows beyond a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from hostler.web.rl.account import PICTURES_KEPT, POINTS_MAX, TROUBLES_KEPT, Account, Point, thinned
from tests.web.rl.builders import base64_of, line, png, told

NOW = 5000.0


def account(*lines: bytes, is_new: bool = False) -> Account:
    """After these lines."""
    made = Account()
    for each in lines:
        made.take(each, NOW, is_new=is_new)
    return made


def test_the_rate_is_that_of_the_last_seconds() -> None:
    slow = [line(told(number)) for number in range(1, 40)]
    fast = [line(told(number, steps=80_000 + 9000 * number)) for number in range(40, 60)]
    made = account(*slow, *fast)
    assert made.window is not None
    begin, end = made.window
    assert end.seconds - begin.seconds == 30.0
    assert (end.steps - begin.steps) / 30.0 == 4500.0


def test_two_lines_far_apart_are_a_rate_too() -> None:
    made = account(line(told(1)), line(told(2, seconds=500.0)))
    assert made.window is not None
    assert made.window[1].seconds - made.window[0].seconds == 498.0
    assert account(line(told(1))).window is None


def test_a_curve_is_thinned_and_keeps_its_ends() -> None:
    made = account(*(line(told(number, pictures={})) for number in range(1, 2 * POINTS_MAX)))
    assert POINTS_MAX // 2 <= len(made.points) <= POINTS_MAX
    assert (made.points[0].steps, made.points[-1].steps) == (2000, 2000 * (2 * POINTS_MAX - 1))


@given(lists(integers(0, 9), min_size=3))
def test_thinned_points_are_points(numbers: list[int]) -> None:
    points = [Point(number, float(number), None, None) for number in numbers]
    found = thinned(points)
    assert (found[0], found[-1]) == (points[0], points[-1])
    assert len(found) <= len(points) // 2 + 1
    assert set(found) <= set(points)


def test_one_that_goes_back_has_a_curve_of_its_own() -> None:
    made = account(*(line(told(number)) for number in (1, 2, 3, 2)))
    assert [each.steps for each in made.points] == [4000]
    assert made.window is None


def test_when_it_was_told_is_what_it_says_but_not_later_than_it_was_read() -> None:
    assert account(line(told(1))).told_at == 1002.0
    assert account(line(told(1, at=NOW + 100))).told_at == NOW
    assert account(line(told(1, at=None))).told_at is None, "it may have stood there for long"
    assert account(line(told(1, at=None)), is_new=True).told_at == NOW


def test_pictures_and_troubles_are_the_last_ones() -> None:
    pictures = {str(env): base64_of(png()) for env in range(50)}
    many = [
        line(told(number, pictures={str(int(env) + 50 * number): each for env, each in pictures.items()}))
        for number in range(1, 10)
    ]
    made = account(*many, *(line({"trouble": f"number {number}"}) for number in range(200)))
    assert len(made.pictures) == PICTURES_KEPT
    assert max(made.pictures) == 499
    assert (len(made.troubles), made.troubles_told, made.troubles[-1].says) == (TROUBLES_KEPT, 200, "number 199")


def test_what_is_left_out_is_counted_and_other_output_is_not() -> None:
    made = account(b"hello\n", line(told(1)), b'{"rl": 1\n', line(told(2, rl=7)), b'{"a": 1}\n', line(told(2)))
    assert (made.lines, made.skipped) == (2, 2)
    assert made.last is not None
    assert made.last.steps == 4000


def test_one_that_goes_on_is_not_over() -> None:
    assert account(line(told(1)), line({"done": True})).ending is not None
    assert account(line(told(1)), line({"done": False}), line(told(2))).ending is None


@given(lists(tuples(sampled_from([0, 1, 2, 5, 2**53]), sampled_from([0.0, 1e-300, 1.0, 2.0, 1e15])), max_size=20))
def test_a_rate_can_always_be_told(steps: list[tuple[int, float]]) -> None:
    made = account(*(line(told(1, steps=number, seconds=seconds)) for number, seconds in steps))
    if made.window is not None:
        begin, end = made.window
        assert end.seconds > begin.seconds
    for before, after in zip(made.points, made.points[1:], strict=False):
        assert after.seconds > before.seconds
        assert after.steps >= before.steps
