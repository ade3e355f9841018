"""Who is owed time? Weighted fair shares by deficit; unused share is lent and paid back within bounds.

Device time is kept by account: a work kind, or a training config, on the devices of one tier. What was had fades, and
who has had least of it for its share comes next. That order depends on nothing but what each account had: it never
changes to the disadvantage of one that waits. Who wants nothing leaves its share to the others, and is owed for it:
by what has not faded yet; and while it is paid back everybody else keeps half of the devices of its share
(`Account.holds`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from hostler.model.record import record
from hostler.model.rules import Quota

HALF_LIFE_S = 3 * 86_400.0
"""After that, what an account had counts half.

Who comes next is the one that has least, so each account is ahead of its share by half a job on average, of the
`half-life / ln 2 · devices` that are remembered: 1 % of one device's time for three days and jobs of two hours. And
time that went elsewhere for a while, to trainings that could not wait, is made up for as long as it is remembered.
With an hour, devices would go round in turn whatever the shares; without fading, a fleet would atone for ever.
"""
TOLERANCE = 0.05
"""Part of its share by which an account may be behind before it goes first."""
KEPT = 0.5
"""Part of its share of the devices that nobody goes below to pay others back."""
OTHERS = "(others)"
"""The pattern that configs without a quota go by in `by_pattern`."""


@record
class Service:
    """Device seconds an account has had, as of `at` (seconds); they fade."""

    seconds: float = 0.0
    at: float = 0.0


@record
class Account:
    """Somebody that time is shared out to. `served_s`: what counts as had, faded (`served`, and what runs now)."""

    name: str
    share: float
    """Weight, not negative: only its proportion to the others' matters. 0: gets what nobody else wants."""
    served_s: float
    wants: bool = True
    holds: float = 0.0
    """Devices it has now. Where that is told, who has less of them than `KEPT` of its share goes first."""


@record
class QuotaTarget:
    """The share of a tier's time meant for a config; `pattern` is the quota it comes from, `None` without one."""

    config: str
    tier: int
    share: float
    pattern: str | None


NOTHING = Service()


def served(service: Service, now: float, half_life_s: float = HALF_LIFE_S) -> float:
    """Device seconds had, as they count now."""
    return service.seconds * _faded(now - service.at, half_life_s)


def add(service: Service, seconds: float, now: float, half_life_s: float = HALF_LIFE_S) -> Service:
    """The service after so much more until `now`. The order in which facts of different times come does not matter."""
    at = max(service.at, now)
    before, fresh = _faded(at - service.at, half_life_s), _faded(at - now, half_life_s)
    return Service(seconds=service.seconds * before + seconds * fresh, at=at)


def deficits(accounts: Collection[Account]) -> dict[str, float]:
    """By how much of the time each account is behind, in shares of it; positive: it is owed.

    Target and achievement are both taken among those that want something, so that what the others leave is lent in
    proportion. They sum to 0; who wants nothing is owed nothing, and where nobody has had anything nobody is behind.
    """
    found = dict.fromkeys((account.name for account in accounts), 0.0)
    wanting = [account for account in accounts if account.wants]
    aims = _aims(wanting)
    total_s = math.fsum(account.served_s for account in wanting)
    if total_s > 0:
        found.update({account.name: aims[account.name] - account.served_s / total_s for account in wanting})
    return found


def rank(accounts: Collection[Account]) -> list[str]:
    """Those that want something, who has had least for its share first; of equals the largest share, then by name."""
    wanting = [account for account in accounts if account.wants]
    floors = _floors(wanting)
    return [account.name for account in sorted(wanting, key=lambda account: _place(account, floors))]


def most_owed(accounts: Collection[Account], tolerance: float = TOLERANCE) -> str | None:
    """Who goes first whatever else speaks for others: who is behind by more than this part of its share.

    `None`: nobody is, and other reasons may decide.
    """
    wanting = [account for account in accounts if account.wants]
    if not wanting:
        return None
    floors = _floors(wanting)
    first = min(wanting, key=lambda account: _place(account, floors))
    behind = deficits(wanting)[first.name]
    is_owed = first.holds < floors[first.name] or behind > tolerance * _aims(wanting)[first.name]
    return first.name if is_owed else None


def targets(
    quotas: Sequence[Quota], configs: Sequence[str], tier: int, weights: Mapping[str, float]
) -> dict[str, QuotaTarget]:
    """What each config is meant to get of a tier; the shares sum to 1.

    A config belongs to the most specific pattern that matches it: its name, fewer wildcards, more of it written out,
    earlier in the file. The configs of a pattern, and those without one what the quotas leave, divide by `weights` (1
    where none is given). Where quotas sum to more than 1, or leave something that nobody is there to take, they count
    in proportion.
    """
    owned = _owned([quota for quota in quotas if quota.tier == tier], configs)
    promised = math.fsum(quota.share for quota, _ in owned)
    claimed = {name for _, names in owned for name in names}
    others = [name for name in configs if name not in claimed]
    left = max(1.0 - promised, 0.0) if others else 0.0
    whole = promised + left
    parts = [(quota.pattern, quota.share, names) for quota, names in owned]
    found: dict[str, QuotaTarget] = {}
    for pattern, share, names in [*parts, (None, left, others)]:
        for name, part in _divided(names, weights).items():
            aim = part * (share / whole) if whole > 0 else part * len(names) / len(configs)
            found[name] = QuotaTarget(config=name, tier=tier, share=aim, pattern=pattern)
    return found


def contradictions(quotas: Sequence[Quota], configs: Sequence[str]) -> list[str]:
    """What is wrong with the quotas, in words: a pattern given twice, one for no config, more than everything."""
    return [problem for tier in sorted({quota.tier for quota in quotas}) for problem in _wrong(quotas, configs, tier)]


def achieved(services: Mapping[str, float]) -> dict[str, float]:
    """Each one's share of the device seconds; empty where there were none, because nobody can say then."""
    total_s = math.fsum(services.values())
    return {name: seconds / total_s for name, seconds in services.items()} if total_s > 0 else {}


def by_pattern(aims: Mapping[str, QuotaTarget], values: Mapping[str, float]) -> dict[str, float]:
    """Sums of the configs' values for each quota: what was promised to a pattern was promised to all of it."""
    found: defaultdict[str, float] = defaultdict(float)
    for name, aim in aims.items():
        found[aim.pattern or OTHERS] += values.get(name, 0.0)
    return dict(found)


def quota_error(target: Mapping[str, float], had: Mapping[str, float]) -> float | None:
    """How much of the time went to others than it was meant for, in points (0..100); `None` where there was none.

    Half the sum of the differences, the total variation distance of both: what would have to be moved.
    """
    if not had:
        return None
    return 50.0 * math.fsum(abs(target.get(name, 0.0) - had.get(name, 0.0)) for name in {*target, *had})


def _faded(age_s: float, half_life_s: float) -> float:
    """Part of it that still counts; a clock that was set back makes nothing count more."""
    return math.exp2(-max(age_s, 0.0) / half_life_s)


def _aims(wanting: Collection[Account]) -> dict[str, float]:
    """Shares of the time meant for those that want some; equal where none of them has one."""
    whole = math.fsum(account.share for account in wanting)
    if whole <= 0:
        return {account.name: 1 / len(wanting) for account in wanting}
    return {account.name: account.share / whole for account in wanting}


def _floors(wanting: Collection[Account]) -> dict[str, int]:
    """Devices that each keeps whoever is owed more, once one more is given; whole ones, or a small share would always
    hold one."""
    held = 1 + math.fsum(account.holds for account in wanting)
    return {name: math.floor(KEPT * aim * held) for name, aim in _aims(wanting).items()}


def _place(account: Account, floors: Mapping[str, int]) -> tuple[bool, bool, float, float, str]:
    """Who sorts first comes first."""
    enough = account.holds >= floors[account.name]
    if account.share <= 0:
        return enough, True, account.served_s, 0.0, account.name
    return enough, False, account.served_s / account.share, -account.share, account.name


def _owned(quotas: Sequence[Quota], configs: Sequence[str]) -> list[tuple[Quota, list[str]]]:
    """The quotas that have configs of their own, with these."""
    owners = {name: _owner(quotas, name) for name in configs}
    names = [[name for name in configs if owners[name] == place] for place in range(len(quotas))]
    return [(quota, mine) for quota, mine in zip(quotas, names, strict=True) if mine]


def _owner(quotas: Sequence[Quota], config: str) -> int | None:
    matching = [place for place, quota in enumerate(quotas) if _matches(quota.pattern, config)]
    return min(matching, key=lambda place: _vagueness(quotas[place].pattern, config), default=None)


def _matches(pattern: str, config: str) -> bool:
    return pattern == config or fnmatchcase(config, pattern)


def _vagueness(pattern: str, config: str) -> tuple[bool, int, int]:
    """Least for the most specific."""
    wildcards = sum(pattern.count(each) for each in "*?[")
    return pattern != config, wildcards, -len(pattern)


def _divided(names: Sequence[str], weights: Mapping[str, float]) -> dict[str, float]:
    """Parts of 1 by weight; equal where nobody has one."""
    mine = {name: weights.get(name, 1.0) for name in names}
    whole = math.fsum(mine.values())
    return {name: weight / whole if whole > 0 else 1 / len(mine) for name, weight in mine.items()}


def _wrong(quotas: Sequence[Quota], configs: Sequence[str], tier: int) -> Iterator[str]:
    mine = [quota for quota in quotas if quota.tier == tier]
    for pattern, times in Counter(quota.pattern for quota in mine).items():
        if times > 1:
            yield f"quotas of tier {tier}: the share of {pattern!r} is given {times} times"
    owning = {quota.pattern for quota, _ in _owned(mine, configs)}
    for pattern in dict.fromkeys(quota.pattern for quota in mine if quota.pattern not in owning):
        if any(_matches(pattern, config) for config in configs):
            yield f"quotas of tier {tier}: every config that {pattern!r} matches has a quota more specific"
        else:
            yield f"quotas of tier {tier}: {pattern!r} matches no training config"
    promised = math.fsum(quota.share for quota in mine)
    if promised > 1 + 1e-9:
        yield f"quotas of tier {tier} sum to {promised:.4g}: a tier has no more than 1 to give"
