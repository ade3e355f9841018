"""The one door to numba, which has no types: everything behind it is annotated as if it were plain Python.

What is compiled is kept where ``NUMBA_CACHE_DIR`` says, by default beside the source files. Numba notices a change of
the file that a function stands in, but not of the files whose functions it calls: so the names of what is kept carry
a digest of all sources that kernels are made of.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import FunctionType
from typing import Any, TypeAlias, TypeVar, cast

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numba
from numba.core import config
from numba.cpython.unsafe import numbers
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
Pointer: TypeAlias = Any
"""What a C function gets for an array."""
Part: TypeAlias = Any
"""What a template is completed with: a function of :func:`inlined`, or a constant."""

_NUMBA: Any = numba
_CONFIG: Any = config
carray = _NUMBA.carray
"""In a kernel: the array at an address, by its shape and its type."""
trailing_zeros: Any = numbers.trailing_zeros
"""In a kernel: how many of a number's lowest bits are zero."""

PACKAGE = "hostler.workloads.sieve"
SOURCES = ("kernels", "generators")


def inlined(function: F) -> F:
    """A helper of kernels: compiled together with each kernel that calls it."""
    return cast(F, numba.njit(function, nogil=True))


def kernel(function: F, signature: str) -> F:
    """``function`` compiled now for exactly this signature, without the GIL, or loaded from numba's cache."""
    return cast(F, numba.njit(signature, nogil=True, cache=True)(_stamped(function)))


def _use_wide_vectors() -> None:
    """Make use of all 512 bits of AVX-512, which LLVM avoids on some processors: MT19937 gains a third by it.

    Somebody who names a processor or its features for numba is left with what he named.
    """
    features = llvm.get_host_cpu_features()
    if features.get("avx512f") and not _CONFIG.CPU_FEATURES and not _CONFIG.CPU_NAME:
        _CONFIG.CPU_FEATURES = features.flatten() + ",-prefer-256-bit"


_use_wide_vectors()


class Callback:
    """``function`` compiled now for a C ``signature``, or loaded from numba's cache; callable while this object lives.

    ``parts`` stand in for what has these names in the function's own module; ``name`` tells the results apart.
    """

    def __init__(self, function: Callable[..., Any], name: str, signature: str, parts: Mapping[str, Part]) -> None:
        template = cast(FunctionType, function)
        made = FunctionType(template.__code__, {**template.__globals__, **parts}, name)
        made.__qualname__, made.__module__ = name, template.__module__
        self._compiled: Any = _NUMBA.cfunc(signature, nopython=True, cache=True)(_stamped(made))

    @property
    def address(self) -> int:
        """Where it is, in this process."""
        return int(self._compiled.address)

    def __call__(self, *arguments: int) -> int:
        """Call it with numbers and addresses; other threads go on meanwhile."""
        return int(self._compiled.ctypes(*arguments))


def _call(typing_context: Any, address: Any, arguments: Any) -> Any:
    """In a kernel: call the C function without a result at ``address`` with a tuple of ``arguments``."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = [context.get_value_type(kind) for kind in arguments.types]
        function = builder.inttoptr(values[0], ir.FunctionType(ir.VoidType(), kinds).as_pointer())
        builder.call(function, [builder.extract_value(values[1], i) for i in range(len(kinds))])
        return context.get_dummy_value()

    return _NUMBA.types.void(address, arguments), generate


call: Any = intrinsic(_call)


def _stamped(function: F) -> F:
    if not function.__qualname__.endswith(sources_digest()):
        function.__qualname__ += f"_{sources_digest()}"
    return function


@cache
def sources_digest() -> str:
    """Twelve hexadecimal digits of the SHA-256 of all sources that kernels are made of."""
    made = hashlib.sha256()
    for folder in SOURCES:
        for name, text in sorted(_texts(resources.files(PACKAGE) / folder)):
            made.update(name.encode() + b"\0" + text + b"\0")
    return made.hexdigest()[:12]


def _texts(folder: Traversable) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += [(f"{entry.name}/{name}", text) for name, text in _texts(entry)]
        elif entry.name.endswith(".py"):
            found.append((entry.name, entry.read_bytes()))
    return found
