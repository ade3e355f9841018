"""Batches of function calls: sweeps of `hostler.Executor`, whose items are the calls (docs/decisions/0034).

The client makes them, and lists of jobs name them by their own word; so this module imports nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

FOLDER = "hostler-calls"
"""Folder of the batch, in the folder that its workers start in."""
WORKER = f"{FOLDER}/worker.py"


def is_batch(worker: Sequence[str]) -> bool:
    """Whether a sweep with this worker command is a batch of function calls."""
    return bool(worker) and worker[-1] == WORKER
