"""What must be copied where, how soon? Copies that are proved, in places that keep, over domains that fail apart.

A copy counts if its hash was read back there, not too long ago, and the place does not vanish without notice. What
nobody holds for certain goes first, then models, datasets, games. New artifacts go to the controller's own store
first (`HUB`), and on from there: a node that made them is busy, and may be gone soon. All copies come from there or
go there, since two stores seldom reach each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from hostler.model.artifacts import HUB, Copy, Place, ReplicationRules, Standing
from hostler.model.record import record

URGENT_S = 5.0
"""What is only in places that may vanish is fetched within so many seconds, whatever it is."""


class Urgency(IntEnum):
    """What goes first; smaller is sooner."""

    AT_RISK = 0
    MODEL = 1
    DATASET = 2
    GAMES = 3
    REPAIR = 4
    """There are copies, and one more is wanted."""


@record
class Held:
    """An artifact that is open: what is known of its copies."""

    sha256: str
    bytes: int
    standing: Standing
    made_at: float
    copies: tuple[Copy, ...]


@record
class Transfer:
    """One copy that should be made."""

    sha256: str
    bytes: int
    source: str
    target: str
    urgency: Urgency
    due_at: float
    """When it should be there (Unix time)."""


@record
class Shortfall:
    """What is missing of what is wanted."""

    copies: int
    domains: int
    why: str | None = None
    """Why nothing can be done about it now; `None`: something can, or nothing is missing."""

    @property
    def is_met(self) -> bool:
        """Whether everything wanted is there."""
        return self.copies == 0 and self.domains == 0


def proven(copies: Iterable[Copy], places: Mapping[str, Place], at: float, rules: ReplicationRules) -> tuple[Copy, ...]:
    """The copies that count at `at`."""
    return tuple(copy for copy in copies if _counts(copy, places, at, rules))


def shortfall(held: Held, places: Mapping[str, Place], at: float, rules: ReplicationRules) -> Shortfall:
    """What an artifact lacks. Places that are unknown hold nothing that counts."""
    missing = _missing(held, places, at, rules)
    if missing.is_met:
        return missing
    return Shortfall(copies=missing.copies, domains=missing.domains, why=_obstacle(held, places, missing, at, rules))


def is_at_risk(held: Held, places: Mapping[str, Place], at: float, rules: ReplicationRules) -> bool:
    """Whether no copy of it counts: if the places that may vanish do, it is gone."""
    return not proven(held.copies, places, at, rules)


def is_readable(held: Held, places: Mapping[str, Place]) -> bool:
    """Whether any place that is said to have it answers."""
    return _source(held, places) is not None


def unread(held: Held, places: Mapping[str, Place], at: float, rules: ReplicationRules) -> tuple[str, ...]:
    """Places whose copy would count if its hash were read and right: cheaper than another copy."""
    if _missing(held, places, at, rules).is_met:
        return ()
    proved = {copy.place for copy in proven(held.copies, places, at, rules)}
    able = (copy.place for copy in held.copies if not copy.damaged and copy.place not in proved)
    return tuple(name for name in able if name in places and places[name].keeps and places[name].reachable)


def transfers(
    open_: Iterable[Held], places: Mapping[str, Place], at: float, rules: ReplicationRules
) -> Sequence[Transfer]:
    """The next copy of each artifact that lacks one and can get it, in the order in which they should be made.

    One at a time of each: where the next should be depends on whether this one came to be.
    """
    found = (_next(held, places, at, rules) for held in open_)
    return sorted((each for each in found if each is not None), key=_rank)


def _counts(copy: Copy, places: Mapping[str, Place], at: float, rules: ReplicationRules) -> bool:
    place = places.get(copy.place)
    if place is None or not place.keeps or copy.damaged or copy.verified_at is None:
        return False
    return at - copy.verified_at <= rules.verified_within_s


def _missing(held: Held, places: Mapping[str, Place], at: float, rules: ReplicationRules) -> Shortfall:
    """What it lacks; why nothing can be done about it was not asked."""
    wanted = rules.wanted[held.standing]
    there = proven(held.copies, places, at, rules)
    domains = {places[copy.place].domain for copy in there}
    return Shortfall(copies=max(wanted.copies - len(there), 0), domains=max(wanted.domains - len(domains), 0))


def _next(held: Held, places: Mapping[str, Place], at: float, rules: ReplicationRules) -> Transfer | None:
    missing = _missing(held, places, at, rules)
    if missing.is_met:
        return None
    source, target = _source(held, places), _target(held, places, missing, at, rules)
    if source is None or target is None:
        return None
    risky = is_at_risk(held, places, at, rules)
    return Transfer(
        sha256=held.sha256,
        bytes=held.bytes,
        source=source.name,
        target=target.name,
        urgency=_urgency(held, at_risk=risky, has_hub=_lies_in(held, HUB)),
        due_at=held.made_at + (min(URGENT_S, _within_s(held, rules)) if risky else _within_s(held, rules)),
    )


def _source(held: Held, places: Mapping[str, Place]) -> Place | None:
    """Where it is read: the controller's own copy, then one that was proved, then any that is said to be there."""
    there = [copy for copy in held.copies if not copy.damaged and _can_be_read(copy, places)]
    best = min(there, key=lambda copy: (copy.place != HUB, copy.verified_at is None, copy.place), default=None)
    return None if best is None else places[best.place]


def _can_be_read(copy: Copy, places: Mapping[str, Place]) -> bool:
    place = places.get(copy.place)
    return place is not None and place.reachable


def _target(
    held: Held, places: Mapping[str, Place], missing: Shortfall, at: float, rules: ReplicationRules
) -> Place | None:
    """The place for the next copy; one that is there and was not proved of late is proved by the scrubber instead."""
    lies = {copy.place for copy in held.copies if not copy.damaged}
    domains = {places[copy.place].domain for copy in proven(held.copies, places, at, rules)}
    able = [each for each in places.values() if each.name not in lies and _has_room(each, held.bytes)]
    if missing.copies == 0:  # only another domain is missing: one more copy in the same helps nobody
        able = [each for each in able if each.domain not in domains]
    if _lies_in(held, HUB) and HUB in places and places[HUB].reachable:
        return min(able, key=lambda each: _preference(each, held, domains), default=None)
    return places[HUB] if able and _can_come_home(held, places) else None


def _can_come_home(held: Held, places: Mapping[str, Place]) -> bool:
    return HUB in places and not _lies_in(held, HUB) and _has_room(places[HUB], held.bytes)


def _has_room(place: Place, size: int) -> bool:
    return place.keeps and place.takes and place.reachable and (place.free_bytes is None or place.free_bytes >= size)


def _preference(place: Place, held: Held, domains: set[str]) -> tuple[bool, bool, str]:
    """The controller's store, then a domain that has none, then evenly, and the same at each look."""
    even = hashlib.blake2b(f"{held.sha256} {place.name}".encode(), digest_size=8).hexdigest()
    return place.name != HUB, place.domain in domains, even


def _urgency(held: Held, *, at_risk: bool, has_hub: bool) -> Urgency:
    if at_risk:
        return Urgency.AT_RISK
    if has_hub and held.standing is not Standing.MODEL:
        return Urgency.REPAIR
    if held.standing in (Standing.MODEL, Standing.CANDIDATE, Standing.FORMER):
        return Urgency.MODEL
    return Urgency.DATASET if held.standing is Standing.DATASET else Urgency.GAMES


def _lies_in(held: Held, place: str) -> bool:
    return any(copy.place == place and not copy.damaged for copy in held.copies)


def _within_s(held: Held, rules: ReplicationRules) -> float:
    return rules.wanted[held.standing].within_s


def _rank(transfer: Transfer) -> tuple[Urgency, float, int, str]:
    """Of equal urgency what is due first, then what is small."""
    return transfer.urgency, transfer.due_at, transfer.bytes, transfer.sha256


def _obstacle(
    held: Held, places: Mapping[str, Place], missing: Shortfall, at: float, rules: ReplicationRules
) -> str | None:
    if all(copy.damaged for copy in held.copies):
        return "no copy is known any more; `hostler artifact list --short` names it"
    if not is_readable(held, places):
        return "no place that has it can be reached"
    if _target(held, places, missing, at, rules) is not None:
        return None
    keeping = [each for each in places.values() if each.keeps]
    wanted = rules.wanted[held.standing]
    if len(keeping) < wanted.copies:
        return f"{wanted.copies} copies are wanted, and there are {len(keeping)} places that keep any; add stores"
    if len({each.domain for each in keeping}) < wanted.domains:
        return (
            f"copies are wanted in {wanted.domains} failure domains, and all places are in fewer; add a store elsewhere"
        )
    if not _lies_in(held, HUB) and not _can_come_home(held, places):
        return "the controller's own disk, through which copies go, has no room for it"
    return "no other place can be reached and has room for it"
