"""The one door to numba, which has no types: everything behind it is annotated as if it were plain Python."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """A helper of kernels: compiled together with each kernel that calls it."""
    return cast(F, numba.njit(function, nogil=True, error_model="numpy"))


def kernel(signature: str) -> Callable[[F], F]:
    """Compile the function for exactly this signature, without the GIL, or load it from numba's cache.

    That is done at the first call: importing a module compiles none of its kernels. The cache is
    where `NUMBA_CACHE_DIR` says, by default beside the source file.
    """

    def deferred(function: F) -> F:
        compiled = cache(lambda: numba.njit(signature, nogil=True, cache=True, error_model="numpy")(function))

        @wraps(function)
        def call(*given: Any) -> Any:
            return compiled()(*given)

        return cast(F, call)

    return deferred
