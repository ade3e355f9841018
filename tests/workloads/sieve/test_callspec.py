"""Calls as people write them: to outputs, back to texts, and what is said of the rest."""

import re
from dataclasses import fields
from typing import Any

import pytest

from hostler.workloads.sieve import callspec
from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import GENERATORS, Generator, Output, generator
from hostler.workloads.sieve.spellings import BARE, SPELLINGS


@pytest.mark.parametrize(
    ("name", "text", "kind", "arguments"),
    [
        ("php8", "mt_rand(1,100)", "range", (1, 100)),
        ("php8", "\\mt_rand( -5 , 0x10 )", "range", (-5, 16)),
        ("php8", "rand()", "exact", ()),
        ("php8", "mt_rand(0, 5) + 1", "range", (1, 6)),
        ("php8", "array_rand(10)", "range", (0, 9)),
        ("php8", "shuffle(52)", "shuffle", (52,)),
        ("php5-rand", "rand(1, 6)", "range", (1, 6)),
        ("python", "random.random()", "random", ()),
        ("python", "random()", "random", ()),
        ("python", "rng.randrange(1000)", "randrange", (1000,)),
        ("python", "randrange(5, 10)", "range", (5, 9)),
        ("python", "randint(1, 6)", "range", (1, 6)),
        ("python", "randrange(6) + 1", "range", (1, 6)),
        ("python", "getrandbits(32)", "getrandbits", (32,)),
        ("python", "choice(26)", "randrange", (26,)),
        ("python", "int(random.random() * 100)", "floor", (100,)),
        ("python", "math.floor(100 * random.random())", "floor", (100,)),
        ("java", "nextInt(1000)", "bound", (1000,)),
        ("java", "random.nextInt()", "int", ()),
        ("java", "(int)(Math.random()*100)", "floor", (100,)),
        ("java", "(int) (rng.nextDouble() * 1_000)", "floor", (1000,)),
        ("java", "(int) Math.floor(Math.random()*100)", "floor", (100,)),
        ("java", "nextBytes(8)", "bytes", (8,)),
        ("v8", "Math.random()", "float", ()),
        ("v8", "Math.floor(Math.random()*15)", "floor", (15,)),
        ("v8", "Math.random() * 15 | 0", "floor", (15,)),
        ("v8", "~~(Math.random() * 2**8)", "floor", (256,)),
        ("glibc", "rand() % 6", "mod", (6,)),
        ("glibc", "std::rand() % (1 << 4)", "mod", (16,)),
        ("glibc", "random() >> 16", "bits", (17, 15)),
        ("glibc", "rand() & 0xff", "bits", (1, 8)),
        ("glibc", "(int)(rand() / (RAND_MAX + 1.0) * 6)", "floor", (6,)),
        ("msvc", "rand() >> 7 & 3", "bits", (7, 2)),
        ("ruby", "rand", "float", ()),
        ("ruby", "rand(100)", "below", (100,)),
        ("ruby", "Random.rand(1..6)", "range", (1, 6)),
        ("ruby", "rand(-3...6)", "range", (-3, 5)),
        ("ruby", "(rand * 6).floor", "floor", (6,)),
        ("ruby", "(rand() * 6).to_i", "floor", (6,)),
        ("numpy-legacy", "np.random.randint(0, 100)", "range", (0, 99)),
        ("numpy", "rng.integers(100)", "below", (100,)),
        ("numpy", "integers(100) + 5", "range", (5, 104)),
        ("dotnet", "Next(1, 7)", "range", (1, 6)),
        ("dotnet", "NextDouble()", "double", ()),
        ("go", "rand.Intn(100)", "intn", (100,)),
        ("lua", "math.random(6)", "range", (1, 6)),
        ("lua", "math.random(6) - 1", "below", (6,)),
        ("lua", "math.random(0)", "integer", ()),
        ("xorshift32", "next()", "exact", ()),
        ("xorshift32", "next() % 1000", "mod", (1000,)),
        ("xorshift32", "next() >> 24", "bits", (24, 8)),
        ("xorshift32", "floor(float() * 100)", "floor", (100,)),
        ("lcg:5,3,1024,2", "next() >> 4", "bits", (4, 4)),
        ("pcg32", "bits(shift=3, bits=5)", "bits", (3, 5)),
        ("php8", "range(max=6, min=1)", "range", (1, 6)),
        ("java", "bound(6)", "bound", (6,)),
    ],
)
def test_calls(name: str, text: str, kind: str, arguments: tuple[int, ...]) -> None:
    made_by = generator(name)
    assert callspec.parse(made_by, text) == (made_by.outputs[kind](*arguments),)


def test_several_calls_make_a_round() -> None:
    made_by = generator("java")
    found = callspec.parse(made_by, "nextInt(6); nextBoolean() ;nextDouble();")
    assert [output.kind for output in found] == ["bound", "boolean", "double"]
    assert callspec.native(made_by, found) == "nextInt(6); nextBoolean(); nextDouble()"


@pytest.mark.parametrize("name", [*GENERATORS, "lcg:5,3,1024,2"])
def test_every_output_is_shown_and_read_again(name: str) -> None:
    made_by = generator(name)
    for output in outputs(made_by):
        assert callspec.parse(made_by, callspec.native(made_by, [output])) == (output,)
        values = ", ".join(f"{each.name}={getattr(output, each.name)}" for each in fields(output))
        assert callspec.parse(made_by, f"{output.kind}({values})") == (output,) or not values


@pytest.mark.parametrize("name", GENERATORS)
def test_every_spelling_of_the_tables_is_read(name: str) -> None:
    made_by = generator(name)
    numbers = {"MIN": "2", "MAX": "9", "END": "10", "SHIFT": "1", "MASK": "7"}
    for spelling in SPELLINGS.get(name, BARE):
        text = re.sub(r"\b[A-Z]+\b", lambda hole: numbers.get(hole[0], "9"), spelling.text)
        (output,) = callspec.parse(made_by, text)
        assert output.kind == spelling.kind, text


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("glibc", "rand() % 6 + 1", r"subtract 1 from the draws, and write rand\(\) % 6"),
        ("java", "nextInt(6) - 1", r"add 1 to the draws, and write nextInt\(6\)"),
        ("v8", "Math.floor(Math.random() * 6) + 1", "subtract 1"),
        ("php8", "mt_rnd(1, 100)", r"did you mean mt_rand\(\) or mt_rand\(MIN, MAX\)"),
        ("php8", "mt_rand(5)", r"did you mean mt_rand\(\) or mt_rand\(MIN, MAX\)"),
        ("php8", "mt_rand(9, 1)", "min 9 is above max 1"),
        ("php8", "range(min=1)", r"is written range\(min=MIN, max=MAX\)"),
        ("php8", "range(1, top=2)", "is written range"),
        ("php8", "range(1, 2, 3)", "is written range"),
        ("python", "randrange(0, 10, 2)", r"is written randrange\(stop=STOP\)"),
        ("java", "nextGaussian()", r"knows no nextGaussian\(\)\. It knows"),
        ("go", "Intn(1<<31-1)", "languages differ in what comes first"),
        ("php8", "mt_rand(16**4096**4096, 1)", "cannot be read"),
        ("php8", "mt_rand(2**10000, 1)", "cannot be read"),
        ("php8", "mt_rand(1 << -1, 5)", "cannot be read"),
        ("v8", "Math.floor(Math.random() * 6 + 1)", r"did you mean .*Math\.floor\(Math\.random\(\) \* N\)"),
        ("java", "nextInt(1, 7)", r"did you mean nextInt\(\) or nextInt\(BOUND\)"),
        ("java", "Math.random() * 100", "did you mean"),
        ("pcg32", "next() & 6", "mask 6"),
        ("pcg32", "next() >> 32", "shift by less"),
        ("pcg32", "", "write one call"),
        ("pcg32", "next();;next()", "write one call"),
        ("pcg32", "next(", "cannot be read"),
        ("pcg32", "lambda: 5", "cannot be read"),
        ("pcg32", "(" * 1500, "cannot be read"),
        ("pcg32", "__import__('os')", "cannot be read"),
        ("pcg32", "1e400 * next()", "cannot be read"),
        ("pcg32", "5", "knows no 5"),
    ],
)
def test_what_is_refused(name: str, text: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        callspec.parse(generator(name), text)


@pytest.mark.parametrize(
    ("name", "low", "high", "expected"),
    [
        ("php8", 1, 100, [("mt_rand(1, 100)", 0)]),
        ("php8", 0, 9, [("mt_rand(0, 9)", 0)]),
        ("php8", 0, 2**31 - 1, [("mt_rand(0, 2147483647)", 0), ("mt_rand()", 0)]),
        ("python", 1, 6, [("randint(1, 6)", 0), ("int(random() * 6)", 1)]),
        ("python", 0, 999, [("randrange(1000)", 0), ("int(random() * 1000)", 0)]),
        ("java", 1, 6, [("nextInt(6)", 1), ("(int)(Math.random() * 6)", 1)]),
        ("java", -(2**31), 2**31 - 1, [("(int)(Math.random() * 4294967296)", -(2**31)), ("nextInt()", 0)]),
        ("v8", 0, 14, [("Math.floor(Math.random() * 15)", 0)]),
        ("glibc", 1, 6, [("rand() % 6", 1), ("floor(rand() / (RAND_MAX + 1.0) * 6)", 1)]),
        ("dotnet", 1, 6, [("Next(1, 7)", 0), ("Next() % 6", 1)]),
        ("go", 0, 99, [("Intn(100)", 0)]),
        ("lua", 1, 6, [("math.random(1, 6)", 0), ("math.floor(math.random() * 6)", 1)]),
        ("msvc", 0, 99_999, [("floor(rand() / (RAND_MAX + 1.0) * 100000)", 0)]),
    ],
)
def test_usual_calls(name: str, low: int, high: int, expected: list[Any]) -> None:
    made_by = generator(name)
    found = callspec.natural(made_by, low, high)
    assert [(callspec.native(made_by, [each.output]), each.shift) for each in found] == expected


@pytest.mark.parametrize("name", GENERATORS)
def test_usual_calls_give_just_the_values(name: str) -> None:
    for low, high in [(0, 9), (1, 100), (0, 255), (-3, 3)]:
        found = callspec.natural(generator(name), low, high)
        assert found
        assert {(each.output.lowest + each.shift, each.output.size) for each in found} == {(low, high - low + 1)}


def outputs(made_by: Generator) -> list[Output]:
    """One or two of each kind of output."""
    values: dict[str, list[int]] = {"min": [-2, 0, 1], "max": [5, 6, 7], "shift": [1, 0, 2], "bits": [4, 3, 5]}
    return [
        of(*(values.get(each.name, [7, 8, 9])[i] for each in fields(of)))
        for of in made_by.outputs.values()
        for i in range(3)
    ]
