"""Who is owed time: by deficit, lent and paid back within bounds."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import example, given, settings, strategies as st

from hostler.model.rules import Quota
from hostler.policy.share import (
    HALF_LIFE_S,
    NOTHING,
    OTHERS,
    TOLERANCE,
    Account,
    Service,
    achieved,
    add,
    by_pattern,
    contradictions,
    deficits,
    most_owed,
    quota_error,
    rank,
    served,
    targets,
)

HOUR_S = 3600.0
DAY_S = 86_400.0

seconds = st.just(0.0) | st.floats(1e-9, 1e8)  # less would vanish when scaled
times = st.floats(0, 1e8)
shares = st.floats(0.01, 10)


@st.composite
def accounts(draw: st.DrawFn, wants: st.SearchStrategy[bool] = st.booleans()) -> list[Account]:  # noqa: B008
    drawn = draw(st.lists(st.tuples(shares, seconds, wants), min_size=1, max_size=8))
    return [Account(name=f"a{at}", share=w, served_s=had, wants=want) for at, (w, had, want) in enumerate(drawn)]


# --- what an account has had ------------------------------------------------------------------------------------------


def test_what_was_had_counts_half_after_the_half_life() -> None:
    service = add(NOTHING, 100.0, now=5.0)
    assert served(service, 5.0) == 100.0
    assert served(service, 5.0 + HALF_LIFE_S) == pytest.approx(50.0)
    assert served(service, 5.0 + 1e9) == 0.0


def test_a_clock_set_back_makes_nothing_count_more() -> None:
    assert served(Service(seconds=100.0, at=50.0), now=10.0) == 100.0


@settings(max_examples=30)
@given(st.lists(st.tuples(seconds, times), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_bookings_does_not_matter(facts: list[tuple[float, float]], random: Random) -> None:
    def booked(order: list[tuple[float, float]]) -> Service:
        service = NOTHING
        for amount, at in order:
            service = add(service, amount, at)
        return service

    other = random.sample(facts, len(facts))
    assert served(booked(other), 2e8) == pytest.approx(served(booked(facts), 2e8))
    assert booked(other).at == booked(facts).at


# --- who is owed ------------------------------------------------------------------------------------------------------


def test_deficits_are_target_less_achievement_in_shares() -> None:
    found = deficits(
        [
            Account(name="selfplay", share=0.6, served_s=700.0),
            Account(name="training", share=0.3, served_s=200.0),
            Account(name="evaluation", share=0.1, served_s=100.0),
        ]
    )
    assert found == pytest.approx({"selfplay": -0.1, "training": 0.1, "evaluation": 0.0})


def test_who_wants_nothing_leaves_its_share_to_the_others_in_proportion() -> None:
    lent = [
        Account(name="selfplay", share=0.6, served_s=600.0),
        Account(name="training", share=0.3, served_s=0.0, wants=False),
        Account(name="evaluation", share=0.2, served_s=200.0),
    ]
    assert deficits(lent) == pytest.approx({"selfplay": 0.0, "training": 0.0, "evaluation": 0.0})
    assert most_owed(lent) is None
    back = [replace(account, wants=True) for account in lent]
    assert most_owed(back) == "training"
    assert deficits(back)["training"] == pytest.approx(0.3 / 1.1)


def test_where_nobody_had_anything_nobody_is_behind() -> None:
    fresh = [Account(name=name, share=share, served_s=0.0) for name, share in (("a", 0.1), ("b", 0.6))]
    assert deficits(fresh) == {"a": 0.0, "b": 0.0}
    assert most_owed(fresh) is None
    assert rank(fresh) == ["b", "a"]
    assert most_owed([]) is None
    assert most_owed([replace(fresh[0], wants=False)]) is None


def test_within_the_tolerance_other_reasons_decide() -> None:
    def owed(had: float) -> str | None:
        others = Account(name="b", share=0.5, served_s=100.0 - had)
        return most_owed([Account(name="a", share=0.5, served_s=had), others])

    assert owed(49.0) is None
    assert owed(47.0) == "a"
    assert owed(53.0) == "b"


def test_who_has_no_share_gets_what_nobody_else_wants() -> None:
    some = Account(name="some", share=0.1, served_s=1e6)
    none, less = (Account(name=name, share=0.0, served_s=had) for name, had in (("none", 9.0), ("less", 1.0)))
    assert rank([none, some, less]) == ["some", "less", "none"]
    assert most_owed([none, less]) == "less"
    assert deficits([none, less]) == pytest.approx({"none": -0.4, "less": 0.4})


@settings(max_examples=30)
@given(accounts())
def test_deficits_sum_to_nothing_and_only_who_wants_is_ranked(some: list[Account]) -> None:
    found = deficits(some)
    assert sum(found.values()) == pytest.approx(0.0, abs=1e-9)
    assert all(found[account.name] == 0.0 for account in some if not account.wants)
    assert sorted(rank(some)) == sorted(account.name for account in some if account.wants)


@settings(max_examples=30)
@given(accounts(wants=st.just(True)))
def test_who_is_owed_most_is_behind_and_ranked_first(some: list[Account]) -> None:
    owed = most_owed(some)
    if owed is not None:
        assert rank(some)[0] == owed
        assert deficits(some)[owed] > 0
    else:
        whole = sum(account.share for account in some)
        behind = deficits(some)
        assert all(behind[account.name] <= (TOLERANCE + 1e-9) * account.share / whole for account in some)


@settings(max_examples=30)
@given(accounts(), st.sampled_from([2.0**-10, 0.5, 4.0, 2.0**20]))
def test_only_proportions_matter(some: list[Account], factor: float) -> None:
    longer = [replace(account, served_s=account.served_s * factor) for account in some]
    heavier = [replace(account, share=account.share * factor) for account in some]
    for scaled in (longer, heavier):
        assert rank(scaled) == rank(some)
        assert deficits(scaled) == pytest.approx(deficits(some), abs=1e-9)


@settings(max_examples=30)
@given(accounts(wants=st.just(True)), st.data(), st.floats(0, 1e6), st.floats(0, 1e6))
def test_waiting_never_lowers_a_rank(some: list[Account], data: st.DataObject, amount: float, after_s: float) -> None:
    """Whoever is served, and however much later one looks: none that was not served falls behind."""
    lucky = data.draw(st.sampled_from([account.name for account in some]))
    services = {account.name: Service(seconds=account.served_s, at=0.0) for account in some}
    services[lucky] = add(services[lucky], amount, now=after_s)
    later = [replace(account, served_s=served(services[account.name], after_s)) for account in some]
    before, after = rank(some), rank(later)
    for name in before:
        if name != lucky:
            ahead = set(before[before.index(name) + 1 :])
            assert not ahead & set(after[: after.index(name)]) - _ties(later, name)


def _ties(some: list[Account], name: str) -> set[str]:
    """Those that stand level with it but for the rounding of the fading."""
    level = {account.name: account.served_s / account.share for account in some}
    return {other for other in level if level[other] == pytest.approx(level[name], rel=1e-9, abs=1e-300)}


def test_who_wants_more_or_less_changes_no_order_among_the_others() -> None:
    some = [Account(name=name, share=w, served_s=had) for name, w, had in (("a", 1, 5), ("b", 2, 4), ("c", 3, 1))]
    assert rank(some) == ["c", "b", "a"]
    assert rank([some[0], some[1], replace(some[2], wants=False)]) == ["b", "a"]


# --- convergence ------------------------------------------------------------------------------------------------------


class Server:
    """One device that always goes to the first of the rank, for slices of random length."""

    def __init__(self, weights: Mapping[str, float], seed: int) -> None:
        self.weights, self.random, self.now = dict(weights), Random(seed), 0.0
        self.services = dict.fromkeys(weights, NOTHING)
        self.had = dict.fromkeys(weights, 0.0)

    def accounts(self, absent: str | None = None) -> list[Account]:
        return [
            Account(name=name, share=w, served_s=served(self.services[name], self.now), wants=name != absent)
            for name, w in self.weights.items()
        ]

    def run(self, length_s: float, slice_s: float, absent: str | None = None) -> list[tuple[str, float]]:
        """Who was served until when."""
        log, end = [], self.now + length_s
        while self.now < end:
            name = rank(self.accounts(absent))[0]
            held_s = slice_s * self.random.uniform(0.1, 1.0)
            self.now += held_s
            self.services[name] = add(self.services[name], held_s, self.now)
            self.had[name] += held_s
            log.append((name, self.now))
        return log


@settings(max_examples=20, deadline=None)
@given(st.lists(shares, min_size=2, max_size=5), st.integers(0, 2**32))
def test_shares_converge_whatever_the_lengths_of_the_slices(weights: list[float], seed: int) -> None:
    named = {f"a{at}": weight for at, weight in enumerate(weights)}
    server = Server(named, seed)
    server.run(2 * DAY_S, slice_s=900.0)
    whole = sum(weights)
    aims = {name: weight / whole for name, weight in named.items()}
    error = quota_error(aims, achieved(server.had))
    assert error is not None
    assert error <= 100 * 900.0 * len(weights) / (2 * DAY_S)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 1), st.integers(0, 2**32))
def test_nobody_with_a_share_waits_for_ever(small: float, seed: int) -> None:
    """One slice of everybody else's, at their share, is the most that lies between two of its own."""
    server = Server({"small": small, "large": 1.0, "larger": 2.0}, seed)
    log = server.run(DAY_S, slice_s=900.0)
    mine = [0.0] + [at for name, at in log if name == "small"] + [server.now]
    longest = max(later - before for before, later in pairwise(mine))
    assert longest <= 900.0 * (4 + 2 * 3.0 / small)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 0.9), st.floats(0, 60), st.integers(0, 2**32))
def test_lent_time_is_paid_back_as_far_as_it_has_not_faded(share: float, absent_days: float, seed: int) -> None:
    server = Server({"lender": share, "borrower": 1 - share}, seed)
    server.run(DAY_S, slice_s=900.0)
    server.run(absent_days * DAY_S, slice_s=6 * HOUR_S, absent="lender")
    claim_s = deficits(server.accounts())["lender"] * sum(account.served_s for account in server.accounts())
    log = server.run(DAY_S, slice_s=900.0)
    mine_s = sum(later - before for (_, before), (name, later) in pairwise(log) if name == "lender")
    assert claim_s <= share * HALF_LIFE_S / math.log(2) + 6 * HOUR_S, "no more than its share of what is remembered"
    assert share * DAY_S - 4 * 900.0 <= mine_s <= share * DAY_S + claim_s + 2 * 900.0


def test_who_pays_back_keeps_half_of_its_devices() -> None:
    """Twenty devices, and one of four accounts was away for a week: the others fall to no less than half."""
    had = {"away": 0.0, "b": 1e7, "c": 1e7, "d": 2e7}
    weights = {"away": 0.4, "b": 0.2, "c": 0.2, "d": 0.2}
    holds = {"away": 0, "b": 6, "c": 7, "d": 7}
    for turn in range(60):
        ended = ("b", "c", "d")[turn % 3] if turn < 30 else max(holds, key=lambda name: holds[name])
        holds[ended] -= 1 if holds[ended] else 0
        while sum(holds.values()) < 20:
            told = [Account(name=n, share=w, served_s=had[n], holds=holds[n]) for n, w in weights.items()]
            assert most_owed(told) == rank(told)[0]
            holds[rank(told)[0]] += 1
    assert holds == {"away": 14, "b": 2, "c": 2, "d": 2}


def test_a_small_share_does_not_always_hold_a_device() -> None:
    small = Account(name="small", share=0.01, served_s=1e6, holds=0)
    assert rank([small, Account(name="large", share=0.99, served_s=1e6, holds=20)]) == ["large", "small"]


# --- the fleet of suite C, in small -----------------------------------------------------------------------------------

PROMISED = {"hx4": 0.25, "hx3": 0.15, "hx2": 0.1, "sq4": 0.15, "sq3": 0.1, "sq2": 0.05} | {
    f"small{at}": 0.2 / 6 for at in range(6)
}


def quota_errors(seed: int, days: tuple[int, ...]) -> list[float]:
    """Points of error after so many days: 19 devices, self-play of an hour or so, and trainings nobody may delay."""
    random, now = Random(seed), 0.0
    services, had = dict.fromkeys(PROMISED, NOTHING), dict.fromkeys(PROMISED, 0.0)
    running = [(0.0, device, "", 0.0) for device in range(19)]
    found: list[float] = []
    while len(found) < len(days):
        now, device, name, since = heapq.heappop(running)
        if name:
            services[name] = add(services[name], now - since, now)
            had[name] += now - since
        counts = {each: served(service, now) for each, service in services.items()}
        for _, _, holder, start in running:
            if holder:
                counts[holder] += now - start
        chosen = rank([Account(name=each, share=PROMISED[each], served_s=count) for each, count in counts.items()])[0]
        length_s = random.uniform(0.5, 1.5) * HOUR_S
        if random.random() < 0.05:
            chosen, length_s = random.choice(list(PROMISED)), 4 * HOUR_S * random.lognormvariate(0, 0.8)
        heapq.heappush(running, (now + length_s, device, chosen, now))
        if now >= days[len(found)] * DAY_S:
            found.append(quota_error(PROMISED, achieved(had)) or 0.0)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_quotas_hold_after_a_day_and_after_a_week(seed: int) -> None:
    day, week = quota_errors(seed, days=(1, 7))
    assert day <= 8.0
    assert week <= 2.5


# --- quotas -----------------------------------------------------------------------------------------------------------

CONFIGS = [f"{board}_{players}p" for board in ("hexagonal", "square19", "square8", "hex8") for players in (2, 3, 4)]
SEED = tuple(
    Quota(pattern=pattern, share=share)
    for pattern, share in {
        "hexagonal_4p": 0.25,
        "hexagonal_3p": 0.15,
        "hexagonal_2p": 0.10,
        "square19_4p": 0.15,
        "square19_3p": 0.10,
        "square19_2p": 0.05,
        "square8_*": 0.10,
        "hex8_*": 0.10,
    }.items()
)


def aims(quotas: tuple[Quota, ...], configs: list[str], **weights: float) -> dict[str, float]:
    return {name: aim.share for name, aim in targets(quotas, configs, 1, weights).items()}


def test_the_quotas_of_the_seed_are_shared_out() -> None:
    found = targets(SEED, CONFIGS, 1, {"hex8_2p": 2.0})
    assert found["hexagonal_4p"].share == pytest.approx(0.25)
    assert found["square8_3p"].share == pytest.approx(0.1 / 3)
    assert found["hex8_2p"].share == pytest.approx(0.05)
    assert found["hex8_3p"].pattern == "hex8_*"
    assert contradictions(SEED, CONFIGS) == []


@pytest.mark.parametrize(
    ("patterns", "owner"),
    [
        (("*", "hex8_*", "hex8_2p"), "hex8_2p"),
        (("h*_*p", "h*"), "h*"),
        (("hex*", "hex8_*"), "hex8_*"),
        (("hex8_??", "hex8_*"), "hex8_*"),
        (("h*_2p", "*ex_2p", "hex8*p"), "hex8*p"),
        (("?ex8_2p", "h?x8_2p"), "?ex8_2p"),
    ],
)
def test_the_most_specific_pattern_owns_a_config(patterns: tuple[str, ...], owner: str) -> None:
    quotas = tuple(Quota(pattern=pattern, share=0.1) for pattern in patterns)
    assert targets(quotas, ["hex8_2p"], 1, {})["hex8_2p"].pattern == owner


def test_configs_without_a_quota_share_what_the_quotas_leave_by_weight() -> None:
    quotas = (Quota(pattern="a", share=0.4), Quota(pattern="a", share=0.9, tier=2))
    assert aims(quotas, ["a", "b", "c"], b=2.0) == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.2})
    assert targets(quotas, ["a", "b"], 2, {})["b"].share == pytest.approx(0.1)
    assert aims((), ["a", "b"], a=3.0) == pytest.approx({"a": 0.75, "b": 0.25})


def test_where_quotas_promise_everything_the_others_only_borrow() -> None:
    assert aims((Quota(pattern="a", share=1.0),), ["a", "b"]) == {"a": 1.0, "b": 0.0}


def test_what_nobody_is_there_to_take_goes_to_the_quotas_in_proportion() -> None:
    quotas = (Quota(pattern="a", share=0.3), Quota(pattern="b", share=0.1), Quota(pattern="gone", share=0.5))
    assert aims(quotas, ["a", "b"]) == pytest.approx({"a": 0.75, "b": 0.25})
    nothing = (Quota(pattern="a", share=0.0), Quota(pattern="b", share=0.0))
    assert aims(nothing, ["a", "b"]) == pytest.approx({"a": 0.5, "b": 0.5})
    assert aims((), []) == {}


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from(["*", "hex*", "hex8_?p", "square8_2p", "x"]), st.floats(0, 1)), max_size=5),
    st.lists(st.sampled_from(CONFIGS), min_size=1, unique=True),
)
@example([("*", 5e-324)], ["hex8_2p", "square8_2p"])  # half of the least number there is would be nothing
def test_targets_cover_every_config_and_sum_to_one(quotas: list[tuple[str, float]], configs: list[str]) -> None:
    given_quotas = [Quota(pattern=pattern, share=share) for pattern, share in quotas]
    found = targets(given_quotas, configs, 1, {})
    assert sorted(found) == sorted(configs)
    assert all(aim.share >= 0 for aim in found.values())
    assert sum(aim.share for aim in found.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("quotas", "told"),
    [
        ([("a", 0.6), ("b", 0.6)], "quotas of tier 1 sum to 1.2: a tier has no more than 1 to give"),
        ([("a", 0.1), ("a", 0.2)], "quotas of tier 1: the share of 'a' is given 2 times"),
        ([("c*", 0.1)], "quotas of tier 1: 'c*' matches no training config"),
        (
            [("a", 0.1), ("[a]", 0.1)],
            "quotas of tier 1: every config that '[a]' matches has a quota more specific",
        ),
    ],
)
def test_contradictions_are_told(quotas: list[tuple[str, float]], told: str) -> None:
    found = contradictions([Quota(pattern=pattern, share=share) for pattern, share in quotas], ["a", "b"])
    assert found == [told]


def test_the_same_pattern_may_have_a_share_of_each_tier() -> None:
    assert contradictions([Quota(pattern="a", share=0.8), Quota(pattern="a", share=0.8, tier=2)], ["a"]) == []


def test_the_error_is_what_would_have_to_be_moved() -> None:
    aim = {"a": 0.5, "b": 0.3, "c": 0.2}
    assert quota_error(aim, achieved({"a": 40.0, "b": 40.0, "c": 20.0})) == pytest.approx(10.0)
    assert quota_error(aim, achieved({"d": 1.0})) == pytest.approx(100.0)
    assert quota_error(aim, aim) == 0.0
    assert quota_error(aim, achieved({"a": 0.0})) is None


def test_a_pattern_is_kept_by_all_of_its_configs_together() -> None:
    found = targets([Quota(pattern="hex8_*", share=0.6)], ["hex8_2p", "hex8_3p", "other"], 1, {})
    had = {"hex8_2p": 0.6, "other": 0.4}
    assert by_pattern(found, had) == pytest.approx({"hex8_*": 0.6, OTHERS: 0.4})
    assert quota_error(by_pattern(found, {n: aim.share for n, aim in found.items()}), by_pattern(found, had)) == (
        pytest.approx(0.0)
    )
