"""What is kept in mind of a training: names that it makes up are not among it."""

from __future__ import annotations

from hostler.model.rl_telemetry import AdviceTold, Waits
from hostler.web.rl.account import Account
from hostler.web.rl.figures import telemetry
from tests.web.rl.builders import ADVICE, line, output, told


def heard(*lines: bytes) -> Account:
    account = Account()
    for each in b"".join(lines).splitlines():
        account.take(each, 1000.0, is_new=True)
    return account


def test_nothing_is_known_of_one_that_has_told_nothing() -> None:
    assert telemetry("j1", "j1.1", heard(b"hello\n")) is None


def test_numbers_of_the_last_line() -> None:
    found = telemetry("j1", "j1.1", heard(output(20)))
    assert found is not None
    assert (found.steps, found.seconds, found.episodes, found.envs, found.per_s) == (40_000, 40.0, 200, 16, 1000.0)
    assert (found.largest_share, found.over_share, found.advice_share, found.advice) == (0.9, ("rooms",), None, None)


def test_advice() -> None:
    shares = {"rooms": 0.5, "advice": 0.5}
    found = telemetry("j1", "j1.1", heard(line(told(1, advice=ADVICE, shares=shares, alarms=["advice calls"]))))
    assert found is not None
    waits = Waits(within=((0.25, 40), (1.0, 41), (2.5, 43), (10.0, 50)), calls=50, seconds=46.0)
    assert found.advice == AdviceTold(calls={"answered": 43, "timeout": 7}, success=0.86, resting=0.25, waits=waits)
    assert (found.advice_share, found.over_share) == (0.5, ())


def test_what_is_no_share_and_what_has_no_name_of_ours() -> None:
    advice = {"success": 1.5, "resting": -1, "calls": {"answered": {"calls": 1}, "x": {"calls": 2}, "y": {"calls": 3}}}
    found = telemetry("j1", "j1.1", heard(line(told(1, advice=advice, shares={}, alarms=["elsewhere"]))))
    assert found is not None
    assert found.advice == AdviceTold(calls={"answered": 1, "other": 5}, success=None, resting=None, waits=None)
    assert (found.largest_share, found.over_share, found.advice_share) == (None, (), None)


def test_a_reward_without_advice_in_it_has_no_share_of_it_though_a_component_is_called_so() -> None:
    found = telemetry("j1", "j1.1", heard(line(told(1, shares={"advice": 1.0}))))
    assert found is not None
    assert found.advice_share is None
