"""Questions of all kinds on a device, against the judge."""

from typing import Any

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.judge import judge

from .support import Question, Search, device, planted

THOUSAND = {"kind": "mod", "modulus": 1000}
TEN = {"kind": "mod", "modulus": 10}
SEED = 123_456
LONG = pytest.mark.long
"""Each question is a program of its own, which OpenCL compiles: what differs little is asked in the long tier."""


@pytest.fixture(scope="module")
def search() -> Search:
    device()
    return Search()


def survivors(question: Question, start: int, stop: int) -> list[int]:
    """What the judge says of every item."""
    asked = spec.parse(question)
    return [item for item in range(start, stop) if judge(asked, item) is not None]


def alike(search: Search, question: Question, seed: int, around: int = 60) -> None:
    """The device finds what the judge finds: here nothing more, since all draws are compared."""
    start, stop = max(0, seed - around), seed + around
    found = search(question, start, stop)
    assert seed in found
    assert found == survivors(question, start, stop)


@pytest.mark.parametrize(
    "how",
    [
        {},
        pytest.param({"skip": 7}, marks=LONG),
        pytest.param({"skip": (0, 5)}, marks=LONG),
        pytest.param({"gap": 2}, marks=LONG),
        {"gap": (0, 3), "skip": (2, 4)},
        pytest.param({"share": 0.6}, marks=LONG),
        {"share": 0.5, "skip": (0, 2), "gap": (0, 1)},
        pytest.param({"missing": 2}, marks=LONG),
        {"missing": 1, "skip": (0, 1), "gap": (0, 1)},
    ],
    ids=str,
)
@pytest.mark.parametrize("draws", [2, pytest.param(9, marks=LONG)])
def test_alignments_shares_and_missing_outputs(search: Search, how: dict[str, Any], draws: int) -> None:
    """Few draws let chance survivors come along."""
    alike(search, planted("xorshift32", [TEN], SEED, draws, **how), SEED)


@pytest.mark.parametrize("name", ["php-mt_rand", "python-random", "go-rand", "dotnet-random", "numpy-pcg64"])
@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"skip": (0, 3), "gap": (1, 2)}, id="ranges"),
        pytest.param({"skip": 300}, id="far", marks=LONG),
        pytest.param({"share": 0.7}, id="share", marks=LONG),
    ],
)
def test_engines_with_large_states(search: Search, name: str, how: dict[str, Any]) -> None:
    call = {
        "php-mt_rand": {"kind": "range", "min": 1, "max": 6},
        "python-random": {"kind": "randrange", "stop": 6},
        "go-rand": {"kind": "intn", "n": 6},
        "dotnet-random": {"kind": "below", "n": 6},
        "numpy-pcg64": {"kind": "below", "n": 6},
    }[name]
    alike(search, planted(name, [call], SEED, 4, **how), SEED, around=12)


def test_missing_outputs_of_a_large_state(search: Search) -> None:
    alike(search, planted("php-mt_rand", [{"kind": "exact"}], SEED, 4, missing=3), SEED, around=5)


@LONG
def test_missing_outputs_where_words_are_drawn_again(search: Search) -> None:
    alike(search, planted("python-random", [{"kind": "randrange", "stop": 5}], SEED, 6, missing=1, skip=(0, 2)), SEED)
    alike(search, planted("numpy-sfc64", [{"kind": "below", "n": 3 << 30}], SEED, 5, missing=2, gap=1), SEED)


def test_an_output_that_is_missing_is_passed_over(search: Search) -> None:
    question = planted("xorshift32", [THOUSAND], SEED, 12, missing=2)
    del question["draws"][7], question["draws"][3], question["draws"][2]
    assert search(question, SEED - 5000, SEED + 5000) == [SEED]


def test_a_draw_that_was_copied_wrongly_is_allowed_for(search: Search) -> None:
    question = planted("java-random", [{"kind": "bound", "bound": 100}], SEED, 10, share=0.8)
    question["draws"][0] = (question["draws"][0] + 1) % 100
    question["draws"][5] = None
    assert search(question, SEED - 5000, SEED + 5000) == [SEED]


def test_several_calls_by_turns(search: Search) -> None:
    calls: list[dict[str, Any]] = [{"kind": "double"}, {"kind": "bound", "bound": 6}, {"kind": "long"}]
    question = planted("java-random", calls, SEED, 5, skip=(1, 2))
    question["draws"][0] = None
    alike(search, question, SEED)


def test_outputs_of_more_bits_than_a_word_holds(search: Search) -> None:
    alike(search, planted("python-random", [{"kind": "getrandbits", "k": 200}], SEED, 2), SEED, around=3)
    alike(search, planted("java-random", [{"kind": "shuffle", "n": 12}], SEED, 2), SEED)


@pytest.mark.parametrize(
    "name",
    ["java-random", "xorshift64", *(pytest.param(name, marks=LONG) for name in ("pcg32", "minstd-rand", "splitmix64"))],
)
def test_states_are_searched_as_well(search: Search, name: str) -> None:
    call = {"java-random": {"kind": "bound", "bound": 10}}.get(name, TEN)
    asked = spec.parse(planted(name, [call], 5, 3, items="states"))
    first = asked.generator.engine.seed(5)
    alike(search, planted(name, [call], 5, 3, items="states"), first, around=30)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param("splitmix64", (1 << 64) - 1, marks=LONG),
        ("xorshift128", (77 << 64) + 5),
        pytest.param("lcg:6364136223846793005,1442695040888963407,18446744073709551616,33", 1 << 63, marks=LONG),
        ("lcg:1103515245,12345,9223372036854775783", (1 << 63) - 40),
        pytest.param("lcg:25,7,1009", 1008, marks=LONG),
        ("python-random", (1 << 40) + 3),
        pytest.param("ruby-random", (1 << 33) - 5, marks=LONG),
    ],
)
def test_seeds_of_any_size(search: Search, name: str, seed: int) -> None:
    call = {"python-random": {"kind": "randrange", "stop": 100}, "ruby-random": {"kind": "below", "n": 100}}.get(
        name, TEN
    )
    question = planted(name, [call], seed, 3)
    start, stop = seed - min(seed, 5), min(seed + 5, spec.parse(question).size, ((seed >> 64) + 1) << 64)
    assert search(question, start, stop) == survivors(question, start, stop)


def test_a_known_draw_that_never_comes_lets_nothing_pass(search: Search) -> None:
    question = planted("lcg:16807,0,2147483647", [{"kind": "mod", "modulus": 1500000000}], SEED, 2)
    question["draws"][1] = 1_499_999_999
    assert search(question, SEED - 60, SEED + 60) == survivors(question, SEED - 60, SEED + 60) == []


@pytest.mark.long
def test_giving_up_early_where_the_question_allows_it(search: Search) -> None:
    question = planted("xorshift32", [TEN], SEED, 60, share=0.4, rate=0.9, miss=0.01)
    found = search(question, SEED - 2000, SEED + 2000)
    assert SEED in found
    assert set(found) <= set(survivors(question, SEED - 2000, SEED + 2000)) | {SEED}
