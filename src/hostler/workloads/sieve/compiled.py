"""The one door to numba, which has no types: everything behind it is annotated as if it were plain Python."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """A helper of kernels: compiled together with each kernel that calls it."""
    return cast(F, numba.njit(function, nogil=True))


def kernel(function: F, signature: str) -> F:
    """``function`` compiled now for exactly this signature, without the GIL, or loaded from numba's cache.

    The cache is where ``NUMBA_CACHE_DIR`` says, by default beside the source file.
    """
    return cast(F, numba.njit(signature, nogil=True, cache=True)(function))
