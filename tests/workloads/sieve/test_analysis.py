"""What draws exclude: true candidates never, wrong ones by certificates and searches."""

import json
import random
from itertools import islice
from typing import Any

import pytest
from hypothesis import given as drawn, settings, strategies as st

from hostler.workloads.sieve.analysis import BUDGET_S, analyse
from hostler.workloads.sieve.candidates import Candidate, given, usual
from hostler.workloads.sieve.generators import oracle

from .support import DRAWS

XORSHIFT128 = given({"generator": "xorshift128", "calls": "next() % 2147483648"})
SOME_VALUES = ((0, 1), (1, 6), (0, 999), (0, 1023), (0, 2**31 - 1), (0, 2**32 - 1))
RANDRANGE = given({"generator": "python", "calls": "getrandbits(32)"})


def recorded(name: str) -> list[Any]:
    """The draws of a recorded file."""
    return list(json.loads((DRAWS / name).read_text())["draws"])


def made(of: Candidate, seed: int, count: int, skip: int = 0, gap: int = 0) -> list[int | None]:
    """Draws of a seed of the candidate."""
    outputs = oracle(of.made_by, of.calls[0], seed, skip=skip + gap)
    return [value + of.shift for value in islice(outputs, 0, count * (gap + 1), gap + 1)]


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@drawn(st.data())
def test_what_made_the_draws_is_never_excluded(data: st.DataObject) -> None:
    of = data.draw(st.sampled_from(usual(*data.draw(st.sampled_from(SOME_VALUES)))), label="candidate")
    seed = data.draw(st.integers(0, of.made_by.seeds - 1), label="seed")
    skip, gap = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 1))
    draws = made(of, seed, data.draw(st.sampled_from((6, 20, 90))), skip, gap)
    draws[1] = None
    answer = analyse(of, draws, skip=(0, 3), gap=(0, 1), budget_s=0.1)
    assert answer["verdict"] != "excluded", answer
    assert len(json.dumps(answer)) < 4096


def test_recorded_draws_have_their_seed() -> None:
    answer = analyse(given({"generator": "xorshift32", "calls": "next() % 1000"}), recorded("xorshift32.json"))
    (survivor,) = answer["survivors"]
    assert (answer["verdict"], answer["by"], survivor["seed"]) == ("found", "gf2", 2715789338)
    assert answer["expected_by_chance"] < 1e-20


def test_a_certificate_excludes_every_state() -> None:
    answer = analyse(XORSHIFT128, recorded("php-exact.json"), skip=(0, 20))
    assert (answer["verdict"], answer["by"], answer["proof"], answer["alignments"]) == (
        "excluded",
        "relations",
        "exact",
        21,
    )
    assert (answer["covers"], answer["skips"], answer["chance"]) == ("states", "all", 0.0)


def test_an_exact_search_excludes_all_seeds() -> None:
    answer = analyse(given({"generator": "java", "calls": "(int)(Math.random() * 1000)"}), recorded("java.json"))
    assert (answer["verdict"], answer["by"], answer["covers"]) == ("excluded", "search", "seeds")


def test_draws_that_calls_never_give() -> None:
    answer = analyse(given({"generator": "java", "calls": "nextInt(10)"}), [3, 10])
    assert (answer["verdict"], answer["by"]) == ("excluded", "values")
    assert "draws[1]" in answer["says"]


def test_undecided_says_what_it_would_take() -> None:
    answer = analyse(given({"generator": "numpy", "calls": "integers(1000)"}), recorded("python.json"))
    assert (answer["verdict"], answer["seeds"], answer["draws_needed"]) == ("undecided", 2**64, 8)
    assert answer["brute_force_cpu_s"] > 1e9
    assert "2^64 seeds" in answer["says"]


def test_a_find_that_chance_gives_as_well_is_none() -> None:
    of = given({"generator": "xorshift32", "calls": "next() % 1024"})
    answer = analyse(of, made(of, 77, 3))
    assert answer["verdict"] == "undecided"
    assert answer["expected_by_chance"] > 1
    assert answer["draws_needed"] == 4


def test_seeds_that_are_alike_are_not_all_told() -> None:
    of = given({"generator": "glibc-type0", "calls": "rand() % 65536"})
    answer = analyse(of, made(of, 123456, 20))
    assert (answer["verdict"], answer["count"], len(answer["survivors"])) == ("found", 64, 4)


@pytest.mark.long
def test_a_state_of_the_twister_without_a_seed() -> None:
    source = random.Random(str(random.Random(3).getrandbits(200)))  # seeded by a text
    draws = [source.getrandbits(32) for _ in range(640)]
    following = [source.getrandbits(32) for _ in range(5)]
    answer = analyse(RANDRANGE, draws, budget_s=BUDGET_S)
    assert (answer["verdict"], answer["by"]) == ("found", "twister")
    assert answer["survivors"][0] == {"seed": None, "gap": 0, "next": following}
    draws[630] ^= 1
    wrong = analyse(RANDRANGE, draws)
    assert (wrong["verdict"], wrong["by"]) == ("excluded", "relations")
    assert wrong["last_draw"] >= 630


@pytest.mark.parametrize("skip", [(0, 0), (0, 3)])
def test_calls_in_turn(skip: tuple[int, int]) -> None:
    of = given({"generator": "java", "calls": "nextInt(1000); nextInt(64)"})
    words = of.made_by.words(99)
    draws = [call.take(words) for _ in range(8) for call in of.calls]
    answer = analyse(of, draws, skip=skip)
    assert answer["verdict"] == "found"
    assert answer["survivors"][0]["seed"] == 99
