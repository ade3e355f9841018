"""One target under atheris: `python -m tests.fuzz.driver NAME CORPUS KEPT SECONDS`. Needs the extra `fuzz`.

Its own mutations and ours take turns: only ours know what JSON is. What breaks the target is written below KEPT.
"""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path

import atheris

LONGEST = 1 << 16
HANG_S = 25
MEMORY_MB = 2048


def main(name: str, corpus: str, kept: str, seconds: str) -> None:
    """Fuzz until the time is over, or something breaks."""
    with atheris.instrument_imports(include=["hostler"], enable_loader_override=False):
        module = importlib.import_module(f"tests.fuzz.{name}")
    from .base import spoilt

    target = module.TARGET
    for number, data in enumerate(target.seeds):
        Path(corpus, f"seed-{number:03d}").write_bytes(data)

    def mutated(data: bytes, max_size: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.5:
            return bytes(atheris.Mutate(data, max_size))
        return spoilt(chance, data, target.seeds)[:max_size]

    atheris.Setup(
        [
            name,
            corpus,
            f"-artifact_prefix={kept}/",
            f"-max_total_time={seconds}",
            f"-max_len={LONGEST}",
            f"-timeout={HANG_S}",
            f"-rss_limit_mb={MEMORY_MB}",
            "-print_final_stats=1",
        ],
        target.run,
        custom_mutator=mutated,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
