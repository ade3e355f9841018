"""The oracles against outputs recorded from the real runtimes."""

from collections import Counter

import pytest

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import GENERATORS, generator
from hostler.workloads.sieve.spec import parse_output

from .support import Output, draws, vectors


@pytest.mark.parametrize("name", GENERATORS)
def test_oracle_makes_what_the_runtime_made(name: str) -> None:
    mine = [vector for made_by, vector in vectors() if made_by == name]
    assert len(mine) >= 100
    for vector in mine:
        output = parse_output(generator(name), vector["output"])
        want = [output.read(draw) for draw in vector["draws"]]
        assert draws(name, vector["output"], vector["seed"], len(want), vector["skip"]) == want, vector


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("php-mt_rand", {"kind": "range", "min": 1, "max": 2**31 + 1}),
        ("java-random", {"kind": "bound", "bound": 2**30 + 1}),
        ("python-random", {"kind": "randrange", "stop": 1024}),
    ],
)
def test_vectors_contain_words_that_are_drawn_again(name: str, output: Output) -> None:
    (rule,) = parse_output(generator(name), output).rules()
    assert rule.again is not None
    words = generator(name).words(1)
    redrawn = Counter(rule.again.holds(rule.value([next(words)])) for _ in range(12))
    assert redrawn[True] >= 2
    assert any(vector["output"] == output for made_by, vector in vectors() if made_by == name)


def test_rules_know_which_outputs_draw_again() -> None:
    def rejects(name: str, output: Output) -> bool:
        return any(rule.rejects for rule in parse_output(generator(name), output).rules())

    assert not rejects("php-mt_rand", {"kind": "range", "min": 1, "max": 1024})
    assert rejects("php-mt_rand", {"kind": "range", "min": 1, "max": 1000})
    assert not rejects("java-random", {"kind": "bound", "bound": 64})
    assert rejects("java-random", {"kind": "bound", "bound": 1000})
    assert rejects("python-random", {"kind": "randrange", "stop": 1024})
    assert not rejects("python-random", {"kind": "random"})
    assert not rejects("xorshift32", {"kind": "mod", "modulus": 1000})


def test_an_unknown_generator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SpecError, match="php-mt_rand, .*java-random, .*xorshift32, .*lcg:"):
        generator("mt19937")


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("php-mt_rand", {"kind": "range", "min": 2, "max": 1}),
        ("php-mt_rand", {"kind": "range", "min": 0, "max": 2**32}),
        ("java-random", {"kind": "bound", "bound": 0}),
        ("java-random", {"kind": "bound", "bound": 2**31}),
        ("python-random", {"kind": "randrange", "stop": 2**32}),
        ("xorshift32", {"kind": "mod", "modulus": 0}),
        ("xorshift32", {"kind": "mod", "modulus": True}),
        ("xorshift32", {"kind": "mod"}),
        ("xorshift32", {"kind": "exact", "modulus": 3}),
        ("xorshift32", {"kind": "range", "min": 1, "max": 2}),
        ("xorshift32", {"kind": ["exact"]}),
        ("xorshift32", "exact"),
    ],
)
def test_impossible_outputs_are_refused(name: str, output: Output) -> None:
    with pytest.raises(SpecError):
        parse_output(generator(name), output)
