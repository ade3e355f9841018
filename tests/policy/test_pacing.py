from hypothesis import given, strategies as st

from hostler.policy.pacing import Pace, ahead, steps_allowed

PACE = Pace(least=0.25, most=8.0, batch=256, max_steps=1000)


def test_steps_are_bounded_by_new_positions():
    assert steps_allowed(PACE, 0) == 0
    assert steps_allowed(PACE, 256) == 8
    assert steps_allowed(PACE, 10**9) == PACE.max_steps


def test_selfplay_waits_once_training_could_not_catch_up():
    most = PACE.max_steps * PACE.batch / PACE.least
    assert ahead(PACE, int(most)) is None
    why = ahead(PACE, int(most) + 2000)
    assert why is not None
    assert "one training takes 1000" in why


@given(st.integers(0, 10**9))
def test_what_training_takes_never_exceeds_the_most(positions):
    steps = steps_allowed(PACE, positions)
    assert steps * PACE.batch <= PACE.most * positions
    assert 0 <= steps <= PACE.max_steps


@given(st.integers(0, 10**7))
def test_while_selfplay_goes_on_one_training_can_do_the_least(positions):
    if ahead(PACE, positions) is None:
        assert PACE.max_steps * PACE.batch >= PACE.least * positions
