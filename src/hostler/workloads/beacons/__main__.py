"""Look at a board: ``python -m hostler.workloads.beacons hex8``."""

import argparse
import sys
from collections.abc import Sequence

from hostler.workloads.beacons.configs import BOARDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the empty board, its size and its beacons; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hostler.workloads.beacons", description="Show a board of Beacons.")
    parser.add_argument("board", choices=BOARDS)
    name = parser.parse_args(arguments).board
    import numpy as np

    from hostler.workloads.beacons.boards import board
    from hostler.workloads.beacons.render import board_text

    shown = board(name)
    cells = len(shown.graph)
    print(f"{name}: {cells} cells, {shown.beacons.sum()} beacons (*), {len(shown.symmetries)} symmetries\n")
    print(board_text(shown, np.zeros(cells, np.int8)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
