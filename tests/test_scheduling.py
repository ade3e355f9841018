"""Which process plays which test: nothing is lost, and what waits is spread."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given, strategies as st

from tests.scheduling import BEGUN_BY, TOGETHER, TOGETHER_OF, WAITING, scope_of, spread

REPOSITORY = Path(__file__).parents[1]
NAMES = st.builds(lambda folder, name: f"tests/{folder}/test_{name}.py", st.sampled_from("abc"), st.integers(0, 40))


def test_modules_that_stay_together_exist() -> None:
    assert [name for name in (*TOGETHER, *TOGETHER_OF) if not (REPOSITORY / name).is_file()] == []


def test_scope_of_a_test_is_itself_or_what_it_shares() -> None:
    alone, shared = "tests/core/test_jobs.py::test_a[x::y]", f"{TOGETHER[0]}::test_a"
    assert (scope_of(alone), scope_of(shared)) == (alone, TOGETHER[0])
    assert scope_of("tests/browser/test_a.py::test_b") == scope_of("tests/browser/test_c.py::test_d")


@given(st.lists(NAMES, unique=True))
def test_spread_has_every_module_once(modules: list[str]) -> None:
    assert sorted(spread(modules)) == sorted(modules)


def test_spread_begins_long_tests_evenly_and_before_the_end() -> None:
    few, many = [f"{WAITING}/test_{n}.py" for n in range(10)], [f"tests/many/test_{n:03}.py" for n in range(100)]
    order = spread([*few, *many])
    at = [order.index(name) for name in few]
    assert all(9 <= later - earlier <= 12 for earlier, later in pairwise(at))
    assert at[-1] < BEGUN_BY * len(order)
    assert [name for name in order if name in many] == many
