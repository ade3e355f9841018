"""The generators the sieve knows: one file each, or each close family, with its reference and a slow oracle.

Nothing here imports numpy or numba: the controller validates parameters on machines that have neither.
"""

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import lcg
from hostler.workloads.sieve.generators.base import Engine, Generator, Output, Rule, Structure, oracle
from hostler.workloads.sieve.generators.dotnet import DOTNET_RANDOM
from hostler.workloads.sieve.generators.glibc import GLIBC_RAND, GLIBC_TYPES
from hostler.workloads.sieve.generators.go_rand import GO_RAND
from hostler.workloads.sieve.generators.java_random import JAVA_RANDOM
from hostler.workloads.sieve.generators.numpy_generator import NUMPY_PCG64, NUMPY_SFC64
from hostler.workloads.sieve.generators.numpy_legacy import NUMPY_RANDOMSTATE
from hostler.workloads.sieve.generators.pcg32 import PCG32, PCG32_54
from hostler.workloads.sieve.generators.philox import PHILOX
from hostler.workloads.sieve.generators.php5 import PHP5_MT_RAND, PHP5_RAND
from hostler.workloads.sieve.generators.php_mt_rand import PHP_MT_RAND
from hostler.workloads.sieve.generators.python_random import PYTHON_RANDOM
from hostler.workloads.sieve.generators.ruby import RUBY_RANDOM
from hostler.workloads.sieve.generators.splitmix64 import SPLITMIX64
from hostler.workloads.sieve.generators.v8 import V8_RANDOM, V8_RANDOMS
from hostler.workloads.sieve.generators.xorshift import XORSHIFT64, XORSHIFT64STAR, XORSHIFT128
from hostler.workloads.sieve.generators.xorshift32 import XORSHIFT32
from hostler.workloads.sieve.generators.xoshiro import LUA_RANDOM, XOSHIRO_PLUS_PLUS, XOSHIRO_STAR_STAR

__all__ = [
    "ALIASES", "GENERATORS", "Engine", "Generator", "Output", "Rule", "Structure", "generator", "oracle",
]  # fmt: skip

GENERATORS: dict[str, Generator] = {
    made_by.name: made_by
    for made_by in (
        PHP_MT_RAND,
        PHP5_MT_RAND,
        PHP5_RAND,
        PYTHON_RANDOM,
        JAVA_RANDOM,
        GLIBC_RAND,
        *GLIBC_TYPES,
        lcg.MSVC_RAND,
        RUBY_RANDOM,
        NUMPY_RANDOMSTATE,
        NUMPY_PCG64,
        NUMPY_SFC64,
        V8_RANDOM,
        *V8_RANDOMS,
        DOTNET_RANDOM,
        GO_RAND,
        LUA_RANDOM,
        XORSHIFT32,
        XORSHIFT64,
        XORSHIFT64STAR,
        XORSHIFT128,
        XOSHIRO_PLUS_PLUS,
        XOSHIRO_STAR_STAR,
        SPLITMIX64,
        PCG32,
        PCG32_54,
        PHILOX,
        lcg.MINSTD_RAND0,
        lcg.MINSTD_RAND,
    )
}
"""By name; those with constants of their own (``lcg:...``) come from :func:`generator` alone."""

ALIASES: dict[str, str] = {alias: made_by.name for made_by in GENERATORS.values() for alias in made_by.aliases}
"""Other names, as :func:`generator` takes them."""


def generator(name: object) -> Generator:
    """The generator of this name or alias; :class:`SpecError` lists the known ones if there is none."""
    if isinstance(name, str) and name.startswith(lcg.PREFIX):
        return lcg.parse(name)
    if isinstance(name, str) and (known := GENERATORS.get(ALIASES.get(name, name))):
        return known
    raise SpecError(f"generator {name!r} is not known; choose one of {', '.join(GENERATORS)} or lcg:A,C,M,SHIFT")
