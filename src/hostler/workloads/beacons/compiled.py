"""The one door to numba, which has no types: everything behind it is annotated as if it were plain Python."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

import numba
from numba import types

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """A helper of kernels: compiled together with each kernel that calls it."""
    return cast(F, numba.njit(function, nogil=True))


def kernel(*arguments: Any) -> Callable[[F], F]:
    """Compile a function that returns nothing for exactly these arguments, without the GIL, or load it from the cache.

    That is done at the first call: importing a module compiles none of its kernels. The cache is
    where ``NUMBA_CACHE_DIR`` says, by default beside the source file. It notices a change of the kernel's own file
    only, so all helpers of a kernel belong there.
    """

    def deferred(function: F) -> F:
        compiled = cache(lambda: numba.njit(types.void(*arguments), nogil=True, cache=True)(function))

        @wraps(function)
        def call(*given: Any) -> None:
            compiled()(*given)

        return cast(F, call)

    return deferred


def reads(dtype: str, dimensions: int) -> Any:
    """The type of a C-contiguous array that is only read, which may be write-protected."""
    return types.Array(getattr(types, dtype), dimensions, "C", readonly=True)


def writes(dtype: str, dimensions: int) -> Any:
    """The type of a C-contiguous array that is written to."""
    return types.Array(getattr(types, dtype), dimensions, "C")


INT = types.int64
"""The type of a plain integer."""
