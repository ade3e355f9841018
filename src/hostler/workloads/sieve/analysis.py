"""Which generators do these draws exclude? One candidate at a time: ``found``, ``excluded`` or ``undecided``, and why.

*Found*: an exact method recovered a seed or a state, the judge replayed it, and chance would hardly give one.
*Excluded*: linear relations that every state obeys and the draws break, checked by the plain oracle; or an exact
search of all seeds that finds none; or draws that the calls never give. *Undecided* says what it would take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeAlias

from hostler.workloads.sieve import chances
from hostler.workloads.sieve.candidates import Candidate, never_given, question
from hostler.workloads.sieve.data import Draw
from hostler.workloads.sieve.errors import SpecError, TooManyHits
from hostler.workloads.sieve.judge import Survivor, judge
from hostler.workloads.sieve.methods import exclusions, picks, twister
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.choosing import WAYS, offer_of
from hostler.workloads.sieve.methods.lanes import Lanes
from hostler.workloads.sieve.methods.linear import linear
from hostler.workloads.sieve.methods.terms import Contradiction, Exclusion
from hostler.workloads.sieve.methods.twister import Twister
from hostler.workloads.sieve.spec import Range, Spec, log_chance
from hostler.workloads.sieve.wording import count_of, duration

FOUND, EXCLUDED, UNDECIDED = VERDICTS = ("found", "excluded", "undecided")
CLEAR = 0.01
"""A find is one where chance gives fewer; an exclusion, where it errs less often."""
BUDGET_S = 30.0
"""CPU-seconds that searching all seeds of one candidate may take."""
MOST_TOLD = 4
MOST_JUDGED = 64
"""Survivors that are counted: there are generators of which thousands of seeds give the same draws."""
NEXT = 5

Answer: TypeAlias = dict[str, Any]
"""``verdict``, ``by`` and ``says`` for people, and what belongs to the verdict; ready for JSON."""


def analyse(
    of: Candidate,
    draws: Sequence[Draw | None],
    *,
    skip: Range = (0, 0),
    gap: Range = (0, 0),
    budget_s: float = BUDGET_S,
) -> Answer:
    """Whether the candidate made these draws after ``skip`` outputs, with ``gap`` outputs dropped before each.

    Searches that take more than ``budget_s`` CPU-seconds are not made.
    """
    head = {"generator": of.made_by.name, "calls": of.text, "draws": sum(draw is not None for draw in draws)}
    try:
        spec = question(of, draws, skip, gap)
    except SpecError as error:
        return head | _impossible(of, draws, error)
    return head | {"alignments": spec.alignments_count} | _answer(spec, budget_s)


def _impossible(of: Candidate, draws: Sequence[Draw | None], error: SpecError) -> Answer:
    """Draws that are no outputs of the calls exclude them; anything else wrong with the question is an error."""
    if not never_given(error):
        raise error
    return {"verdict": EXCLUDED, "by": "values", "proof": "exact", "says": f"the calls never give {error}"}


def _answer(spec: Spec, budget_s: float) -> Answer:
    exclusion = exclusions.exclude(spec)
    certified = None if exclusion is None else _certified(spec, exclusion)
    if certified and certified["chance"] <= CLEAR:
        return certified
    offers = _offers(spec)
    answer = _by_state(spec, offers["twister"]) or _searched(spec, offers, budget_s) or _undecided(spec, offers)
    if certified and answer["verdict"] == UNDECIDED:
        answer["says"] = f"{certified['says']}; {answer['says']}"
    return answer


# ---- excluded by relations ------------------------------------------------------------------------------------------


def _certified(spec: Spec, exclusion: Exclusion) -> Answer:
    relations = exclusion.contradictions
    bad = next((each for each in relations if not exclusions.holds(spec, each)), None)
    if bad is not None:
        raise AssertionError(f"{spec.generator.name}: a contradiction does not hold: {bad!r:.200}")
    chance = -math.expm1(-max(_redraws(spec, each) for each in relations))
    used = sorted({term.draw for each in relations for term in each.terms})
    equations = sum(len(each.terms) for each in relations)
    return {
        "verdict": EXCLUDED,
        "by": "relations",
        "proof": "exact" if chance == 0 else "probable",
        "chance": chance,
        "relations": len(relations),
        "equations": equations,
        "first_draw": used[0],
        "last_draw": used[-1],
        "covers": "states",
        "skips": "all" if _any_skip(spec) else "asked",
        "says": _certificate(spec, len(relations), equations, used, chance),
    }


def _redraws(spec: Spec, relation: Contradiction) -> float:
    """How often something is drawn again within the draws of a relation, to expect; what comes before is any state."""
    draws = [term.draw for term in relation.terms]
    return picks.redraws(spec, relation.gap, max(draws) - min(draws) + 1)


def _any_skip(spec: Spec) -> bool:
    """Whether relations hold after any skip, not only those asked for."""
    known = linear(spec.generator)
    return known is None or known.period == 1


def _certificate(spec: Spec, relations: int, equations: int, used: Sequence[int], chance: float) -> str:
    which = "after any skip" if _any_skip(spec) else f"after skips {spec.skip[0]}..{spec.skip[1]}"
    many = "a linear relation" if relations == 1 else f"{relations} linear relations"
    bits = f"{equations} bits of draws {used[0]}..{used[-1]}"
    sure = "" if chance == 0 else f", unless something was drawn again among them (chance {chance:.2g})"
    broken = "does" if relations == 1 else "do"
    return f"no state of {spec.generator.name} makes them, {which}: {many} between {bits} {broken} not hold{sure}"


# ---- found, or excluded by search -----------------------------------------------------------------------------------


def _offers(spec: Spec) -> dict[str, Offer | str]:
    return {name: offer_of(name, spec) for name in WAYS if name != "opencl"}  # what a GPU is worth is no matter here


def _by_state(spec: Spec, offer: Offer | str) -> Answer | None:
    """MT19937's state from enough outputs, with its seed if it has one: many are seeded by more than a number."""
    if isinstance(offer, Offer) and (survivors := _judged(spec, offer.make().find(0, spec.size))):
        return _found(spec, Twister.name, survivors)
    try:
        states = twister.state_from(spec)
    except (SpecError, TooManyHits):
        return None
    if len(states) != 1:
        return None
    following = twister.following(spec, states[0], NEXT)
    made = [spec.call(len(spec.draws) + i).show(draw) for i, draw in enumerate(following)]
    return {
        "verdict": FOUND,
        "by": Twister.name,
        "count": 1,
        "survivors": [{"seed": None, "gap": states[0].gap, "next": made}],
        "says": f"the draws decide a whole state of {spec.generator.name}, which makes all of them; "
        f"no seed of {count_of(spec.size)} is known that leads to it {_where(spec)}",
    }


def _searched(spec: Spec, offers: dict[str, Offer | str], budget_s: float) -> Answer | None:
    """The answer of the cheapest method that says of all seeds whether they make the draws."""
    exact = [(name, offer) for name, offer in offers.items() if isinstance(offer, Offer) and not offer.missed]
    name, offer = min(exact, key=lambda each: each[1].cpu_s(spec.size), default=("", None))
    if offer is None or offer.cpu_s(spec.size) > budget_s or _expected(spec) > MOST_JUDGED:
        return None
    try:
        items = offer.make().find(0, spec.size)
    except TooManyHits:
        return None
    survivors = _judged(spec, items)
    return _found(spec, name, survivors) if survivors else _none(spec, name, offer)


def _judged(spec: Spec, items: Sequence[int]) -> list[Survivor]:
    """Those that the oracle confirms, the least skip first; not more than :data:`MOST_JUDGED`."""
    confirmed = (found for item in items if (found := judge(spec, item, NEXT)))
    survivors = islice(confirmed, MOST_JUDGED)
    return sorted(survivors, key=lambda each: (each.skip, each.gap, each.item))


def _found(spec: Spec, by: str, survivors: Sequence[Survivor]) -> Answer:
    expected = _expected(spec)
    clear, one = expected < CLEAR, survivors[0]
    where = f"after {one.skip} outputs" + (f" with {one.gap} between draws" if one.gap else "")
    least = "" if len(survivors) < MOST_JUDGED else "at least "
    more = (
        "" if len(survivors) == 1 else f", and {least}{len(survivors) - 1} more (other skips, or seeds that are alike),"
    )
    doubt = "" if clear else f", but chance alone gives {expected:.2g} such; {_enough(spec)}"
    return {
        "verdict": FOUND if clear else UNDECIDED,
        "by": by,
        "expected_by_chance": expected,
        "draws_needed": chances.draws_needed(spec, spec.size, CLEAR),
        "count": len(survivors),
        "survivors": [_told(survivor) for survivor in survivors[:MOST_TOLD]],
        "says": f"seed {one.item} {where}{more} make{'' if more else 's'} them{doubt}",
    }


def _told(survivor: Survivor) -> Answer:
    place = {"skip": survivor.skip, "gap": survivor.gap, "fitting": survivor.fitting}
    return {"seed": survivor.item, **place, "next": list(survivor.following)}


def _none(spec: Spec, by: str, offer: Offer) -> Answer:
    return {
        "verdict": EXCLUDED,
        "by": "search",
        "method": by,
        "proof": "exact",
        "covers": "seeds",
        "skips": "asked",
        "says": f"none of {count_of(spec.size)} seeds makes them {_where(spec)}: {offer.why}",
    }


# ---- undecided ------------------------------------------------------------------------------------------------------


def _undecided(spec: Spec, offers: dict[str, Offer | str]) -> Answer:
    refusals = {name: offer for name, offer in offers.items() if isinstance(offer, str)}
    wishes = [why for why in refusals.values() if " more" in why]
    brute, enough = offers[Lanes.name], chances.draws_needed(spec, spec.size, CLEAR)
    cpu_s = brute.cpu_s(spec.size) if isinstance(brute, Offer) else None
    cost = f"brute force has {count_of(spec.size)} seeds to try, " + (
        f"{duration(cpu_s)} of one core" if cpu_s is not None else "which no method does"
    )
    return {
        "verdict": UNDECIDED,
        "by": None,
        "expected_by_chance": _expected(spec),
        "seeds": spec.size,
        "brute_force_cpu_s": cpu_s,
        "draws_needed": enough,
        "refusals": refusals,
        "says": f"{wishes[0] if wishes else 'no algebra answers'}; {cost}; {_enough(spec)}",
    }


def _expected(spec: Spec) -> float:
    """How many seeds pass by chance."""
    log = log_chance(spec) + math.log(spec.size)
    return math.exp(log) if log < 700 else math.inf


def _enough(spec: Spec) -> str:
    enough = chances.draws_needed(spec, spec.size, CLEAR)
    if enough is None:
        return "no number of draws would rule chance out"
    less = f", there are {spec.known}" if enough > spec.known else ""
    return f"{enough} known draws rule chance out{less}"


def _where(spec: Spec) -> str:
    gaps = "" if spec.gap == (0, 0) else f" and gaps {spec.gap[0]}..{spec.gap[1]}"
    return f"after skips {spec.skip[0]}..{spec.skip[1]}{gaps}"
