"""Whom to believe that a device is bad: sound work, never a job that fails everywhere."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hostler.model.rules import QuarantineRules
from hostler.model.work import FailureClass
from hostler.policy import quarantine
from hostler.policy.quarantine import Strike, Witness

RULES = QuarantineRules(failures=3, rest_s=600.0, rest_max_s=21600.0)
SOUND = Witness(succeeded_at=90.0, elsewhere_at=90.0, failed_at=None)
TIMES = st.none() | st.floats(0, 1e6)
WITNESSES = st.builds(Witness, succeeded_at=TIMES, elsewhere_at=TIMES, failed_at=TIMES)


def strikes(*families: str) -> list[Strike]:
    return [
        Strike(at=100.0 + at, job=f"j{at}", family=name, failure=FailureClass.DEVICE)
        for at, name in enumerate(families)
    ]


def test_three_failures_in_a_row_of_work_that_does_well_elsewhere() -> None:
    assert quarantine.verdict(RULES, strikes("a", "a"), {"a": SOUND}) is None
    why = quarantine.verdict(RULES, strikes("a", "a", "a"), {"a": SOUND})
    assert why == "3 failures in a row (device) of 3 jobs; a does well elsewhere"


def test_a_family_that_fails_everywhere_is_not_believed() -> None:
    everywhere = Witness(succeeded_at=90.0, elsewhere_at=90.0, failed_at=95.0)
    assert quarantine.verdict(RULES, strikes(*"aaaaaa"), {"a": everywhere}) is None


def test_quarantine_ignores_work_that_never_succeeded() -> None:
    never = Witness(succeeded_at=None, elsewhere_at=None, failed_at=None)
    assert quarantine.verdict(RULES, strikes(*"aaabbb"), {"a": never, "b": never}) is None


def test_quarantine_of_an_only_device_needs_failures_of_two_families() -> None:
    here = Witness(succeeded_at=90.0, elsewhere_at=None, failed_at=None)
    assert quarantine.verdict(RULES, strikes("a", "a", "a"), {"a": here}) is None
    why = quarantine.verdict(RULES, strikes("a", "b", "a"), {"a": here, "b": here})
    assert why is not None
    assert why.endswith("2 kinds of work that did well before")


def test_quarantine_ignores_old_successes_elsewhere() -> None:
    old = Witness(succeeded_at=90.0, elsewhere_at=90.0, failed_at=None)
    late = [Strike(at=90.0 + RULES.rest_max_s + n, job="j", family="a", failure=FailureClass.LOST) for n in (1, 2, 3)]
    assert quarantine.verdict(RULES, late, {"a": old}) is None


@given(st.lists(st.sampled_from("abc"), max_size=12), st.fixed_dictionaries(dict.fromkeys("abc", WITNESSES)))
def test_less_than_enough_failures_are_never_enough(families: list[str], witnesses: dict[str, Witness]) -> None:
    why = quarantine.verdict(RULES, strikes(*families), witnesses)
    assert why is None or len(families) >= RULES.failures
    believed = [name for name in families if quarantine.is_credible(witnesses[name])]
    assert why is None or len(believed) >= RULES.failures


@given(st.integers(1, 10**6))
def test_rests_double_up_to_the_longest(strike: int) -> None:
    rest = quarantine.rest_s(RULES, strike)
    assert RULES.rest_s <= rest <= RULES.rest_max_s
    assert rest <= quarantine.rest_s(RULES, strike + 1) <= 2 * rest
    assert [quarantine.rest_s(RULES, n) for n in (1, 2, 3, 6, 7)] == [600, 1200, 2400, 19200, 21600]


def test_what_is_of_the_devices_own_kind() -> None:
    told = {each: quarantine.speaks_against(each, node_lost=False, small=False) for each in FailureClass}
    assert {each for each, is_so in told.items() if is_so} == {
        FailureClass.DEVICE, FailureClass.SPAWN, FailureClass.LOST,
    }  # fmt: skip
    assert not quarantine.speaks_against(FailureClass.LOST, node_lost=True, small=True)
    assert quarantine.speaks_against(FailureClass.MEMORY, node_lost=False, small=True)


def test_small_need_is_judged_against_device_memory() -> None:
    assert quarantine.is_small(8.0, 24.0)
    assert not quarantine.is_small(16.0, 24.0)
    assert not quarantine.is_small(0.0, 24.0), "its need is unknown"
    assert not quarantine.is_small(8.0, None)


def doubtful(*families: str) -> list[Strike]:
    """Failures in words that a wrong program uses as well as a broken device."""
    return [
        Strike(at=100.0 + at, job=f"j{at}", family=name, failure=FailureClass.EXIT) for at, name in enumerate(families)
    ]


def test_what_may_be_the_jobs_fault_counts_once_its_like_did_well_elsewhere_afterwards() -> None:
    assert quarantine.verdict(RULES, doubtful("a", "a", "a"), {"a": SOUND}) is None
    since = Witness(succeeded_at=110.0, elsewhere_at=110.0, failed_at=None)
    assert quarantine.verdict(RULES, doubtful("a", "a", "a"), {"a": since}) is not None


def test_quarantine_follows_doubtful_failures_of_several_families() -> None:
    assert quarantine.verdict(RULES, doubtful("a", "b", "a"), {"a": SOUND, "b": SOUND}) is not None
    everywhere = Witness(succeeded_at=90.0, elsewhere_at=90.0, failed_at=95.0)
    assert quarantine.verdict(RULES, doubtful("a", "b", "a"), {"a": everywhere, "b": SOUND}) is None


def test_the_jobs_own_failures_speak_against_a_device_only_where_they_are_doubtful() -> None:
    for each in FailureClass:
        own = each in (FailureClass.EXIT, FailureClass.SIGNAL)
        assert quarantine.speaks_against(each, node_lost=True, small=False, doubtful=True) is (
            own or each in (FailureClass.DEVICE, FailureClass.SPAWN)
        )
