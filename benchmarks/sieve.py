"""Seeds per CPU-second and core: what brute force reaches for each generator, and what the other methods spare.

    python benchmarks/sieve.py [--quick] [--json FILE]

"kernel" is one bare search of an interval by `lanes`, "worker" the same interval through the sieve as a warm worker,
with its slices, checkpoints and pipes, where trying each seed is what the worker does too. Both are CPU time, the best
of several rounds in turn. The rows by method, and the peer of php_mt_seed's method, are those of sieve_methods.py.
"whole" is a sweep of all 2^32 seeds (2^28 with --quick) through a real `hostler up` with two workers, everything
counted but the compilation, beside the bare kernel on two threads (whole_sweep.py); --quick sets no bar for it, since
the start of the processes weighs sixteen times as much there. The figures of php_mt_seed 4.0 (openwall) itself are
published ones from another machine, with AVX-512; they are marked.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import sieve_methods
from common import Bar, Row, arguments, report
from hostler.workloads.sieve import spec
from hostler.workloads.sieve.generators import generator, oracle
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.lanes import Lanes
from whole_sweep import Comparison, compare

ROUNDS = 3
KERNEL_S = 4.0  # CPU time a measured interval should take
QUICK_S = 0.5
DRAWS = 12
SEED = 1 << 31
PROBE = 1 << 16
START = 1 << 30
WHOLE_BAR = 95.0
WHOLE_ROUNDS = 2
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table: a generator and a call; ``solved`` where a worker would not try each seed."""

    title: str
    generator: str
    call: dict[str, Any]
    skip: int = 0
    solved: bool = False

    def params(self) -> dict[str, Any]:
        """Parameters with draws from a seed outside every measured interval, canonical."""
        made_by = generator(self.generator)
        draws = oracle(made_by, spec.parse_output(made_by, self.call), SEED, skip=self.skip)
        given = {"schema": spec.SCHEMA, "generator": self.generator, "calls": [self.call], "skip": self.skip}
        return spec.canonical(spec.parse(given | {"draws": list(islice(draws, DRAWS))}))


PHP_EXACT = "php mt_rand()"
CASES = [
    Case(PHP_EXACT, "php-mt_rand", {"kind": "exact"}),
    Case("php mt_rand(1, 1000)", "php-mt_rand", {"kind": "range", "min": 1, "max": 1000}),
    Case("php mt_rand(1, 1024)", "php-mt_rand", {"kind": "range", "min": 1, "max": 1024}),
    Case("php mt_rand(), skip 100", "php-mt_rand", {"kind": "exact"}, skip=100),
    Case("php mt_rand(), skip 300", "php-mt_rand", {"kind": "exact"}, skip=300),
    Case("java nextInt()", "java-random", {"kind": "int"}, solved=True),
    Case("java nextInt(1000)", "java-random", {"kind": "bound", "bound": 1000}, solved=True),
    Case("python random()", "python-random", {"kind": "random"}),
    Case("python randrange(1000)", "python-random", {"kind": "randrange", "stop": 1000}),
    Case("xorshift32", "xorshift32", {"kind": "exact"}, solved=True),
    Case("xorshift32 mod 1000", "xorshift32", {"kind": "mod", "modulus": 1000}, solved=True),
    Case("glibc rand() % 1000", "glibc-rand", {"kind": "mod", "modulus": 1000}),
    Case("go Intn(1000)", "go-rand", {"kind": "intn", "n": 1000}),
    Case("numpy RandomState.randint(1000)", "numpy-randomstate", {"kind": "below", "n": 1000}),
    Case("numpy PCG64 integers(1000)", "numpy-pcg64", {"kind": "below", "n": 1000}),
]
PUBLISHED: list[Row] = [
    {
        "search": f"php_mt_seed 4.0, {title}",
        "kernel M/s": figure,
        "worker M/s": None,
        "compile s": None,
        "source": source,
    }
    for title, figure, source in [
        ("exact, low", 96.0, "published, AVX-512"),
        ("exact, high", 105.0, "published, AVX-512"),
        ("10 outputs of range 57", 64.0, "published, AVX-512"),
    ]
]


class Kernel:
    """The bare search of a case by ``lanes``, on an interval of the size that takes about the wanted time."""

    def __init__(self, case: Case, seconds: float) -> None:
        began = time.process_time()
        offer = Lanes().offer(spec.parse(case.params()))
        if not isinstance(offer, Offer):
            raise SystemExit(f"{case.title}: {offer}")
        self._finder = offer.make()
        self.compile_s = time.process_time() - began
        self.run(PROBE)
        self.size = PROBE
        while (took := self.run(self.size)) < seconds / 4 and self.size < SEED - START:
            self.size = min(SEED - START, max(2 * self.size, int(self.size * seconds / max(took, seconds / 16))))

    def run(self, size: int) -> float:
        """CPU-seconds of one search."""
        began = time.process_time()
        found = self._finder.find(START, START + size)
        took = time.process_time() - began
        if found:
            raise SystemExit(f"{found} were found where nothing was planted: the kernel is wrong")
        return took


class Worker:
    """A warm worker as a process, opened for a case."""

    def __init__(self, case: Case) -> None:
        params = case.params()
        command = [sys.executable, "-m", "hostler.workloads.sieve", "worker"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._ask({"type": "open", "digest": spec.digest(params), "params": params}, "opened")

    def run(self, size: int) -> float:
        """CPU-seconds of one chunk, by the process's own account in clock ticks."""
        began = self._cpu_s()
        self._ask({"type": "chunk", "id": "bench", "start": START, "stop": START + size}, "done")
        return self._cpu_s() - began

    def close(self) -> None:
        """End the worker by the end of its input."""
        self._process.communicate()

    def _ask(self, request: dict[str, Any], until: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if (answer := json.loads(line))["type"] == until:
                return
            if answer["type"] == "failed":
                raise SystemExit(f"the worker refused: {answer['error']}")
        raise SystemExit("the worker ended without an answer")

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def measured(cases: list[Case], seconds: float) -> Iterator[Row]:
    """A row per case: the best round of the bare kernel and of the worker, taken in turn."""
    for case in cases:
        kernel, worker = Kernel(case, seconds), None if case.solved else Worker(case)
        bare, through = [], []
        if worker:
            worker.run(kernel.size)
        for _ in range(ROUNDS):
            bare.append(kernel.run(kernel.size))
            through += [worker.run(kernel.size)] if worker else []
        if worker:
            worker.close()
        yield {
            "search": case.title,
            "kernel M/s": kernel.size / min(bare) / 1e6,
            "worker M/s": kernel.size / min(through) / 1e6 if through else None,
            "compile s": kernel.compile_s,
            "source": "measured",
        }


def whole_rows(whole: Comparison) -> list[Row]:
    """The sweep per CPU-second and by the clock, and what of that a sweep of almost nothing costs."""
    title = f"{PHP_EXACT}, 2^{whole.seeds.bit_length() - 1}"
    sides = [
        ("CPU-s", whole.bare.cpu_s, whole.whole.cpu_s, whole.start.cpu_s),
        ("s by the clock", whole.bare.wall_s, whole.whole.wall_s, whole.start.wall_s),
    ]
    return [
        {
            "whole sweep": title,
            "per": unit,
            "bare": bare,
            "hostler up": through,
            "of it start and end": start,
            "bare M/s": whole.seeds / bare / 1e6,
            "hostler up M/s": whole.seeds / through / 1e6,
            "share %": 100 * bare / through,
        }
        for unit, bare, through, start in sides
    ]


def bars(whole: Comparison, quick: bool) -> list[Bar]:
    """What the whole product leaves over of the bare kernel."""
    share = 100 * whole.bare.cpu_s / whole.whole.cpu_s
    name = "seeds per CPU-second of a whole sweep, % of the bare kernel's"
    if quick:
        return [Bar(name, None, WHOLE_BAR, ">=", f"2^28 seeds are too few to tell; here {share:.1f}")]
    return [Bar(name, share, WHOLE_BAR, ">=")]


def main() -> None:
    """Measure, print, write."""
    options = arguments(__doc__)
    rows = list(measured(CASES, QUICK_S if options.quick else KERNEL_S))
    by_method, method_bars = sieve_methods.measured(options.quick)
    params = next(case for case in CASES if case.title == PHP_EXACT).params()
    whole = compare(params, 1 << 28 if options.quick else 1 << 32, SEED, 1 if options.quick else WHOLE_ROUNDS)
    shown = [*rows, *PUBLISHED, *by_method, *whole_rows(whole)]
    report("sieve", shown, [*method_bars, *bars(whole, options.quick)], options.json)


if __name__ == "__main__":
    main()
