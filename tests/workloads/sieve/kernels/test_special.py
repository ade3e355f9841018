"""The special kernels against the recorded vectors and the oracles, without the generic search."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostler.workloads.sieve.generators import GENERATORS, generator
from hostler.workloads.sieve.methods.lanes import SpecialFinder
from hostler.workloads.sieve.plan import SEARCHED, plan_for
from hostler.workloads.sieve.spec import parse_output

from ..support import Output, draws, tiers, vectors

kernel_settings = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = tiers(SEARCHED, {"java-random"})
Draws = Sequence[int | None]


def search(name: str, output: Output, values: Draws, start: int, stop: int, skip: int = 0) -> list[int]:
    made_by = generator(name)
    plan = plan_for(made_by, parse_output(made_by, output), values, skip)
    return SpecialFinder([plan]).find(start, stop)


def survivors(name: str, output: Output, values: Draws, start: int, stop: int, skip: int = 0) -> list[int]:
    """What the oracle says: every seed of the interval, one after another."""

    def passes(seed: int) -> bool:
        made = draws(name, output, seed, len(values), skip)
        return all(want in (None, draw) for want, draw in zip(values, made, strict=True))

    return [seed for seed in range(start, stop) if passes(seed)]


@st.composite
def outputs(draw: st.DrawFn, name: str) -> Output:
    sizes = st.one_of(st.integers(2, 2000), st.integers(2, 2**31 - 1), st.integers(1, 30).map(lambda k: 2**k))
    size = draw(sizes)
    if name == "php-mt_rand":
        low = draw(st.integers(-(2**40), 2**40))
        size = draw(st.one_of(st.just(size), st.integers(2**31, 2**32)))
        return draw(st.sampled_from([{"kind": "exact"}, {"kind": "range", "min": low, "max": low + size - 1}]))
    if name == "java-random":
        return draw(st.sampled_from([{"kind": "int"}, {"kind": "bound", "bound": size}]))
    if name == "python-random":
        return draw(st.sampled_from([{"kind": "random"}, {"kind": "randrange", "stop": size}]))
    return draw(st.sampled_from([{"kind": "exact"}, {"kind": "mod", "modulus": size}]))


Planted = tuple[Output, list[int | None], int, int]


@st.composite
def planted(draw: st.DrawFn, name: str) -> Planted:
    """An output, draws of it, how many came before them, and the seed they are of."""
    seed = draw(st.integers(0, GENERATORS[name].seeds - 1))
    output = draw(outputs(name))
    skip = draw(st.one_of(st.just(0), st.integers(0, 5), st.integers(0, 1300)))
    made = draws(name, output, seed, draw(st.integers(1, 30)), skip)
    known = draw(st.lists(st.booleans(), min_size=len(made), max_size=len(made)))
    return (
        output,
        [value if keep or not any(known) else None for value, keep in zip(made, known, strict=True)],
        skip,
        seed,
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_of_every_vector_is_found(name: str) -> None:
    for made_by, vector in vectors():
        seed, seeds = vector["seed"], GENERATORS[name].seeds
        if made_by != name or vector["output"]["kind"] not in SEARCHED[name]:
            continue
        if not isinstance(seed, int) or not 0 <= seed < seeds or len(set(vector["draws"])) == 1:
            continue
        output = parse_output(generator(name), vector["output"])
        read = [output.read(draw) for draw in vector["draws"]]
        assert seed in search(name, vector["output"], read, max(0, seed - 3), min(seeds, seed + 4), vector["skip"])


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@kernel_settings
def test_a_planted_seed_is_found_wherever_it_lies_in_the_interval(name: str, data: st.DataObject) -> None:
    output, values, skip, seed = data.draw(planted(name))
    size = data.draw(st.integers(1, 1500))
    start = max(0, seed - data.draw(st.one_of(st.sampled_from([0, size - 1]), st.integers(0, size - 1))))
    assert seed in search(name, output, values, start, min(start + size, GENERATORS[name].seeds), skip)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(kernel_settings, max_examples=8)
def test_kernels_and_oracle_agree_on_every_seed(name: str, data: st.DataObject) -> None:
    output, values, skip, seed = data.draw(planted(name))
    # Few draws, so that chance survivors come along.
    values = values[: next(i for i, value in enumerate(values) if value is not None) + 1]
    start = max(0, seed - data.draw(st.integers(0, 40)))
    stop = min(start + data.draw(st.integers(1, 60)), GENERATORS[name].seeds)
    assert search(name, output, values, start, stop, skip) == survivors(name, output, values, start, stop, skip)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [2, 3, 1000])
def test_many_survivors_are_all_found(name: str, size: int) -> None:
    output: Output = {
        "php-mt_rand": {"kind": "range", "min": 0, "max": size - 1},
        "java-random": {"kind": "bound", "bound": size},
        "python-random": {"kind": "randrange", "stop": size},
        "xorshift32": {"kind": "mod", "modulus": size},
    }[name]
    assert search(name, output, [1, None, 1], 100, 900, 1) == survivors(name, output, [1, None, 1], 100, 900, 1)


@pytest.mark.parametrize("name", NAMES)
def test_hits_on_the_borders_of_blocks_and_intervals(name: str) -> None:
    output: Output = {
        "php-mt_rand": {"kind": "exact"},
        "java-random": {"kind": "int"},
        "python-random": {"kind": "random"},
        "xorshift32": {"kind": "exact"},
    }[name]
    for lanes in (64, 128, 384, 65536):
        for seed in (0, 1, lanes - 1, lanes, 2**32 - lanes, 2**32 - 1, *((2**32,) if name[0] in "jp" else ())):
            if seed >= GENERATORS[name].seeds:
                continue
            made, top = draws(name, output, seed, 3), min(GENERATORS[name].seeds, seed + lanes + 1)
            assert search(name, output, made, seed, seed + 1) == [seed]
            assert search(name, output, made, max(0, seed - lanes), top) == [seed]
            assert search(name, output, made, max(0, seed - lanes), seed) == []
            assert search(name, output, made, seed + 1, top) == []


@pytest.mark.parametrize(
    ("name", "output", "skip"),
    [
        pytest.param("xorshift32", {"kind": "mod", "modulus": 1000}, 0, marks=pytest.mark.long),
        pytest.param("xorshift32", {"kind": "mod", "modulus": 1024}, 3, marks=pytest.mark.long),
        ("java-random", {"kind": "bound", "bound": 999}, 0),
        ("java-random", {"kind": "bound", "bound": 1024}, 2),
        ("java-random", {"kind": "bound", "bound": 3 * 2**29}, 0),  # a quarter of the words is drawn again
        ("java-random", {"kind": "bound", "bound": 3 * 2**29}, 2),
        ("java-random", {"kind": "int"}, 1),
    ],
)
@given(data=st.data())
@settings(kernel_settings, max_examples=4)
def test_light_kernels_and_oracle_agree_around_the_borders_of_spans(
    name: str, output: Output, skip: int, data: st.DataObject
) -> None:
    border = data.draw(st.sampled_from([2**16, 3 * 2**16, 2**31, 2**32 - 2**16]))
    start, stop = border - data.draw(st.integers(0, 200)), border + data.draw(st.integers(1, 200))
    seed = data.draw(st.integers(start, stop - 1))
    made = draws(name, output, seed, data.draw(st.integers(1, 3)), skip)
    assert search(name, output, made, start, stop, skip) == survivors(name, output, made, start, stop, skip)


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_seed_is_found_though_a_word_of_its_is_drawn_again(before: int) -> None:
    """The first, the second or the third of its words; a quarter of all are drawn again."""
    output: Output = {"kind": "bound", "bound": 3 * 2**29}

    def again(seed: int) -> list[bool]:
        words = draws("java-random", {"kind": "int"}, seed, before + 1)
        return [word % 2**32 >> 1 >= output["bound"] for word in words if word is not None]

    seeds = [seed for seed in range(400) if again(seed) == [False] * before + [True]]
    assert seeds
    for seed in seeds[:8]:
        for skip in (0, 1, 2):
            assert seed in search("java-random", output, draws("java-random", output, seed, 6, skip), 0, 400, skip)


@pytest.mark.long
def test_a_word_that_only_fits_modulo_2_to_the_32_is_no_hit() -> None:
    modulus, target = 3_000_000_000, 2_900_000_000
    word = target + modulus - 2**32
    (seed,) = search("xorshift32", {"kind": "exact"}, [word], 0, 2**32)
    assert search("xorshift32", {"kind": "mod", "modulus": modulus}, [target], seed, seed + 1) == []
    assert search("xorshift32", {"kind": "mod", "modulus": modulus}, [word], seed, seed + 1) == [seed]


@pytest.mark.long
def test_an_interval_over_a_change_of_the_key_length_is_searched_whole() -> None:
    output = {"kind": "randrange", "stop": 6}
    for border in (2**32, 2**33, 2**63):
        interval = border - 40, border + 40
        assert search("python-random", output, [5, 3], *interval) == survivors(
            "python-random", output, [5, 3], *interval
        )


def test_php_takes_the_early_kernel_only_where_it_is_right() -> None:
    php = generator("php-mt_rand")

    def kernel(output: Output, skip: int) -> str:
        return plan_for(php, parse_output(php, output), [1, 1], skip).kernel

    thousand, half = {"kind": "range", "min": 1, "max": 1000}, {"kind": "range", "min": 1, "max": 2**31 + 1}
    assert [kernel(thousand, 0), kernel(thousand, 226), kernel({"kind": "exact"}, 226)] == ["php-early"] * 3
    assert [kernel(thousand, 227), kernel(half, 0)] == ["php-full"] * 2
