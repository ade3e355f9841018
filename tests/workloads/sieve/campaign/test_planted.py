"""Planted seeds of all generators and call patterns are found by each method that applies, and nothing else is.

``PLANTED`` in the environment says how many (``make planted``: 1,000). The questions are made from the generator's name
and a number, both told with a failure.
"""

import math
import os

import pytest

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.generators import GENERATORS
from hostler.workloads.sieve.judge import judge
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.opencl import OpenCl
from hostler.workloads.sieve.spec import log_chance

from .planting import MOST_S, RARE, Planted, alike, e_value, offers, planted_question, undecided

LCGS = ("lcg:25214903917,11,281474976710656,16", "lcg:16807,0,2147483647", "lcg:1103515245,12345,0x80000000,0")
NAMES = (*GENERATORS, *LCGS)
EACH = math.ceil(int(os.environ.get("PLANTED", "37")) / len(NAMES))
OPENCL = 15
"""Of so many questions one is put to OpenCL on the processor too, where a campaign asks for it: builds take long."""
FALSE_E = 1e-3
NEAR = 100
pytestmark = pytest.mark.long


@pytest.mark.parametrize("number", range(EACH))
@pytest.mark.parametrize("name", NAMES)
def test_a_planted_seed_is_found_and_nothing_else(name: str, number: int, record_property: object) -> None:
    asked = planted_question(name, number)
    assert judge(asked.spec, asked.item) is not None, f"the judge does not know {asked.told()}"
    ways = {way: offer for way, offer in offers(asked.spec).items() if offer.cpu_s(asked.stop - asked.start) < MOST_S}
    if os.environ.get("PLANTED_OPENCL") and number % OPENCL == 2:
        offer = OpenCl("cpu").offer(asked.spec)
        ways |= {"opencl": offer} if isinstance(offer, Offer) else {}
    assert ways, f"no method for {asked.told()}"
    for way, offer in ways.items():
        _search(asked, way, offer)
    assert callable(record_property)
    record_property("ways", " ".join(ways))


def _search(asked: Planted, way: str, offer: Offer) -> None:
    """The method's candidates: the planted item is one, and no other survives that chance does not explain."""
    start, stop = asked.start, asked.stop
    if math.isinf(offer.items_per_s) and log_chance(asked.spec) + math.log(asked.spec.size) < math.log(RARE):
        start, stop = 0, asked.spec.size
    try:
        candidates = offer.make().find(start, stop)
    except TooManyHits as error:
        if not undecided(asked):
            pytest.fail(f"{way} finds too much ({error}): {asked.told()}")
        start, stop = max(0, asked.item - NEAR), min(asked.spec.size, asked.item + NEAR)
        candidates = offer.make().find(start, stop)
    assert candidates == sorted(set(candidates)), f"{way}: {asked.told()}"
    assert asked.item in candidates, f"{way} lost the item of {asked.told()}"
    for item in candidates:
        survivor = judge(asked.spec, item)
        if item == asked.item or survivor is None:
            continue
        e = e_value(asked.spec, stop - start, survivor)
        assert e >= FALSE_E or alike(asked.spec, item, asked.item), f"{way}: {item} with E {e:.2g}: {asked.told()}"
