"""The generators the sieve knows: one file each, with its reference and a slow oracle.

Nothing here imports numpy or numba: the controller validates parameters on machines that have neither.
"""

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators.base import Generator, Output, Rule, oracle
from hostler.workloads.sieve.generators.java_random import JAVA_RANDOM
from hostler.workloads.sieve.generators.php_mt_rand import PHP_MT_RAND
from hostler.workloads.sieve.generators.python_random import PYTHON_RANDOM
from hostler.workloads.sieve.generators.xorshift32 import XORSHIFT32

__all__ = ["GENERATORS", "Generator", "Output", "Rule", "generator", "oracle"]

GENERATORS: dict[str, Generator] = {g.name: g for g in (PHP_MT_RAND, JAVA_RANDOM, PYTHON_RANDOM, XORSHIFT32)}


def generator(name: object) -> Generator:
    """The generator of this name; :class:`SpecError` lists the known ones if there is none."""
    if isinstance(name, str) and name in GENERATORS:
        return GENERATORS[name]
    raise SpecError(f"generator {name!r} is not known; choose one of {', '.join(GENERATORS)}")
