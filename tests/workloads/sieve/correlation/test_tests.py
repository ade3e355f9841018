"""The tests themselves: p-values are right under chance, bad sequences are caught, holes are borne."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
stats = pytest.importorskip("scipy.stats")

from hostler.workloads.sieve.correlation import Result, Sample, examine, sample  # noqa: E402
from hostler.workloads.sieve.correlation.complexity import profile  # noqa: E402
from hostler.workloads.sieve.correlation.examine import corrected, every_test  # noqa: E402
from hostler.workloads.sieve.correlation.special import complexity_tails  # noqa: E402
from hostler.workloads.sieve.data import Filters, read  # noqa: E402
from hostler.workloads.sieve.errors import SpecError  # noqa: E402
from hostler.workloads.sieve.generators import generator  # noqa: E402

from ..support import DRAWS, draws  # noqa: E402

SEQUENCES = 600
# Tests whose p-value takes so few values that it cannot be uniform: it must not be small too often.
STEPS = {"complexity", "profile"}
# What Kolmogorov's and Smirnov's statistic exceeds with a probability of 0.0001.
KS = math.sqrt(math.log(2 / 1e-4) / (2 * SEQUENCES))

# Size, draws, the share of draws that are unknown.
LARGER = [(1000, 600, 0.01), (2**64, 500, 0.0), (2, 1000, 0.0)]
SETTINGS = [(60, 600, 0.0), *LARGER]


@cache
def null(size: int, count: int, holes: float) -> dict[tuple[str, str], list[Result]]:
    """All results of sequences that are chance, by test and part."""
    source, found = np.random.default_rng(7), defaultdict(list)
    for _ in range(SEQUENCES):
        values = (
            source.integers(0, size, count, dtype=np.uint64, endpoint=False) if size < 2**64 else whole(source, count)
        )
        gone = source.random(count) < holes
        made = Sample("null", tuple(None if none else int(v) for v, none in zip(values, gone, strict=True)), size)
        for result in every_test(made, 4):
            if result.p is not None:
                found[result.test, result.part].append(result)
    return dict(found)


def whole(source: "np.random.Generator", count: int) -> "np.typing.NDArray[np.uint64]":
    return source.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True)


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
def test_p_values_are_uniform_where_all_is_chance(setting: tuple[int, int, float]) -> None:
    for (test, part), results in null(*setting).items():
        p_values = [result.p for result in results]
        assert len(p_values) > 0.95 * SEQUENCES  # the rest has no clean run that is long enough
        # Counts move in steps: as much as the commonest p-value makes up, their distribution may be off.
        step = max(Counter(p_values).values()) / len(p_values)
        side = "greater" if test in STEPS else "two-sided"
        assert stats.kstest(p_values, "uniform", alternative=side).statistic < KS + step, (test, part)
        assert stats.binomtest(sum(p < 0.01 for p in p_values), len(p_values), 0.01, "greater").pvalue > 1e-4


@pytest.mark.long
def test_complexity_follows_its_exact_law() -> None:
    for (test, part), results in null(60, 600, 0.0).items():
        if test != "complexity":
            continue
        seen = [sum(result.statistic == each for result in results) for each in range(296, 306)]
        law = [complexity_tails(each, 600)[0] - complexity_tails(each - 1, 600)[0] for each in range(296, 306)]
        rest = len(results) - sum(seen)
        wanted = [len(results) * each for each in law]
        kept = [(s, w) for s, w in zip(seen, wanted, strict=True) if w >= 5]
        rest += sum(seen) - sum(s for s, _ in kept)
        other = len(results) - sum(w for _, w in kept)
        assert stats.chisquare([*(s for s, _ in kept), rest], [*(w for _, w in kept), other]).pvalue > 1e-4, part


@pytest.mark.parametrize("samples", [60, pytest.param(300, marks=pytest.mark.long)])
def test_all_tests_together_seldom_claim_anything(samples: int) -> None:
    """Of samples of chance, at most some 1 in 100 may have a test that Holm's correction leaves below 0.01."""
    source, claims = np.random.default_rng(11), 0
    for _ in range(samples):
        made = Sample("null", tuple(source.integers(0, 100, 400).tolist()), 100)
        claims += any(result.holm is not None and result.holm < 0.01 for result in corrected(every_test(made)))
    assert stats.binomtest(claims, samples, 0.01, "greater").pvalue > 1e-4


def chance(count: int, size: int, seed: int = 5) -> list[int]:
    return [int(v) for v in np.random.default_rng(seed).integers(0, size, count)]


def biased() -> Sample:
    return Sample("bad", tuple(v if v else w for v, w in zip(chance(3000, 10), chance(3000, 10, 6), strict=True)), 10)


def low_bits() -> Sample:
    """The lowest 8 bits of an LCG modulo 2^32: a period of 256."""
    return Sample(
        "bad", tuple(v % 256 for v in draws("lcg:1664525,1013904223,4294967296", {"kind": "exact"}, 1, 2000)), 256
    )


def low_parts() -> Sample:
    """Whole numbers of that LCG, whose low parts alone are bad."""
    return Sample("bad", tuple(draws("lcg:1664525,1013904223,4294967296", {"kind": "exact"}, 1, 2000)), 2**32)


def xorshift() -> Sample:
    return Sample("bad", tuple(draws("xorshift32", {"kind": "exact"}, 12345, 500)), 2**32)


def lagged() -> Sample:
    values = chance(2000, 1000)
    for i in range(7, 2000, 3):
        values[i] = values[i - 7]
    return Sample("bad", tuple(values), 1000)


def sticky() -> Sample:
    values = chance(2000, 100)
    for i in range(1, 2000, 5):
        values[i] = values[i - 1]
    return Sample("bad", tuple(values), 100)


def periodic() -> Sample:
    noise = chance(2000, 1000)
    return Sample("bad", tuple(int(v * 0.75 + 125 * (1 + math.sin(i / 5))) for i, v in enumerate(noise)), 1000)


def repeating() -> Sample:
    """Groups of five that never repeat a value."""
    source = np.random.default_rng(3)
    return Sample("bad", tuple(int(v) for _ in range(400) for v in source.permutation(10)[:5]), 10)


@pytest.mark.parametrize(
    ("bad", "test", "part"),
    [
        (biased, "frequency", "values"),
        (low_bits, "complexity", "bit 0"),
        (low_bits, "lag", None),
        (low_parts, "complexity", "bit 3"),
        (low_parts, "neighbours", "low parts"),
        (xorshift, "complexity", "bit 0"),
        (xorshift, "complexity", "bit 31"),
        (xorshift, "profile", "bit 30"),
        (lagged, "lag", "lag 7"),
        (sticky, "neighbours", "high parts"),
        (sticky, "lag", "lag 1"),
        (sticky, "runs", "above and below"),
        (periodic, "spectrum", "periodogram"),
        (repeating, "poker", "values"),
    ],
)
def test_bad_sequences_are_caught(bad: Callable[[], Sample], test: str, part: str | None) -> None:
    results = corrected(every_test(bad(), 64 if part is None else 16))
    found = [result for result in results if result.test == test and part in (None, result.part)]
    assert found
    if part is None:
        found = sorted(found, key=lambda result: result.p or 0)[:1]
    assert found[0].holm is not None
    assert found[0].holm < 1e-4, found
    assert "chance gives this in" in found[0].says


def test_the_mersenne_twister_is_linear() -> None:
    bits = np.random.RandomState(1).randint(0, 2**32, 40_200, dtype=np.uint64) >> 31
    assert profile(bits.tolist()).complexity == 19937


def test_holes_are_left_out_as_each_test_can_bear() -> None:
    made = Sample("x", (*chance(300, 8), None, *chance(700, 8, 6), None), 8)
    counted = {(result.test, result.part): result.n for result in every_test(made)}
    assert counted["frequency", "values"] == 1000
    assert counted["neighbours", "values"] == 998
    assert counted["lag", "lag 3"] == 996
    assert counted["runs", "above and below"] == 1000
    assert counted["spectrum", "periodogram"] == counted["complexity", "bit 0"] == 700
    assert counted["poker", "values"] == 199


def test_an_unknown_draw_does_not_bring_others_nearer() -> None:
    # Each second draw repeats the one before it; with those between unknown, nothing is left to see at lag 1.
    values = [v for v in chance(600, 1000) for _ in range(2)]
    full = next(r for r in every_test(Sample("x", tuple(values), 1000)) if r.part == "lag 1")
    assert full.p is not None
    assert full.p < 1e-10
    holed = every_test(Sample("x", tuple(v if i % 2 else None for i, v in enumerate(values)), 1000))
    assert not any(result.part == "lag 1" and result.p is not None for result in holed)


@pytest.mark.parametrize("values", [(1,) * 200, (1, 0, 3), (None, 2, None), (0, 7) * 3])
@pytest.mark.parametrize("size", [8, 9, 10**40])
def test_too_little_is_said_to_be_too_little(values: tuple[int | None, ...], size: int) -> None:
    for result in corrected(every_test(Sample("x", values, size))):
        assert (result.p is None) == (result.holm is None) == (result.fdr is None)
        assert result.p is None or 0 < result.p <= 1
        assert result.p is not None or result.says == f"not tested: {result.note}"
        json.dumps(result.as_dict(), allow_nan=False)


def test_files_are_examined_together(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("\n".join(str(v + 1) for v in chance(1000, 6)))
    bad.write_text("\n".join(str(v % 2 + 1) for v in chance(1000, 6)))
    results = examine([read(good), read(bad)], [(1, 6), (1, 6)])
    assert {result.says for result in results if result.source == str(good)} <= {"nothing unusual"}
    worst = min((result for result in results if result.p is not None), key=lambda result: result.p or 0)
    assert worst.source == str(bad)
    assert "some values come more often" in worst.says or "linear" in worst.says
    tested = [result for result in results if result.p is not None]
    assert worst.holm == pytest.approx(min(1.0, (worst.p or 0) * len(tested)))


def test_outputs_read_what_they_give(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0.5\n0.25\n-\n0.75")
    output = generator("python").outputs["random"]()
    assert sample(read(path), output).draws == (2**52, 2**51, None, 3 * 2**51)
    assert sample(read(path, Filters(window=(0, 2))), output).size == 2**53
    with pytest.raises(SpecError, match=r"a.txt: draw 0: 0.5 is no integer"):
        sample(read(path), (0, 1))
    with pytest.raises(SpecError, match=r"draw 1: 653 lies outside 0..99"):
        sample(read(DRAWS / "java.json"), (0, 99))
    with pytest.raises(SpecError, match="one value only"):
        sample(read(path), (1, 1))
