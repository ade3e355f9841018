"""``twister``: the state of MT19937 from its outputs, and the seed from the state."""

import random
from itertools import islice

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import generator
from hostler.workloads.sieve.methods.exclusions import exclude, holds
from hostler.workloads.sieve.methods.mersenne_seeds import seeds
from hostler.workloads.sieve.methods.twister import Twister, following, state_from

from .questions import noise, question

WHOLE = {"kind": "getrandbits", "k": 32}


@pytest.mark.parametrize("name", ["php", "php5", "numpy-legacy", "ruby", "python"])
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_seedings_are_undone(name: str, data: st.DataObject) -> None:
    made_by = generator(name)
    seed = data.draw(st.one_of(st.integers(0, made_by.seeds - 1), st.integers(0, (1 << 32) - 1)))
    made = seeds(made_by, made_by.engine.seed(seed))
    assert seed in made
    assert all(made_by.engine.seed(other) == made_by.engine.seed(seed) for other in made)
    assert seeds(made_by, made_by.engine.step(made_by.engine.seed(seed))) == []


@pytest.mark.parametrize(
    ("name", "call", "count", "seed"),
    [
        pytest.param("python", WHOLE, 624, 0xDEADBEEF_12345678, marks=pytest.mark.long),
        pytest.param("python", {"kind": "random"}, 640, 12345, marks=pytest.mark.long),
        pytest.param("php", {"kind": "range", "min": 0, "max": 255}, 4000, 0xFFFFFFFF, marks=pytest.mark.long),
        pytest.param("php5", {"kind": "exact"}, 1250, 7, marks=pytest.mark.long),
        pytest.param("ruby", [{"kind": "float"}, {"kind": "bytes", "n": 4}], 1000, 1 << 40, marks=pytest.mark.long),
    ],
)
def test_the_seed_is_found_behind_an_unknown_skip(name: str, call: object, count: int, seed: int) -> None:
    spec = question(name, call, count, seed, at=(7, 0), skip=(0, 20))  # type: ignore[arg-type]
    offer = Twister().offer(spec)
    assert not isinstance(offer, str), offer
    finder = offer.make()
    assert seed in finder.find(0, spec.size)
    assert finder.find(seed, seed + 1) == [seed]
    assert finder.find(0, seed) == []


@pytest.mark.long
def test_the_state_goes_on_as_the_runtime_does() -> None:
    source = random.Random("no seed below 2^64")
    draws = tuple(source.getrandbits(32) for _ in range(700))
    spec = question("python", WHOLE, 700, 1)
    (recovered,) = state_from(type(spec)(spec.generator, spec.calls, draws))
    assert following(spec, recovered, 5) == [source.getrandbits(32) for _ in range(5)]


@pytest.mark.long
def test_draws_by_chance_are_excluded_with_a_certificate() -> None:
    spec = noise(question("numpy-legacy", {"kind": "below", "n": 1 << 16}, 1400, 1), seed=3)
    exclusion = exclude(spec)
    assert exclusion is not None
    assert exclusion.redraws == 0
    assert all(holds(spec, each) for each in exclusion.contradictions)
    assert state_from(spec) == []


@pytest.mark.long
def test_one_draw_that_is_wrong_is_enough_to_exclude() -> None:
    spec = question("python", WHOLE, 800, 99)
    assert exclude(spec) is None
    draws = list(islice(spec.draws, 800))
    assert draws[700] is not None
    draws[700] ^= 1 << 9
    wrong = type(spec)(spec.generator, spec.calls, tuple(draws))
    exclusion = exclude(wrong)
    assert exclusion is not None
    assert [holds(wrong, each) for each in exclusion.contradictions] == [True]
    assert [holds(spec, each) for each in exclusion.contradictions] == [False]


@pytest.mark.parametrize(
    ("name", "call", "count", "why"),
    [
        ("python", WHOLE, 600, "24 known draws more"),
        ("php", {"kind": "range", "min": 1, "max": 1000}, 7000, "draws again"),
        ("php", {"kind": "range", "min": 1, "max": 5}, 700, "draws again"),
        ("xorshift32", {"kind": "exact"}, 700, "no MT19937"),
    ],
)
def test_why_it_does_not_apply(name: str, call: dict[str, object], count: int, why: str) -> None:
    answer = Twister().offer(question(name, call, count, 1))
    assert isinstance(answer, str)
    assert why in answer


def test_too_few_draws_for_a_state_are_refused() -> None:
    with pytest.raises(SpecError, match="known draws more"):
        state_from(question("python", WHOLE, 600, 1))
