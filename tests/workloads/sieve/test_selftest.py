"""A worker that computes wrongly is found out before it searches."""

import random
from typing import Any, ClassVar

import pytest

pytest.importorskip("numba", reason="searches need numba: pip install 'hostler[kernels]'")

from hostler.workloads.sieve import selftest
from hostler.workloads.sieve.errors import SieveError
from hostler.workloads.sieve.generators import GENERATORS
from hostler.workloads.sieve.methods import choosing
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.spec import Spec

from .campaign.planting import planted_question
from .methods.asking import ask
from .support import tiers

BOUND = {"kind": "bound", "bound": 1000}
SHIFT = {"kind": "mod", "modulus": 100}


class Blind:
    """A method that finds nothing, as one on a broken processor might."""

    name: ClassVar[str] = "blind"

    def offer(self, spec: Spec) -> Offer:
        return Offer("", 0.0, 1e9, lambda: self)

    def find(self, start: int, stop: int) -> list[int]:
        return []


def test_one_that_finds_nothing_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "offer_of", lambda name, spec: Blind().offer(spec))
    with pytest.raises(SieveError, match=r"this machine computes wrongly: by lanes, java-random .* search elsewhere"):
        selftest.check(ask("java", BOUND, [1, None, 3] * 4), "lanes")


@pytest.mark.long
@pytest.mark.parametrize("name", tiers(sorted(GENERATORS)))
def test_what_computes_rightly_passes_at_both_ends_of_the_range_and_within(name: str) -> None:
    asked = planted_question(name, 0).spec
    if asked.items == "ends":
        asked = planted_question(name, 1).spec
    assert selftest.check(asked, "lanes") >= 1


@pytest.mark.parametrize(
    ("more", "method", "asked"),
    [
        pytest.param({"gap": (1, 3), "skip": (5, 9)}, "lanes", 4, marks=pytest.mark.long),
        pytest.param({"share": 0.6, "rate": 0.9, "miss": 1e-3}, "lanes", 4, marks=pytest.mark.long),
        pytest.param({"missing": 2}, "lanes", 4, marks=pytest.mark.long),
        ({}, "low-bits", 4),
        pytest.param({"items": "ends"}, "lanes", 0, marks=pytest.mark.long),
        pytest.param({"skip": (100_000, 100_000)}, "lanes", 0, marks=pytest.mark.long),
        ({}, "opencl", 0),
    ],
)
def test_the_pattern_is_that_of_the_question(more: dict[str, Any], method: str, asked: int) -> None:
    draws = [random.Random(3).randrange(1000) for _ in range(20)]
    assert selftest.check(ask("java", BOUND, [None, *draws], **more), method) == asked


def test_a_record_that_begins_unknown_is_planted_up_to_its_first_draw() -> None:
    assert selftest.check(ask("xorshift32", SHIFT, [None] * 300 + [7] * 9), "lanes") == 3


def test_every_way_to_search_is_known_to_the_test() -> None:
    assert set(choosing.WAYS) >= selftest.ELSEWHERE
