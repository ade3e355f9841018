"""Searches for seeds by the methods that are made for them, against what others do and publish.

    python benchmarks/sieve_methods.py [--quick] [--json FILE]

All times are CPU-seconds of one process; where they are compared they are taken in turn, and the best round counts. The
peer for PHP is the method that php_mt_seed 4.0 publishes, written anew in C and compiled for this processor
(peers/php_seeds.c); php_mt_seed's own figures are 96-105 and 64 M seeds/s, on a Zen 5 core with AVX-512. The original's
default job is also searched by a plain loop without early exit, compiled by numba (sieve_naive.py). sieve.py shows
these figures too.
"""

import math
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from common import Bar, Row, arguments, machine, report
from hostler.workloads.sieve import spec
from hostler.workloads.sieve.generators import generator, oracle
from hostler.workloads.sieve.judge import judge
from hostler.workloads.sieve.methods.base import Finder, Method, Offer
from hostler.workloads.sieve.methods.gf2 import Gf2
from hostler.workloads.sieve.methods.halves import Halves
from hostler.workloads.sieve.methods.lanes import Lanes
from hostler.workloads.sieve.methods.lattice import Lattice
from hostler.workloads.sieve.methods.line import Line
from hostler.workloads.sieve.methods.low_bits import LowBits
from hostler.workloads.sieve.methods.opencl import OpenCl
from hostler.workloads.sieve.methods.words import Words
from sieve_naive import MODULUS, A, C, M, jumps, naive_sieve
from sieve_peer import PhpPeer, php_peer

METHODS: tuple[Method, ...] = (Lanes(), Gf2(), LowBits(), Lattice(), Halves(), Line(), Words())
ROUNDS = 3
START = 1 << 30
PLANTED = START + 12_345_678
SEED48 = 0x5DEECE66D17B
SEED64 = 0xFEDCBA9876543210
PUBLISHED = {"mt_rand()": "96-105", "mt_rand(0, 56) x 10": "64"}
PHP_BAR, LANES_BAR, ORIGINAL_BAR = 1.3, 4000.0, 50.0
ORIGINAL_RATE = 0.39
WINDOW, GAPS, SHARE = 512, 21, 0.01
PYTHON_MINUTES = 10.0

Kind = dict[str, Any]
PHP_TASKS: list[tuple[str, Kind, int, int]] = [
    ("mt_rand()", {"kind": "exact"}, 0, 1),
    ("mt_rand(0, 56) x 10", {"kind": "range", "min": 0, "max": 56}, 57, 10),
]
"""Title, call, number of values (0: all), draws."""
CHEAP: list[tuple[str, Kind, str]] = [
    ("xorshift32", {"kind": "exact"}, "xorshift32"),
    ("xorshift32", {"kind": "mod", "modulus": 1000}, "xorshift32 mod 1000"),
    ("java-random", {"kind": "int"}, "java nextInt()"),
    ("java-random", {"kind": "bound", "bound": 1000}, "java nextInt(1000)"),
]
WHOLE: list[tuple[str, str, Kind, int]] = [
    ("splitmix64 next() x 4", "splitmix64", {"kind": "exact"}, 4),
    ("splitmix64 next() >> 24 x 4", "splitmix64", {"kind": "bits", "shift": 24, "bits": 40}, 4),
    ("xorshift64* next() x 4", "xorshift64star", {"kind": "exact"}, 4),
    ("pcg32 next() x 6", "pcg32", {"kind": "exact"}, 6),
    ("xoshiro256** next() x 4", "xoshiro256starstar", {"kind": "exact"}, 4),
    ("lua math.random() x 6", "lua-random", {"kind": "float"}, 6),
]
"""Title, generator, call, draws."""
OPENCL: list[tuple[str, str, Kind, int, int]] = [
    ("php mt_rand()", "php-mt_rand", {"kind": "exact"}, 1, 24),
    ("xorshift32 mod 1000 x 8", "xorshift32", {"kind": "mod", "modulus": 1000}, 8, 28),
    ("java nextInt(1000) x 8", "java-random", {"kind": "bound", "bound": 1000}, 8, 28),
    ("python randrange(1000) x 10", "python-random", {"kind": "randrange", "stop": 1000}, 10, 22),
]
"""Title, generator, call, draws, seeds as a power of two."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A search: how many items it covered in how many CPU-seconds, setting up included, and what it found."""

    method: str
    items: int
    cpu_s: float
    found: list[int]

    @property
    def rate(self) -> float:
        """Millions of items per CPU-second."""
        return self.items / self.cpu_s / 1e6

    def row(self, search: str, source: str = "measured") -> Row:
        """A row of the table."""
        return {
            "search by method": search,
            "method": self.method,
            "items": f"2^{math.log2(self.items):.4g}",
            "CPU-s": self.cpu_s,
            "M items/CPU-s": self.rate,
            "source": source,
        }


def measured(quick: bool) -> tuple[list[Row], list[Bar]]:
    """All rows and bars."""
    rows: list[Row] = []
    bars: list[Bar] = []
    for part in (_php, _lanes, _original, _java, _xorshift128, _whole, _python, _opencl):
        more_rows, more_bars = part(quick)
        rows += more_rows
        bars += more_bars
    return rows, bars


def main() -> None:
    """Measure, print, write."""
    options = arguments(__doc__)
    rows, bars = measured(options.quick)
    report("sieve_methods", rows, bars, options.json)


# ---- the parts ------------------------------------------------------------------------------------------------------


def _php(quick: bool) -> tuple[list[Row], list[Bar]]:
    """Both tasks of php_mt_seed, ours and the peer's in turn over the same seeds."""
    size = 1 << (24 if quick else 27)
    rows, bars = [], []
    with tempfile.TemporaryDirectory(prefix="hostler-peer-") as folder:
        peer = php_peer(Path(folder))
        for title, kind, width, draws in PHP_TASKS:
            asked = _question("php-mt_rand", kind, draws, PLANTED)
            ours, theirs = _in_turn(asked, peer, width, size)
            rows.append(ours.row(f"php {title}"))
            rows += [theirs.row(f"php {title}", "peer in C, same run")] if theirs else []
            bars.append(_php_bar(title, ours, theirs))
    return rows, bars


def _lanes(quick: bool) -> tuple[list[Row], list[Bar]]:
    """Cheap generators, tried one by one, with 8 draws."""
    size = 1 << (28 if quick else 30)
    rows, bars = [], []
    for name, kind, title in CHEAP:
        asked = _question(name, kind, 8, PLANTED)
        best = _best_of(partial(_search, Lanes(), asked, START, START + size))
        _must(PLANTED in best.found, f"{title}: the planted seed was lost")
        rows.append(best.row(f"{title} x 8, each tried"))
        bars.append(Bar(f"{title} x 8, each tried, M seeds/CPU-s and core", best.rate, LANES_BAR, ">="))
    return rows, bars


def _original(quick: bool) -> tuple[list[Row], list[Bar]]:
    """The original's default job; a sample of it by the plain loop, whose answer must be the same."""
    size, sample = 1 << (22 if quick else 25), 1 << (14 if quick else 17)
    source = random.Random(512)
    draws = [source.randrange(MODULUS) for _ in range(WINDOW)]
    params = {
        "schema": 2, "generator": f"lcg:{A},{C},{M},0", "calls": [{"kind": "mod", "modulus": MODULUS}],
        "draws": draws, "gap": [0, GAPS - 1], "share": SHARE,
    }  # fmt: skip
    asked = spec.parse(params)
    ours = _best_of(lambda: _search(Line(), asked, START, START + size))
    naive = _best_of(lambda: _naive(draws, asked.need, sample))
    same = [item for item in ours.found if item < START + sample]
    _must(same == naive.found, f"line finds {same}, the plain loop {naive.found}")
    title = f"original's default job ({len(naive.found)} of 2^{math.log2(sample):.0f} pass)"
    rows = [ours.row(title), naive.row(title, "plain loop by numba, same run")]
    name = "original's default job"
    bars = [
        Bar(f"{name}, × its {ORIGINAL_RATE} M seeds/CPU-s", ours.rate / ORIGINAL_RATE, ORIGINAL_BAR, ">="),
        Bar(f"{name}, × a plain loop by numba, same run", ours.rate / naive.rate, ORIGINAL_BAR, ">=",
            f"the same answer on 2^{math.log2(sample):.0f} seeds"),
    ]  # fmt: skip
    return rows, bars


def _java(quick: bool) -> tuple[list[Row], list[Bar]]:
    """All 2^48 seeds of java.util.Random, by an even bound and by odd ones."""
    rows, times = [], []
    for draws in (6, 8, 12):
        asked = _question("java-random", {"kind": "bound", "bound": 1000}, draws, SEED48)
        best = _best_of(partial(_cheapest, asked))
        _must(_surviving(asked, best.found) == [SEED48], f"java: {best.found} from {draws} draws")
        rows.append(best.row(f"java nextInt(1000) x {draws}, all seeds"))
        times.append(best.cpu_s)
    for bound, draws in ((999, 10), (49, 12), (7, 24)):
        asked = _question("java-random", {"kind": "bound", "bound": bound}, draws, SEED48)
        best = _best_of(partial(_search, Halves(), asked, 0, asked.size))
        _must(_surviving(asked, best.found) == [SEED48], f"java: {best.found} from {draws} draws below {bound}")
        rows.append(best.row(f"java nextInt({bound}) x {draws}, all seeds"))
    note = "the slowest of 6, 8 and 12 draws of nextInt(1000)"
    return rows, [Bar("java.util.Random, all 2^48 seeds, CPU-s", max(times), 1.0, "<", note)]


def _xorshift128(quick: bool) -> tuple[list[Row], list[Bar]]:
    """A 128-bit state and an unknown skip."""
    seed, skips = 0x0123456789ABCDEF_FEDCBA9876543210, 1000
    asked = _question("xorshift128", {"kind": "mod", "modulus": 1000}, 64, seed, 777, (0, skips))
    best = _best_of(lambda: _search(Gf2(), asked, 0, asked.size))
    survivor = judge(asked, seed)
    _must(seed in best.found and survivor is not None and survivor.skip == 777, "xorshift128: seed or skip was lost")
    title = f"xorshift128 mod 1000 x 64, all states, skips 0-{skips}"
    return [best.row(title)], [Bar("xorshift128, seed and skip from 64 draws, CPU-s", best.cpu_s, 5.0, "<")]


def _whole(quick: bool) -> tuple[list[Row], list[Bar]]:
    """All 2^64 seeds of generators whose words can be undone."""
    rows, times = [], []
    for title, name, kind, draws in WHOLE:
        asked = _question(name, kind, draws, SEED64)
        best = _best_of(partial(_cheapest, asked))
        _must(_surviving(asked, best.found) == [SEED64], f"{title}: {best.found}")
        rows.append(best.row(f"{title}, all seeds"))
        times.append(best.cpu_s)
    return rows, [Bar("generators of whole words, all 2^64 seeds, CPU-s", max(times), 1.0, "<", "the slowest of them")]


def _python(quick: bool) -> tuple[list[Row], list[Bar]]:
    """A slice of CPython's seeds; the whole range is computed from it."""
    size = 1 << (24 if quick else 27)
    asked = _question("python-random", {"kind": "randrange", "stop": 1000}, 10, PLANTED)
    rounds = [_search(Lanes(), asked, START, START + size) for _ in range(ROUNDS)]
    timed = min(rounds, key=_cpu_s)
    _must(PLANTED in timed.found, "python: the planted seed was lost")
    minutes = timed.cpu_s / size * 2**32 / 60
    note = f"computed from {timed.cpu_s:.1f} CPU-s for 2^{math.log2(size):.0f} seeds, the best of {ROUNDS} slices"
    bar = Bar("CPython randrange(1000) x 10, 2^32 seeds, core-minutes", minutes, PYTHON_MINUTES, "<", note)
    return [timed.row("python randrange(1000) x 10")], [bar]


def _opencl(quick: bool) -> tuple[list[Row], list[Bar]]:
    """OpenCL on the processor, where it is: the same search as a GPU makes, in CPU-seconds of all its threads."""
    rows = []
    for title, name, kind, draws, bits in OPENCL:
        asked = _question(name, kind, draws, PLANTED)
        offer = OpenCl("cpu").offer(asked)
        if isinstance(offer, str):
            print(f"no OpenCL here: {offer}")
            break
        finder, size = offer.make(), 1 << (bits - 3 if quick else bits)
        best = _best_of(partial(_find, "opencl", finder, START, START + size))
        rows.append(best.row(title, "measured, OpenCL on the processor"))
    return rows, []


# ---- what they share ------------------------------------------------------------------------------------------------


def _question(
    name: str, kind: Kind, draws: int, seed: int, skip: int = 0, skips: tuple[int, int] = (0, 0)
) -> spec.Spec:
    made_by = generator(name)
    made = oracle(made_by, spec.parse_output(made_by, kind), seed, skip=skip)
    values = list(islice(made, draws))
    return spec.parse({"schema": 2, "generator": name, "calls": [kind], "draws": values, "skip": list(skips)})


def _search(method: Method, asked: spec.Spec, start: int, stop: int) -> Timed:
    """From the question to the candidates."""
    began = time.process_time()
    offer = method.offer(asked)
    _must(isinstance(offer, Offer), f"{method.name}: {offer}")
    assert isinstance(offer, Offer)
    found = offer.make().find(start, stop)
    return Timed(method.name, stop - start, time.process_time() - began, found)


def _find(name: str, finder: Finder, start: int, stop: int) -> Timed:
    began = time.process_time()
    found = finder.find(start, stop)
    return Timed(name, stop - start, time.process_time() - began, found)


def _cheapest(asked: spec.Spec) -> Timed:
    """All items by the method that says it costs least; asking all of them counts."""
    began = time.process_time()
    offers = {method.name: offer for method in METHODS if isinstance(offer := method.offer(asked), Offer)}
    name = min(offers, key=lambda name: offers[name].cpu_s(asked.size))
    found = offers[name].make().find(0, asked.size)
    return Timed(name, asked.size, time.process_time() - began, found)


def _naive(draws: list[int], need: int, sample: int) -> Timed:
    found, given, steps = np.zeros(1 << 20, np.int64), np.array(draws, np.uint32), jumps(GAPS)
    began = time.process_time()
    count = naive_sieve(START, START + sample, given, steps, need, found)
    return Timed("plain loop", sample, time.process_time() - began, found[:count].tolist())


def _best_of(run: Callable[[], Timed]) -> Timed:
    """The cheapest of some rounds, after one that compiles."""
    run()
    return min((run() for _ in range(ROUNDS)), key=lambda timed: timed.cpu_s)


def _in_turn(asked: spec.Spec, peer: PhpPeer | None, width: int, size: int) -> tuple[Timed, Timed | None]:
    """The best rounds of ours and of the peer's, which must find the same seeds."""
    draws = [draw for draw in asked.draws if draw is not None]
    _search(Lanes(), asked, START, START + (1 << 16))
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(_search(Lanes(), asked, START, START + size))
        theirs += [Timed("peer", size, *peer.search(START, size, width, draws))] if peer else []
    for timed in (*ours, *theirs):
        seeds = _surviving(asked, timed.found)
        _must(PLANTED in seeds and seeds == ours[0].found, f"{timed.method} finds {seeds}, we find {ours[0].found}")
    return min(ours, key=_cpu_s), min(theirs, key=_cpu_s, default=None)


def _cpu_s(timed: Timed) -> float:
    return timed.cpu_s


def _php_bar(title: str, ours: Timed, theirs: Timed | None) -> Bar:
    name = f"php {title}: seeds per CPU-second, × the method of php_mt_seed 4.0"
    told = f"php_mt_seed itself: {PUBLISHED[title]} M/s on a Zen 5 core with AVX-512"
    if theirs is None:
        return Bar(name, None, PHP_BAR, ">=", f"no C compiler here; ours {ours.rate:.1f} M/s; {told}")
    about = machine()
    where = f"{about['processor']}{' with AVX-512' if about['avx512'] else ', no AVX-512'}"
    note = f"{ours.rate:.1f} against {theirs.rate:.1f} M/s on {where}; {told}"
    return Bar(name, ours.rate / theirs.rate, PHP_BAR, ">=", note)


def _surviving(asked: spec.Spec, found: list[int]) -> list[int]:
    return [item for item in found if judge(asked, item)]


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(what)


if __name__ == "__main__":
    main()
