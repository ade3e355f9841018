"""A command line where no package of an extra is installed: `python -m tests.cli.without_extras WORDS`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGES = """
apprise boto3 gguf gymnasium highspy jsonschema_rs lightkube matplotlib numba numpy openskill psycopg pyboy pyopencl ray
safetensors scipy torch xllamacpp
"""
EXTRAS = frozenset(PACKAGES.split())


class Without:
    """A finder of modules that finds none of these."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in EXTRAS:
            return None
        found: ModuleSpec | None = self._inner.find_spec(name, path, target)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


if __name__ == "__main__":
    sys.meta_path[:] = [Without(each) for each in sys.meta_path]
    from hostler.cli.main import run

    sys.exit(run(sys.argv[1:]))
