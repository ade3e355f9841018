"""Brute force: what is planted is found, whatever the generator, the output and the question; and nothing else is."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.generators import generator
from hostler.workloads.sieve.kernels.engines import Filling, filling_of
from hostler.workloads.sieve.kernels.tables import make_tables
from hostler.workloads.sieve.methods import base
from hostler.workloads.sieve.methods.lanes import MOST_HITS, Lanes, LanesFinder, SpecialFinder
from hostler.workloads.sieve.spec import Spec, parse_output

from ..generators.test_rules import KINDS, outputs
from ..support import draws, tiers, vectors
from .asking import Kind, ask, fits, planted

lanes_settings = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])

JAVA = {"kind": "bound", "bound": 7}
SMALL: list[tuple[str, list[Kind]]] = [
    ("java-random", [JAVA]),
    ("java-random", [{"kind": "bound", "bound": 3 * 2**29}]),  # a quarter is drawn again
    ("java-random", [{"kind": "shuffle", "n": 3}]),
    ("java-random", [JAVA, {"kind": "double"}, {"kind": "boolean"}]),
    ("xorshift32", [{"kind": "mod", "modulus": 3}]),
    ("xorshift64", [{"kind": "mod", "modulus": 5}]),
    ("xorshift64star", [{"kind": "floor", "n": 3}]),
    ("xorshift128", [{"kind": "mod", "modulus": 4}]),
    ("pcg32", [{"kind": "bits", "shift": 30, "bits": 2}]),
    ("splitmix64", [{"kind": "mod", "modulus": 4}]),
    ("minstd-rand", [{"kind": "mod", "modulus": 4}]),
    ("glibc-type0", [{"kind": "mod", "modulus": 4}]),
    ("glibc-rand", [{"kind": "floor", "n": 4}]),
    ("lcg:123456789123,77,1000000000000001,3", [{"kind": "mod", "modulus": 4}]),
    ("lua-random", [{"kind": "range", "min": 1, "max": 5}]),
    ("lua-random", [{"kind": "range", "min": 1, "max": 5}, {"kind": "float"}, {"kind": "range", "min": 3, "max": 3}]),
    ("numpy-pcg64", [{"kind": "below", "n": 6}]),  # halves of words
    ("numpy-sfc64", [{"kind": "below", "n": 3 * 2**29}]),
    ("python-random", [{"kind": "randrange", "stop": 4}]),  # half is drawn again
    ("python-random", [{"kind": "shuffle", "n": 3}, {"kind": "randrange", "stop": 3}]),
    ("php-mt_rand", [{"kind": "range", "min": 1, "max": 3 * 2**30}]),
    ("go-rand", [{"kind": "perm", "n": 3}]),
    ("v8-random", [{"kind": "floor", "n": 4}]),
    ("dotnet-random", [{"kind": "bytes", "n": 1}]),
]
SINGLE = [case for case in SMALL if isinstance(generator(case[0]).engine.seed(0), int) and len(case[1]) == 1]


def offered(spec: Spec) -> base.Offer:
    offer = Lanes().offer(spec)
    assert isinstance(offer, base.Offer), offer
    return offer


def finder(spec: Spec) -> base.Finder:
    return offered(spec).make()


def around(spec: Spec, item: int, source: random.Random, size: int) -> tuple[int, int]:
    start = max(0, item - source.randrange(size))
    return start, min(spec.generator.seeds, start + size)


def agree(spec: Spec, start: int, stop: int) -> None:
    """The lanes find what the oracle finds, both in the generic kernel and in a special one."""
    tables = make_tables(spec)
    assert not isinstance(tables, str), tables
    wanted = [item for item in range(start, stop) if fits(spec, item)]
    assert finder(spec).find(start, stop) == wanted
    filling = filling_of(spec.generator)
    assert isinstance(filling, Filling)
    assert LanesFinder(filling, tables).find(start, stop) == wanted


@pytest.mark.long
@pytest.mark.parametrize(("name", "kind"), tiers(KINDS))
@given(data=st.data())
@lanes_settings
def test_a_planted_seed_is_found_in_every_output_of_every_generator(name: str, kind: str, data: st.DataObject) -> None:
    output, source = data.draw(outputs(name, kind)), random.Random(data.draw(st.integers(0, 2**32)))
    if output.size == 1:
        return
    made_by = generator(name)
    seed = source.choice([source.randrange(made_by.seeds), source.randrange(1 << 20)])
    count = source.choice([1, 2, 8, 30]) if len(output.rules()) < 3 else 3
    low = source.choice([0, 0, 3, 40])
    blank = Spec(made_by, (output,), (None,) * count, (low, low + source.choice([0, 2])), (0, source.choice([0, 1])))
    spec, item = planted(blank, seed, source)
    start, stop = around(spec, item, source, 300)
    try:
        assert item in finder(spec).find(start, stop)
    except TooManyHits:
        pytest.fail("an interval of 300 items has no more")


@pytest.mark.long
@pytest.mark.parametrize(("name", "calls"), tiers(SMALL))
@pytest.mark.parametrize("asked", ["plain", "skips", "gaps", "mistakes", "missing", "states"])
def test_lanes_and_oracle_agree_on_every_item(name: str, calls: list[Kind], asked: str) -> None:
    if len(calls) > 1 and asked in ("gaps", "missing"):
        return  # there are none among several calls
    if asked == "states" and (name, calls) not in SINGLE:
        return
    source = random.Random(f"{name} {calls} {asked}")
    for _ in range(2):
        low = source.randrange(6)
        rest: dict[str, Any] = {
            "plain": {"skip": (low, low)},
            "skips": {"skip": (low, low + source.randrange(5))},
            "gaps": {"skip": (low, low + source.randrange(3)), "gap": (source.randrange(2), 2)},
            "mistakes": {"skip": (low, low + 1), "share": source.choice([0.5, 0.7])},
            "missing": {"skip": (low, low + 1), "gap": (0, 1), "missing": source.randint(1, 3)},
            "states": {"items": "states", "skip": (low, low + 1)},
        }[asked]
        count = 10 if asked == "mistakes" else source.randint(2, 6)
        seed = source.choice([source.randrange(generator(name).seeds), source.randrange(1 << 16)])
        wrong = 0.15 if asked == "mistakes" else 0.0
        spec, item = planted(ask(name, calls, [None] * count, **rest), seed, source, wrong=wrong)
        agree(spec, *around(spec, item, source, 150))


@pytest.mark.long
@pytest.mark.parametrize(("name", "calls"), tiers(SINGLE))
def test_the_end_of_the_draws_is_found_backwards(name: str, calls: list[Kind]) -> None:
    source = random.Random(name)
    for _ in range(3):
        blank = ask(name, calls, [None] * source.randint(2, 6), items="ends", skip=(0, 5), gap=(0, source.randrange(3)))
        spec, item = planted(blank, source.randrange(generator(name).seeds), source)
        start, stop = around(spec, item, source, 150)
        found = finder(spec).find(start, stop)
        assert item in found
        if not any(rule.rejects for rule in spec.calls[0].rules()):
            assert found == [item for item in range(start, stop) if fits(spec, item)]


@pytest.mark.long
@pytest.mark.parametrize("name", tiers(sorted({name for name, _ in vectors()})))
def test_the_seed_of_every_vector_is_found(name: str) -> None:
    seeds = generator(name).seeds
    for made_by, vector in vectors():
        if made_by != name or not isinstance(vector["seed"], int) or not 0 <= vector["seed"] < seeds:
            continue
        output = parse_output(generator(name), vector["output"])
        if output.size == 1:
            continue
        if len(set(map(str, vector["draws"]))) == 1:  # the dead seed of xorshift
            continue
        read = [output.read(draw) for draw in vector["draws"]]
        spec = ask(name, vector["output"], read, skip=(vector["skip"], vector["skip"]))
        assert vector["seed"] in finder(spec).find(max(0, vector["seed"] - 3), min(seeds, vector["seed"] + 4)), vector


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "border"),
    tiers([("python-random", 1 << 32), ("ruby-random", 1 << 33), ("java-random", 1 << 32), ("xorshift128", 1 << 64)]),
)
def test_intervals_over_a_change_of_the_upper_words_are_searched_whole(name: str, border: int) -> None:
    call = (
        {"kind": "bound", "bound": 6}
        if name[0] == "j"
        else {"kind": "mod", "modulus": 6}
        if name[0] == "x"
        else {"kind": "floor", "n": 6}
    )
    agree(ask(name, call, [5, 3]), border - 40, border + 40)


@pytest.mark.long
def test_borders_of_blocks_and_intervals() -> None:
    for seed in (0, 1, 127, 128, 129, 2**64 - 129, 2**64 - 1):
        spec = ask("splitmix64", {"kind": "exact"}, draws("splitmix64", {"kind": "exact"}, seed, 2))
        top = min(2**64, seed + 129)
        search = finder(spec)
        assert search.find(seed, seed + 1) == search.find(max(0, seed - 128), top) == [seed]
        assert search.find(max(0, seed - 128), seed) == search.find(seed + 1, top) == []


@pytest.mark.long
def test_many_survivors_of_the_first_stage_are_all_settled() -> None:
    # Each of some thousand items passes the first stage, and the queue between the stages fills again and again.
    spec = ask(
        "xorshift64", {"kind": "mod", "modulus": 2}, draws("xorshift64", {"kind": "mod", "modulus": 2}, 4321, 16)
    )
    found = finder(spec).find(0, 200_000)
    assert 4321 in found
    assert found == [item for item in range(200_000) if item in set(found) and fits(spec, item)]
    assert abs(len(found) - 200_000 / 2**16) < 20


@pytest.mark.long
def test_far_skips_and_long_windows() -> None:
    call = {"kind": "randrange", "stop": 10}
    made = draws("python-random", call, 77, 400, 2000)
    assert finder(ask("python-random", call, made, skip=(1990, 2005))).find(0, 200) == [77]
    wrong = [(draw + (i % 5 == 0)) % 10 for i, draw in enumerate(made)]
    assert finder(ask("python-random", call, wrong, skip=(2000, 2000), share=0.79)).find(0, 200) == [77]
    assert finder(ask("python-random", call, wrong, skip=(2000, 2000), share=0.81)).find(0, 200) == []


@pytest.mark.long
def test_giving_up_early_says_what_it_may_miss_and_finds_nearly_all() -> None:
    call, source, found = {"kind": "bound", "bound": 10}, random.Random(5), 0
    for seed in range(100, 200):
        made: list[int | None] = [
            draw if source.random() < 0.9 else source.randrange(10) for draw in draws("java-random", call, seed, 60)
        ]
        spec = ask("java-random", call, made, share=0.6, miss=0.01, rate=0.9)
        assert 0 < offered(spec).missed <= 0.01
        found += seed in finder(spec).find(0, 300)
    assert found >= 95


@pytest.mark.long
def test_too_many_candidates_are_an_error_that_says_what_to_do() -> None:
    for name in ("xorshift32", "xorshift64"):
        with pytest.raises(TooManyHits, match="give more known draws"):
            finder(ask(name, {"kind": "mod", "modulus": 2}, [1])).find(0, 4 * MOST_HITS)


def test_what_cannot_be_asked_is_refused_with_the_reason() -> None:
    def refused(*arguments: Any, **rest: Any) -> str:
        offer = Lanes().offer(ask(*arguments, **rest))
        assert isinstance(offer, str)
        return offer

    exact = {"kind": "exact"}
    assert "no single number" in refused("xorshift128", exact, [1], items="states")
    assert "cannot be undone" in refused("lcg:2,1,16", exact, [1], items="ends")
    assert "2^64" in refused(f"lcg:5,1,{1 << 80}", exact, [1])
    assert "split words" in refused("numpy-pcg64", [{"kind": "below", "n": 5}, {"kind": "float"}], [1, 1])
    assert "numbers apart" in refused("splitmix64", exact, [1, 1], gap=(0, 1 << 17))
    assert "alignments" in refused("splitmix64", exact, [1], skip=(0, 1 << 21))


@pytest.mark.long
def test_special_kernels_serve_what_they_can_and_are_cheaper() -> None:
    plain = ask("php-mt_rand", {"kind": "range", "min": 1, "max": 1000}, [1, 2, 3])
    assert isinstance(finder(plain), SpecialFinder)
    assert isinstance(finder(ask("java-random", JAVA, [1, 2, 3], skip=(0, 2), gap=(1, 1))), SpecialFinder)
    assert isinstance(finder(ask("java-random", JAVA, [1, 2, 3], missing=1)), LanesFinder)
    assert isinstance(
        finder(ask("php-mt_rand", {"kind": "range", "min": 1, "max": 9}, [1, 2], skip=(0, 90))), LanesFinder
    )
    assert "draw" in offered(plain).why or "tries" in offered(plain).why


@pytest.mark.long
def test_where_words_are_drawn_again_before_the_draws_the_special_kernels_do_not_serve() -> None:
    """They walk each such item word by word, which took eight times as long as the lanes for all."""
    for name, kind in [
        ("php-mt_rand", {"kind": "range", "min": -754746, "max": 717182915}),
        ("python-random", {"kind": "randrange", "stop": 1000}),
        ("java-random", {"kind": "bound", "bound": 3 * 2**29}),
    ]:
        assert isinstance(finder(ask(name, kind, [1, 2, 3], skip=(300, 300))), LanesFinder)
    assert isinstance(finder(ask("python-random", {"kind": "randrange", "stop": 1000}, [1, 2, 3])), SpecialFinder)


def test_an_offer_says_what_it_costs() -> None:
    def rate(*arguments: Any, **rest: Any) -> float:
        return offered(ask(*arguments, **rest)).items_per_s

    mod = {"kind": "mod", "modulus": 1000}
    assert rate("xorshift64", mod, [1, 2, 3]) > rate("xorshift64", mod, [1, 2, 3], skip=(0, 50)) > 0
    assert rate("python-random", {"kind": "floor", "n": 9}, [1]) < rate("xorshift64", mod, [1, 2, 3])
