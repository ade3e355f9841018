"""Which work on which device, now?

Work that is compared by score goes where it is worth most: value x speed x (speed for the price)^beta x shortness x
ageing, and a bonus for staying where it is. `worths` answers for one freed device, `scores` for one arrival, `plan`
for all at once. Prices are the slow loop's (`policy.programme`); without any it is speed alone that counts.

The first part of the file answers for what is not compared by score: short scripts are queued ahead on a device, and
sweeps and self-play, which never end, share the devices evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hostler.model.record import record
from hostler.model.rules import PlacementRules
from hostler.policy.assignment import Wish, assign

LEAD_S = 0.5
"""Scripts that are over this soon are queued on a device ahead of time, so that it never waits for the controller."""
LEAD_ATTEMPTS = 32


SLICE_S = 60.0
"""How long self-play waits at least for a device that a sweep holds, when it holds none at all."""


@record
class Occupied:
    """What a device has been given: numbers, and the seconds they will last at most (`None`: unknown)."""

    attempts: int
    attempts_s: float | None
    chunks: int
    chunks_s: float | None


def takes_attempt(device: Occupied, predicted_s: float | None) -> bool:
    """Whether the device should be given one more script, expected to last `predicted_s` at most.

    Chunks do not stand in its way: the device turns to the script at the next chunk border.
    """
    if device.attempts == 0:
        return True
    if device.attempts_s is None or predicted_s is None or device.attempts >= LEAD_ATTEMPTS:
        return False
    return device.attempts_s + predicted_s < LEAD_S


def takes_chunks(device: Occupied) -> bool:
    """Whether the device may be given chunks: not while a script of unknown or long duration has it."""
    return device.attempts == 0 or (device.attempts_s is not None and device.attempts_s < LEAD_S)


@record
class Contest:
    """Self-play against sweeps of the same priority for one device; `waited_s` since either last had one to itself.

    For self-play that is since it got or left a device, for sweeps since one got a chunk.
    """

    selfplay_devices: int
    sweep_devices: int
    holds_chunks: bool
    """Whether the device is at a sweep now."""
    selfplay_waited_s: float
    selfplay_turn_s: float
    """How long self-play had the device that it left last."""
    sweep_waited_s: float


def selfplay_first(contest: Contest) -> bool:
    """Whether self-play gets the device: the side with fewer devices, or whoever waited longer where they are even.

    A device at a sweep changes sides only if that makes the shares more even, or if self-play has had none for as long
    as its last turn was.
    """
    if contest.holds_chunks:
        turn_s = max(contest.selfplay_turn_s, SLICE_S)
        starved = contest.selfplay_devices == 0 and contest.selfplay_waited_s > turn_s
        return starved or contest.selfplay_devices + 1 <= contest.sweep_devices - 1
    if contest.selfplay_devices != contest.sweep_devices:
        return contest.selfplay_devices < contest.sweep_devices
    return contest.selfplay_waited_s >= contest.sweep_waited_s


class Bid(NamedTuple):
    """One job, or the head of a group of jobs alike, that wants devices."""

    job: str
    group: str
    priority: int
    value: float
    """What a second of one of its devices is worth at its best; shares, ranks and quotas folded in. Above 0."""
    waited_s: float
    """Since it last had a device, or else since it was submitted; 0 while it has one."""
    rates: Mapping[str, float]
    """Relative speed by class of device, above 0, the best 1; a class that is not named does not fit."""
    remaining_s: float | None = None
    """Expected seconds still to run on its best class, above 0; `None`: nobody knows."""
    devices: int = 1
    held: str | None = None
    """The class it runs on now."""
    restart_s: float = 0.0
    """What it loses when it starts anywhere but where it is."""
    late: bool = False
    """Whether it will be done late, whatever it gets (`is_late`): while there is no queue, prices are not for it."""


@record
class Market:
    """What the devices are worth, and how many want them."""

    prices: Mapping[str, float]
    """By class, the dearest 1; a class without one is neither sought nor avoided."""
    pressure: float
    """Active jobs per device: devices wanted and held, over devices there are."""
    drain_s: float | None = None
    """How long all that is here takes at least, where nothing more is coming; `None`: more is coming, or who knows."""


USUAL = PlacementRules()
EASY, CROWDED = 0.7, 1.2
"""Active jobs per device below which prices count for nothing, and above which they count in full."""
PRICE_LEAST = 0.02
"""What nobody needs has no price; it counts as so much."""
SIZE_POWER = 0.25
"""How much sooner short work goes: at a hundredth of the length, a good three times."""
SIZE_S = 3600.0
"""Work of this length, and of unknown length, is neither preferred nor put back."""
SIZE_LEAST_S = 60.0
QUIET_JOBS = 5
"""Nothing more is coming when nothing has come for as long as it takes to get so many jobs done."""
LONG = 0.38
"""Work that needs more than this part of the time until all is done goes before short work: or it would end last."""
LONG_POWER = 8
BOUND = 0.9
"""Work that needs this part of the time until all is done must run all the time, on what is fastest for it."""
BOUND_FACTOR = 100.0
BOUND_POWER = 8
STAY_S = 1800.0
"""For how long work stays where it is put, roughly: what a restart costs is spread over it."""
LATE = 1.2
"""How many times as long as with an equal share of everything a job may take before it is late."""
LATE_FACTOR = 2.0
"""How much more a late job counts, while there is no queue: in a queue everybody is late."""
NO_QUEUE = 0.5
"""There is none while prices count no more than this part of their strength."""
REPAIRS = 64
"""Steps that mend a plan, at most."""


def exponent(beta: float, backlog: float) -> float:
    """How strongly prices count at so many active jobs per device: not where there is room, in full in a queue."""
    return beta * min(max((backlog - EASY) / (CROWDED - EASY), 0.0), 1.0)


def drain_s(bids: Iterable[Bid], capacity: Mapping[str, int], prices: Mapping[str, float]) -> float | None:
    """How long these take at least, all together; `None` if nobody knows of any.

    By weak duality of the programme: at no prices can devices do more than they are worth, nor work cost less than on
    the class that is cheapest for it. And no job ends sooner than by itself on its best class.
    """
    cost, longest_s, cheapest = 0.0, 0.0, dict[int, float]()
    for bid in bids:
        if bid.remaining_s is None:
            continue
        table = id(bid.rates)  # many bids share one
        if table not in cheapest:
            cheapest[table] = min(prices.get(cls, 1.0) / rate for cls, rate in bid.rates.items())
        longest_s = max(longest_s, bid.remaining_s)
        cost += bid.remaining_s * bid.devices * cheapest[table]
    worth = sum(prices.get(cls, 1.0) * count for cls, count in capacity.items())
    return max(longest_s, cost / worth if worth > 0 else 0.0) or None


def equal_share(rates: Mapping[str, float], fleet: Mapping[str, int]) -> float:
    """Speed with as much of every class as there is for each device of the fleet; 1 is a device of the best class."""
    devices = sum(fleet.values())
    return sum(rates.get(cls, 0.0) * count for cls, count in fleet.items()) / devices if devices else 0.0


def is_late(since_s: float, remaining_s: float, whole_s: float, share: float) -> bool:
    """Whether a job will be done much later than at its equal share, even if it has the best from now on.

    It came `since_s` ago and needs `whole_s` in all, `remaining_s` of it still, on its best class. That is finish-time
    fairness (Mahajan et al., Themis, NSDI 2020) above `LATE`.
    """
    return share > 0 and since_s + remaining_s > LATE * whole_s / share


def closing(drain_s: float | None, active: int, quiet_s: float) -> float | None:
    """`drain_s` if nothing more is coming, as far as one can tell: for `Market.drain_s`.

    `active` jobs that take `drain_s` together; none has come for `quiet_s`.
    """
    if drain_s is None:
        return None
    return drain_s if quiet_s * active > QUIET_JOBS * drain_s else None


def scores(bid: Bid, market: Market, rules: PlacementRules = USUAL) -> dict[str, float]:
    """What a device of each class that fits is worth to the bid; among bids of one priority the highest gets it.

    Never lower for having waited longer.
    """
    return _Terms(market, rules).scores(bid)


def worths(bids: Iterable[Bid], cls: str, market: Market, rules: PlacementRules = USUAL) -> list[float]:
    """What a device of this class is worth to each bid; it fits all of them."""
    terms = _Terms(market, rules)
    return [terms.score(bid, cls) for bid in bids]


def explain_score(bid: Bid, cls: str, market: Market, rules: PlacementRules = USUAL) -> str:
    """The score with its factors, for the log."""
    terms = _Terms(market, rules)
    restart = _restart(bid, _size(bid)) if cls == bid.held else 0.0
    factors = {
        "value": bid.value,
        "speed": bid.rates[cls],
        "size": _size(bid),
        "length": terms.length(bid),
        "ageing": _ageing(bid, rules),
    }
    if terms.is_hurried(bid):
        factors["late"] = LATE_FACTOR
    words = " · ".join(f"{name} {factor:.3g}" for name, factor in factors.items())
    edge = f"speed for the price {terms.edges(bid.rates)[cls]:.3g} ^ {terms.beta_of(bid):.3g}"
    return f"score {terms.scores(bid)[cls]:.3g}: {words} · {edge} + no restart {restart:.3g}"


def plan(
    bids: Sequence[Bid],
    capacity: Mapping[str, int],
    market: Market,
    rules: PlacementRules = USUAL,
    repairs: int = REPAIRS,
) -> dict[str, str]:
    """Which job gets which class; who is not named waits. `capacity` is in devices.

    Priorities first, then scores; what a restart costs keeps those that run where they are.
    """
    terms = _Terms(market, rules)
    wishes = [Wish(name=bid.job, priority=bid.priority, devices=bid.devices, worth=terms.scores(bid)) for bid in bids]
    return assign(wishes, capacity, repairs)


class _Terms:
    """What of the scores is the same for many bids; kept for as long as one question is answered."""

    def __init__(self, market: Market, rules: PlacementRules) -> None:
        self.rules = rules
        self.drain_s = market.drain_s
        self.beta = exponent(rules.beta, market.pressure)
        self.prices = {cls: max(price, PRICE_LEAST) for cls, price in market.prices.items()}
        self.known: dict[int, tuple[Mapping[str, float], dict[str, float]]] = {}

    def scores(self, bid: Bid) -> dict[str, float]:
        """The score of each class that fits."""
        size = _size(bid)
        worth = bid.value * size * _ageing(bid, self.rules)
        if self.drain_s is not None:
            worth *= self.length(bid)
            speeds = self._priced(bid.rates, self.beta_of(bid))
        elif self.is_hurried(bid):
            worth *= LATE_FACTOR
            speeds = dict(bid.rates)
        else:
            speeds = self._speeds(bid.rates)
        scores = {cls: worth * speed for cls, speed in speeds.items()}
        if bid.held in scores:
            scores[bid.held] += _restart(bid, size)
        return scores

    def score(self, bid: Bid, cls: str) -> float:
        """The score of one class; the same number as among all of them."""
        size, beta = _size(bid), self.beta_of(bid)
        worth = bid.value * size * _ageing(bid, self.rules) * self.length(bid)
        if self.is_hurried(bid):
            worth *= LATE_FACTOR
        speed = bid.rates[cls] if beta == 0.0 else bid.rates[cls] * self._edge(bid.rates, cls) ** beta
        return worth * speed + (_restart(bid, size) if cls == bid.held else 0.0)

    def length(self, bid: Bid) -> float:
        """Long work first, where all that is here is to be done soonest.

        What has no time to spare must run (zero laxity); the rest may go in any order without the whole taking longer,
        as long as enough of it is left to keep every device busy to the end.
        """
        need = self._need(bid)
        factor: float = 1.0 + (need / LONG) ** LONG_POWER
        return factor * BOUND_FACTOR if need >= BOUND else factor

    def is_hurried(self, bid: Bid) -> bool:
        """Whether the bid is late, and can be helped: in a queue everybody is late, and a batch has one end."""
        return bid.late and self.drain_s is None and self.beta <= NO_QUEUE * self.rules.beta

    def beta_of(self, bid: Bid) -> float:
        """How strongly prices count for this bid: not for what must have the fastest."""
        if self.is_hurried(bid):
            return 0.0
        return float(self.beta * (1.0 - self._need(bid) ** BOUND_POWER))

    def edges(self, rates: Mapping[str, float]) -> dict[str, float]:
        """Speed for the price of each class, as a share of what the best class for this work has of it."""
        ratios = {cls: rate / self.prices[cls] for cls, rate in rates.items() if cls in self.prices}
        most = max(ratios.values(), default=1.0)
        return {cls: ratios[cls] / most if cls in ratios else 1.0 for cls in rates}

    def _edge(self, rates: Mapping[str, float], cls: str) -> float:
        if cls not in self.prices:
            return 1.0
        most = max(rate / self.prices[other] for other, rate in rates.items() if other in self.prices)
        return rates[cls] / self.prices[cls] / most

    def _need(self, bid: Bid) -> float:
        """The part of the time until all is done that the bid needs for itself, 0..1; 0 where nobody knows."""
        if not self.drain_s or bid.remaining_s is None:
            return 0.0
        return min(bid.remaining_s / self.drain_s, 1.0)

    def _speeds(self, rates: Mapping[str, float]) -> dict[str, float]:
        # Many bids share one table of rates; the entry keeps the table alive, so that its id stays its own.
        entry = self.known.get(id(rates))
        if entry is None:
            entry = self.known[id(rates)] = (rates, self._priced(rates, self.beta))
        return entry[1]

    def _priced(self, rates: Mapping[str, float], beta: float) -> dict[str, float]:
        if beta == 0.0:
            return dict(rates)
        edges = self.edges(rates)
        return {cls: rate * edges[cls] ** beta for cls, rate in rates.items()}


def _size(bid: Bid) -> float:
    """Short work first, as far as its length is known."""
    if bid.remaining_s is None:
        return 1.0
    return float((SIZE_S / max(bid.remaining_s, SIZE_LEAST_S)) ** SIZE_POWER)


def _ageing(bid: Bid, rules: PlacementRules) -> float:
    """1 for as long as nobody starves, then ever more."""
    return max(bid.waited_s / rules.starve_after_s, 1.0)


def _restart(bid: Bid, size: float) -> float:
    """What staying saves."""
    return bid.value * size * bid.restart_s / STAY_S
