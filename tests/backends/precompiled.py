"""Our agent, compiled once for all tests: with this beside its zipapp, it starts in less than half the time."""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path

from hostler.agent import compiled
from hostler.agent.build import build_zipapp
from hostler.backends.slurm.opening import agent_name


@cache
def _made() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        zipapp = Path(folder) / "agent.pyz"
        build_zipapp(zipapp)
        compiled.leave(str(zipapp))
        return beside(zipapp).read_bytes()


def beside(zipapp: Path) -> Path:
    """Where the zipapp looks for it."""
    return zipapp.with_name(f"{zipapp.name}.{sys.implementation.cache_tag}")


def precompile(folder: Path, name: str | None = None) -> None:
    """Put it where a zipapp of ours will come to lie, under the name of its hash or another one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside(folder / (name or agent_name())).write_bytes(_made())
