"""The one door to numba, which has no types: everything behind it is annotated as if it were plain Python."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """A helper of kernels: compiled together with each kernel that calls it."""
    return cast(F, numba.njit(function, nogil=True, error_model="numpy"))


def kernel(signature: str) -> Callable[[F], F]:
    """Compile the function now for exactly this signature, without the GIL, or load it from numba's cache.

    The cache is where `NUMBA_CACHE_DIR` says, by default beside the source file.
    """

    def compiled(function: F) -> F:
        return cast(F, numba.njit(signature, nogil=True, cache=True, error_model="numpy")(function))

    return compiled
