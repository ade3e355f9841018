from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hostler.policy.priority import HALF_LIFE_S, Claim, faded, first, score

CLAIM = Claim(
    name="a",
    weight=1.0,
    heaviest=1.0,
    served=0.0,
    least_served=0.0,
    idle_s=60.0,
    data_age_s=60.0,
    velocity=0.0,
)
maybe = st.none() | st.floats(0, 1e9)


@given(st.floats(0.01, 1), maybe, maybe, st.none() | st.floats(-1e6, 1e6))
def test_a_score_and_its_parts_lie_between_0_and_1(weight, idle_s, age_s, velocity):
    found = score(replace(CLAIM, weight=weight, idle_s=idle_s, data_age_s=age_s, velocity=velocity))
    assert 0 <= found.total <= 1
    assert all(part is None or 0 <= part <= 1 for part in found.parts.values())


def test_unknown_is_shown_as_unknown_and_counts_as_the_middle():
    unknown = score(replace(CLAIM, velocity=None))
    assert unknown.parts["velocity"] is None
    assert "velocity ?" in str(unknown)
    assert unknown.total == score(replace(CLAIM, velocity=0.0)).total


def test_each_factor_pulls():
    least = score(CLAIM).total
    assert score(replace(CLAIM, idle_s=4 * 3600.0)).total > least
    assert score(replace(CLAIM, data_age_s=4 * 3600.0)).total > least
    assert score(replace(CLAIM, velocity=50.0)).total > least
    assert score(replace(CLAIM, heaviest=2.0)).total < least


def test_a_config_never_served_is_starved_most():
    assert score(replace(CLAIM, idle_s=None)).parts["starvation"] == 1.0


def test_shares_come_first_and_the_score_decides_among_equals():
    had = replace(CLAIM, name="had", served=162.0, least_served=100.0, idle_s=1e6)
    stale = replace(CLAIM, name="stale", served=159.0, least_served=100.0, data_age_s=1e6)
    fresh = replace(CLAIM, name="fresh", served=100.0, least_served=100.0, data_age_s=0.0)
    chosen, why = first([had, fresh, stale])
    assert chosen.name == "stale"
    assert why.parts["data age"] == 1.0


def test_what_was_had_fades():
    assert faded(100.0, 0.0) == 100.0
    assert faded(100.0, HALF_LIFE_S) == 50.0
    assert faded(100.0, 1e9) == 0.0


def test_equals_go_by_name_so_that_the_choice_is_the_same_every_time():
    claims = [replace(CLAIM, name=name) for name in ("b", "c", "a")]
    assert first(claims)[0].name == first(claims[::-1])[0].name == "c"
