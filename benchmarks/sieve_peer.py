"""The method that php_mt_seed publishes, in C (peers/php_seeds.c), compiled here; for sieve_methods.py."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "peers" / "php_seeds.c"
FLAGS = ("-O3", "-march=native")


@dataclass(frozen=True, slots=True)
class PhpPeer:
    """The program, compiled."""

    program: Path

    def search(self, start: int, count: int, size: int, draws: Sequence[int]) -> tuple[float, list[int]]:
        """CPU-seconds, and the seeds of ``[start, start + count)`` that make these ``mt_rand(0, size - 1)``.

        ``size`` 0 means ``mt_rand()``.
        """
        command = [str(self.program), *map(str, (start, count, size, *draws))]
        taken, *seeds = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return float(taken), [int(seed) for seed in seeds]


def php_peer(folder: Path) -> PhpPeer | None:
    """The peer, its program in ``folder``; ``None`` where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    program = folder / "php_seeds"
    subprocess.run([compiler, *FLAGS, "-o", str(program), str(SOURCE)], check=True)
    return PhpPeer(program)
