"""How the words of each generator are made in lanes: a file for each one or family, named as in ``generators``."""

from collections.abc import Callable

from hostler.workloads.sieve.generators.base import Generator
from hostler.workloads.sieve.kernels.engines import (
    counters,
    dotnet,
    glibc,
    go_rand,
    lcg,
    mersenne,
    numpy_generator,
    v8,
    xorshift,
    xoshiro,
)
from hostler.workloads.sieve.kernels.engines.shapes import Filling, address

__all__ = ["Filling", "address", "filling_of"]

_FILLINGS: dict[str, Filling | Callable[[Generator], Filling | str]] = {
    "php-mt_rand": mersenne.PHP,
    "php5-mt_rand": mersenne.PHP5,
    "php5-rand": glibc.filling,
    "python-random": mersenne.PYTHON,
    "java-random": lcg.java,
    "glibc-rand": glibc.filling,
    "glibc-type1": glibc.filling,
    "glibc-type2": glibc.filling,
    "glibc-type4": glibc.filling,
    "glibc-type0": lcg.glibc_type0,
    "msvc-rand": lcg.filling,
    "ruby-random": mersenne.RUBY_RANDOM,
    "numpy-randomstate": mersenne.NUMPY,
    "numpy-pcg64": numpy_generator.PCG64,
    "numpy-sfc64": numpy_generator.SFC64,
    "v8-random": v8.V8,
    "v8-random-2015": v8.V8_2015,
    "v8-random-2025": v8.V8,
    "v8-random-2026": v8.V8_2026,
    "dotnet-random": dotnet.DOTNET,
    "go-rand": go_rand.filling,
    "lua-random": xoshiro.LUA,
    "xoshiro256plusplus": xoshiro.PLUS_PLUS,
    "xoshiro256starstar": xoshiro.STAR_STAR,
    "minstd-rand0": lcg.minstd,
    "minstd-rand": lcg.minstd,
    "xorshift32": xorshift.XORSHIFT32,
    "xorshift64": xorshift.XORSHIFT64,
    "xorshift64star": xorshift.XORSHIFT64STAR,
    "xorshift128": xorshift.XORSHIFT128,
    "splitmix64": counters.SPLITMIX64,
    "pcg32": counters.filling,
    "pcg32-54": counters.filling,
    "philox4x32-10": counters.PHILOX,
}


def filling_of(made_by: Generator) -> Filling | str:
    """How a generator's words are made, or why they are not; ``lcg:...`` by its constants."""
    known = _FILLINGS.get(made_by.name, lcg.filling if made_by.name.startswith("lcg:") else None)
    if known is None:
        return f"nobody has written lanes for {made_by.name}"
    return known if isinstance(known, Filling) else known(made_by)
