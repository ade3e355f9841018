"""Which work a device may be given besides what it has."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.planning import Demand, Instance
from hostler.model.rules import PlacementRules
from hostler.policy import placement, programme
from hostler.policy.placement import LEAD_ATTEMPTS, SLICE_S, Bid, Contest, Market, Occupied

IDLE = Occupied(attempts=0, attempts_s=0.0, chunks=0, chunks_s=0.0)


def busy(attempts: int, attempts_s: float | None) -> Occupied:
    return Occupied(attempts=attempts, attempts_s=attempts_s, chunks=0, chunks_s=0.0)


@pytest.mark.parametrize(
    ("device", "predicted_s", "takes"),
    [
        (IDLE, None, True),
        (IDLE, 1e6, True),
        (Occupied(attempts=0, attempts_s=0.0, chunks=5, chunks_s=50.0), None, True),
        (busy(1, None), 0.01, False),
        (busy(1, 0.01), None, False),
        (busy(1, 0.01), 0.01, True),
        (busy(1, 0.01), 0.6, False),
        (busy(1, 0.6), 0.01, False),
        (busy(LEAD_ATTEMPTS, 0.0), 0.0, False),
    ],
)
def test_short_scripts_are_queued_ahead(device: Occupied, predicted_s: float | None, takes: bool) -> None:
    assert placement.takes_attempt(device, predicted_s) is takes


@pytest.mark.parametrize(
    ("device", "takes"), [(IDLE, True), (busy(1, 0.1), True), (busy(1, 0.6), False), (busy(1, None), False)]
)
def test_chunks_do_not_wait_behind_long_scripts(device: Occupied, takes: bool) -> None:
    assert placement.takes_chunks(device) is takes


EVEN = Contest(
    selfplay_devices=1,
    sweep_devices=1,
    holds_chunks=False,
    selfplay_waited_s=0.0,
    selfplay_turn_s=0.0,
    sweep_waited_s=0.0,
)


def first(**fields: object) -> bool:
    return placement.selfplay_first(replace(EVEN, **fields))  # type: ignore[arg-type]


def test_a_free_device_goes_to_the_side_with_fewer() -> None:
    assert first(selfplay_devices=1, sweep_devices=2)
    assert not first(selfplay_devices=2, sweep_devices=1, selfplay_waited_s=1e6)


def test_where_they_are_even_it_goes_to_who_waited_longer() -> None:
    assert first(selfplay_waited_s=10.0, sweep_waited_s=5.0)
    assert not first(selfplay_waited_s=5.0, sweep_waited_s=10.0)


def test_a_device_at_a_sweep_changes_sides_only_for_more_even_shares() -> None:
    assert first(holds_chunks=True, selfplay_devices=1, sweep_devices=3)
    assert not first(holds_chunks=True, selfplay_devices=1, sweep_devices=2), "2 to 1 is as uneven as 1 to 2"
    assert not first(holds_chunks=True, selfplay_devices=1, sweep_devices=1, selfplay_waited_s=1e6)


@pytest.mark.parametrize(("turn_s", "slice_s"), [(0.0, SLICE_S), (5.0, SLICE_S), (300.0, 300.0)])
def test_a_single_device_is_shared_in_turns_of_equal_length(turn_s: float, slice_s: float) -> None:
    held = {"holds_chunks": True, "selfplay_devices": 0, "sweep_devices": 1, "selfplay_turn_s": turn_s}
    assert not first(**held, selfplay_waited_s=slice_s)
    assert first(**held, selfplay_waited_s=slice_s + 0.1)


@settings(max_examples=30)
@given(devices=st.integers(2, 40), start=st.integers(0, 40))
def test_shares_become_even_and_stay_so(devices: int, start: int) -> None:
    """Whoever has a device gives it up now and then: the difference ends at one device at most."""
    selfplay = min(start, devices)
    for _ in range(3 * devices):
        # A game ends and a chunk ends, where there is one; each device goes where the contest says.
        if selfplay:
            selfplay -= not first(selfplay_devices=selfplay - 1, sweep_devices=devices - selfplay)
        if selfplay < devices:
            selfplay += first(holds_chunks=True, selfplay_devices=selfplay, sweep_devices=devices - selfplay)
    assert abs(2 * selfplay - devices) <= 1


# The score: what a device is worth to a bid.

PRICES = {"fast": 1.0, "slow": 0.25}
EASY = Market(prices=PRICES, pressure=0.5)
CROWDED = Market(prices=PRICES, pressure=2.0)
RULES = PlacementRules()
ROOM = {"fast": 2, "slow": 2}
FEW = settings(max_examples=20, deadline=None)
MARKETS = st.builds(
    Market,
    prices=st.fixed_dictionaries({}, optional={cls: st.floats(0.0, 1.0) for cls in ROOM}),
    pressure=st.floats(0.0, 3.0),
    drain_s=st.none() | st.floats(60.0, 1e6),
)


def bid(job: str = "j1", **fields: object) -> Bid:
    usual = Bid(job=job, group="g", priority=0, value=1.0, waited_s=0.0, rates={"fast": 1.0, "slow": 0.5})
    return usual._replace(**fields)  # type: ignore[arg-type]


@st.composite
def bids(draw: st.DrawFn) -> Bid:
    rates = draw(st.dictionaries(st.sampled_from(sorted(ROOM)), st.floats(0.01, 1.0), min_size=1))
    return bid(
        value=draw(st.floats(0.01, 10.0)),
        waited_s=draw(st.floats(0.0, 1e6)),
        rates=rates,
        remaining_s=draw(st.none() | st.floats(1.0, 1e6)),
        held=draw(st.sampled_from([None, *rates])),
        restart_s=draw(st.floats(0.0, 600.0)),
        late=draw(st.booleans()),
    )


def score(offer: Bid, cls: str, market: Market) -> float:
    return placement.scores(offer, market)[cls]


def liked_best(offer: Bid, market: Market) -> str:
    """The class that work which arrives is put on, if there is room."""
    scores = placement.scores(offer, market)
    return max(scores, key=scores.__getitem__)


def taker(offers: list[Bid], cls: str, market: Market) -> Bid:
    """Who gets a device of a class that came free; all of one priority."""
    worths = placement.worths(offers, cls, market)
    return offers[worths.index(max(worths))]


@pytest.mark.parametrize(("backlog", "part"), [(0.0, 0.0), (0.7, 0.0), (0.95, 0.5), (1.2, 1.0), (9.0, 1.0)])
def test_prices_fade_in_with_the_backlog(backlog: float, part: float) -> None:
    assert placement.exponent(4.0, backlog) == pytest.approx(4.0 * part)


def test_where_there_is_room_everybody_has_what_is_fastest() -> None:
    assert liked_best(bid(), EASY) == "fast"


def test_in_a_queue_everybody_has_what_is_fastest_for_its_price() -> None:
    assert liked_best(bid(), CROWDED) == "slow"
    assert liked_best(bid(rates={"fast": 1.0, "slow": 0.1}), CROWDED) == "fast"


def test_who_is_late_does_not_mind_prices_as_long_as_there_is_no_queue() -> None:
    market = replace(CROWDED, pressure=0.9)
    assert liked_best(bid(rates={"fast": 1.0, "slow": 0.8}), market) == "slow"
    assert liked_best(bid(rates={"fast": 1.0, "slow": 0.8}, late=True), market) == "fast"
    assert liked_best(bid(rates={"fast": 1.0, "slow": 0.8}, late=True), CROWDED) == "slow"
    assert taker([bid("late", late=True), bid()], "fast", EASY) == bid("late", late=True)


def test_late_is_who_will_take_much_longer_than_at_an_equal_share() -> None:
    """Half of the devices are twice as fast: at an equal share it runs at 3/4 of the best, and needs 4000 s."""
    share = placement.equal_share({"fast": 1.0, "slow": 0.5}, ROOM)
    assert share == pytest.approx(0.75)
    assert not placement.is_late(0.0, 3000.0, 3000.0, share)
    assert not placement.is_late(1700.0, 3000.0, 3000.0, share)
    assert placement.is_late(1900.0, 3000.0, 3000.0, share)
    assert not placement.is_late(1e9, 3000.0, 3000.0, placement.equal_share({"other": 1.0}, ROOM)), "it fits nowhere"


def test_a_class_without_a_price_is_neither_sought_nor_avoided() -> None:
    market = replace(CROWDED, prices={"fast": 1.0})
    assert score(bid(), "slow", market) == pytest.approx(0.5)


def test_what_nobody_needs_is_not_infinitely_attractive() -> None:
    market = replace(CROWDED, prices={"fast": 1.0, "slow": 0.0})
    assert 0.0 < score(bid(), "fast", market) < score(bid(), "slow", market) < 1.0


def test_a_freed_device_goes_to_whom_it_is_worth_most() -> None:
    picky = bid("picky", rates={"fast": 1.0, "slow": 0.1})
    assert taker([bid(), picky], "fast", CROWDED) == picky
    assert taker([bid(), picky], "slow", CROWDED) == bid()
    assert placement.plan([bid(rates={"fast": 1.0})], {"slow": 1, "other": 1}, CROWDED) == {}


def test_a_priority_goes_before_every_score() -> None:
    low, high = bid("low", value=100.0), bid("high", priority=1, value=0.01)
    assert score(low, "fast", EASY) > score(high, "fast", EASY)
    assert placement.plan([low, high], {"fast": 1}, EASY) == {"high": "fast"}


def test_short_work_goes_before_long_work_and_what_is_unknown_between() -> None:
    short, long = bid("short", remaining_s=600.0), bid("long", remaining_s=60000.0)
    scores = [score(each, "fast", EASY) for each in (long, bid(), short)]
    assert scores == sorted(scores)


def test_where_nothing_more_comes_long_work_goes_first() -> None:
    short, long = bid("short", remaining_s=600.0), bid("long", remaining_s=60000.0)
    market = replace(CROWDED, drain_s=80000.0)
    assert taker([short, long], "fast", market) == long


def test_what_has_no_time_to_spare_gets_what_is_fastest_whatever_its_price() -> None:
    bound = bid(remaining_s=1000.0)
    assert liked_best(bound, replace(CROWDED, drain_s=1e6)) == "slow"
    assert liked_best(bound, replace(CROWDED, drain_s=1000.0)) == "fast"


@pytest.mark.parametrize(("quiet_s", "closes"), [(0.0, False), (400.0, False), (600.0, True)])
def test_nothing_more_is_coming_when_nothing_came_for_some_jobs_time(quiet_s: float, closes: bool) -> None:
    """Ten jobs in 1000 s: one each 100 s; quiet for five of them is quiet for good."""
    assert placement.closing(1000.0, 10, quiet_s) == (1000.0 if closes else None)


def test_all_together_take_what_they_cost_or_as_long_as_the_longest() -> None:
    """Ten hours of work at a price of 0.5 each, on devices worth 2.5 an hour together."""
    short = [bid(f"j{number}", remaining_s=3600.0) for number in range(10)]
    prices = {"fast": 1.0, "slow": 0.25}
    assert placement.drain_s(short, ROOM, prices) == pytest.approx(10 * 0.5 / 2.5 * 3600.0)
    assert placement.drain_s([*short, bid("long", remaining_s=36000.0)], ROOM, prices) == 36000.0
    assert placement.drain_s([bid()], ROOM, prices) is None
    assert placement.closing(None, 1, 1e9) is None


@pytest.mark.parametrize("seed", range(5))
def test_no_prices_make_it_take_longer_than_the_best_plan(seed: int) -> None:
    pytest.importorskip("highspy")
    random = Random(seed)
    bids_ = [
        bid(f"j{n}", rates={"fast": 1.0, "slow": random.uniform(0.1, 1.0)}, remaining_s=random.uniform(1, 1e5))
        for n in range(12)
    ]
    demands = tuple(
        Demand(name=each.job, worth={"fast": 0.0, "slow": 0.0}, rates=each.rates, most=1.0, work=each.remaining_s)
        for each in bids_
        if each.remaining_s is not None
    )
    best = programme.solve(Instance(classes=ROOM, demands=demands))
    for prices in (best.prices, {"fast": 1.0, "slow": random.random()}):
        assert placement.drain_s(bids_, ROOM, prices) <= best.drain_s * (1 + 1e-6)


def test_what_runs_stays_unless_moving_gains_more_than_it_costs() -> None:
    running = bid(held="slow", restart_s=60.0)
    assert liked_best(running, EASY) == "fast", "twice as fast, for a minute"
    nearly = bid(held="slow", restart_s=60.0, rates={"fast": 1.0, "slow": 0.98})
    assert liked_best(nearly, EASY) == "slow"
    assert placement.plan([nearly, bid("waits", rates={"slow": 1.0, "fast": 0.99})], {"slow": 1}, EASY) == {
        "j1": "slow"
    }


def test_a_gang_counts_as_many_as_it_takes() -> None:
    gang = bid("gang", devices=2, value=2.0)
    assert placement.plan([gang, bid("one")], {"fast": 2}, EASY) == {"gang": "fast"}
    assert placement.plan([gang, bid("one")], {"fast": 3}, EASY) == {"gang": "fast", "one": "fast"}


def test_the_score_is_told_with_its_factors() -> None:
    words = placement.explain_score(bid(waited_s=8 * 3600.0, held="slow", restart_s=60.0), "slow", CROWDED)
    assert words == (
        "score 1.03: value 1 · speed 0.5 · size 1 · length 1 · ageing 2 · speed for the price 1 ^ 4 + no restart 0.0333"
    )


@FEW
@given(offer=bids(), market=MARKETS, longer=st.floats(0.0, 1e6))
def test_waiting_never_lowers_a_score(offer: Bid, market: Market, longer: float) -> None:
    waited = offer._replace(waited_s=offer.waited_s + longer)
    for cls in offer.rates:
        assert score(waited, cls, market) >= score(offer, cls, market)


@FEW
@given(offer=bids(), market=MARKETS)
def test_staying_is_never_worth_less_for_having_run_there(offer: Bid, market: Market) -> None:
    for cls in offer.rates:
        assert score(offer._replace(held=cls), cls, market) >= score(offer, cls, market)


@FEW
@given(offers=st.lists(bids(), max_size=8), market=MARKETS)
def test_a_plan_is_the_same_whatever_the_order_of_the_bids(offers: list[Bid], market: Market) -> None:
    named = [offer._replace(job=f"j{number}") for number, offer in enumerate(offers)]
    plan = placement.plan(named, ROOM, market, RULES)
    assert plan == placement.plan(named[::-1], ROOM, market, RULES)
    assert all(cls in named[int(job[1:])].rates for job, cls in plan.items())


@FEW
@given(offers=st.lists(bids(), max_size=8), market=MARKETS)
def test_who_arrives_and_who_was_waiting_are_compared_by_the_same_numbers(offers: list[Bid], market: Market) -> None:
    for cls in ROOM:
        able = [offer for offer in offers if cls in offer.rates]
        assert placement.worths(able, cls, market) == [score(offer, cls, market) for offer in able]


@FEW
@given(offers=st.lists(bids(), min_size=1, max_size=8), market=MARKETS, longer=st.floats(0.0, 1e6))
def test_waiting_never_loses_a_freed_device(offers: list[Bid], market: Market, longer: float) -> None:
    for cls in ROOM:
        able = [offer._replace(job=f"j{n}") for n, offer in enumerate(offers) if cls in offer.rates]
        if able:
            first_ = taker(able, cls, market)
            waited = first_._replace(waited_s=first_.waited_s + longer)
            assert taker([waited if offer == first_ else offer for offer in able], cls, market) == waited
