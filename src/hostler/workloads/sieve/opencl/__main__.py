"""``python -m hostler.workloads.sieve.opencl``: the device that a search would take, tested and measured.

Searches the same questions on every device, seeds planted by the oracle, each for about a second; needs no fleet.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import SieveError
from hostler.workloads.sieve.generators import generator, oracle
from hostler.workloads.sieve.methods.base import Finder, Offer
from hostler.workloads.sieve.methods.opencl import OpenCl
from hostler.workloads.sieve.opencl.devices import CHOICES, Device, DeviceFailed, device_for
from hostler.workloads.sieve.spec import Spec

SECONDS = 1.0
LARGEST = 1 << 38
THOUSAND = {"kind": "mod", "modulus": 1000}
QUESTIONS: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("php-mt_rand", {"kind": "exact"}, 2),
    ("php-mt_rand", {"kind": "range", "min": 1, "max": 57}, 10),
    ("python-random", {"kind": "randrange", "stop": 1000}, 10),
    ("java-random", {"kind": "bound", "bound": 1000}, 8),
    ("xorshift32", THOUSAND, 6),
    ("glibc-rand", THOUSAND, 8),
    ("dotnet-random", {"kind": "below", "n": 1000}, 8),
    ("go-rand", {"kind": "intn", "n": 1000}, 8),
    ("v8-random", {"kind": "floor", "n": 1000}, 8),
    ("numpy-pcg64", {"kind": "below", "n": 1000}, 8),
    ("lua-random", {"kind": "below", "n": 1000}, 8),
    ("pcg32", THOUSAND, 8),
    ("philox4x32-10", THOUSAND, 8),
    ("lcg:1664525,1013904223,4294967296,0", THOUSAND, 8),
)


def main() -> int:
    """Print a line for each question; the exit status is 1 where there is no device, or one that computes wrongly."""
    parser = argparse.ArgumentParser(prog="python -m hostler.workloads.sieve.opencl", description=__doc__)
    parser.add_argument("--device", choices=CHOICES[:2], help="default: HOSTLER_SIEVE_OPENCL, or gpu")
    choice = parser.parse_args().device
    device = device_for(choice, os.environ)
    if not isinstance(device, Device):
        print(f"sieve: {device}", file=sys.stderr)
        return 1
    print(f"{device}, {device.units} units at {device.megahertz} MHz")
    try:
        for line in _lines(OpenCl(choice)):
            print(line, flush=True)
    except SieveError as error:
        print(f"sieve: {error}", file=sys.stderr)
        return 1
    return 0


def _lines(method: OpenCl) -> Iterator[str]:
    for name, call, count in QUESTIONS:
        asked, seed = _planted(name, call, count)
        offer = method.offer(asked)
        if not isinstance(offer, Offer):
            yield f"{name}: {offer}"
            continue
        began = time.perf_counter()
        finder = offer.make()
        ready = time.perf_counter() - began
        speed, found = _measured(finder, asked, seed)
        shown = " ".join(str(value) for value in call.values())
        yield f"{name:36} {shown:16} {speed / 1e6:12.1f} M seeds/s   ready in {ready:.1f} s   {found}"


def _planted(name: str, call: dict[str, Any], count: int) -> tuple[Spec, int]:
    made_by = generator(name)
    seed = made_by.seeds // 3
    draws = list(islice(oracle(made_by, spec.parse_output(made_by, call), seed), count))
    return spec.parse({"schema": spec.SCHEMA, "generator": name, "calls": [call], "draws": draws}), seed


def _measured(finder: Finder, asked: Spec, seed: int) -> tuple[float, str]:
    """Seeds a second, over an interval around the planted seed that grows until it takes long enough."""
    size = 1 << 16
    while True:
        start = max(0, seed - size // 2)
        stop = min(asked.size, start + size)
        began = time.perf_counter()
        found = finder.find(start, stop)
        took = time.perf_counter() - began
        if took >= SECONDS / 2 or size >= min(LARGEST, 2 * asked.size):
            if seed not in found:
                raise DeviceFailed(f"seed {seed} of {asked.generator.name} is missed; the device computes wrongly")
            return (stop - start) / took, f"found, {len(found)} candidates"
        size = int(size * min(8.0, max(2.0, SECONDS / max(took, 1e-3))))


if __name__ == "__main__":
    sys.exit(main())
