"""Pytest plugin: where several processes need a kernel at once, one of them compiles it, and the others load it.

Numba keeps a compiled kernel in its cache only after the compilation. Where the cache is cold, each process of xdist
would compile the same kernels at the same moment: those of Beacons and of the search alone cost 28 CPU-seconds in each
process. Numba is not imported by this module: most sessions do without it.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

# Where numba's compilers for Python functions and for C callbacks stand.
COMPILERS = {"numba.core.dispatcher": "Dispatcher", "numba.core.ccallback": "CFunc"}
GUARDED = "_is_guarded"


def pytest_configure() -> None:
    """Guard the compilers: now if numba is imported already, else as soon as it is."""
    for name in COMPILERS:
        if name in sys.modules:
            _guard(sys.modules[name])
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the modules of the compilers, which are guarded when they have been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname in COMPILERS else None
        if spec is not None and spec.loader is not None:
            _guard_when_executed(spec.loader)
        return spec


def _guard_when_executed(loader: Loader) -> None:
    execute = loader.exec_module

    def execute_and_guard(module: ModuleType) -> None:
        execute(module)
        _guard(module)

    setattr(loader, "exec_module", execute_and_guard)  # noqa: B010 - an instance's own, which types know nothing of


def _guard(module: ModuleType) -> None:
    compiler = getattr(module, COMPILERS[module.__name__])
    if not hasattr(compiler.compile, GUARDED):
        compiler.compile = _one_at_a_time(compiler.compile)


def _one_at_a_time(compile_: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compile_)
    def compile_alone(self: Any, *arguments: Any) -> Any:
        with _alone(getattr(self, "_cache", None)):
            return compile_(self, *arguments)

    setattr(compile_alone, GUARDED, True)
    return compile_alone


@contextmanager
def _alone(cache: Any) -> Iterator[None]:
    """No other process compiles what this cache is for; whoever waited finds it there."""
    folder, base = getattr(cache, "_cache_path", None), getattr(getattr(cache, "_impl", None), "filename_base", None)
    if folder is None or base is None:  # it is not kept: helpers, which are compiled together with their kernel
        yield
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    with (Path(folder) / f"{base}.lock").open("w") as lock:
        # A lock of the process: a child that is forked meanwhile does not hold it, and the system lets go of it.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield
