"""Play one world with several controllers again: `python -m tests.simulation.again SEED [--mutation NAME]`.

It prints the world's story and what failed; exit status 1 where something did. `--quiet` leaves the story out.
"""

from __future__ import annotations

import argparse
import sys
import traceback

import pytest

from hostler.sim.cluster.proof import Broken
from tests.simulation.clusters import finish, made
from tests.simulation.mutations import MUTATIONS


def main(arguments: list[str]) -> int:
    """Play it; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.again", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="plant this bug before")
    parser.add_argument("--quiet", action="store_true", help="only what failed")
    given = parser.parse_args(arguments)
    with pytest.MonkeyPatch.context() as patch:
        if given.mutation is not None:
            MUTATIONS[given.mutation](patch)
        return again(given.seed, quiet=given.quiet)


def again(seed: int, *, quiet: bool) -> int:
    """Play a world and tell of it."""
    cluster, plan = made(seed, keep_story=not quiet)
    fault = None
    try:
        finish(cluster, plan)
    except Exception as error:  # noqa: BLE001  it is what is looked for
        fault = error
    if not quiet:
        print(cluster.troubles)
        print("\n".join(cluster.story))
    print(f"seed {seed}: {'all invariants hold' if fault is None else fault}, at {cluster.agenda.now:.3f} s")
    if fault is not None and not isinstance(fault, Broken):
        traceback.print_exception(fault)
    return int(fault is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
