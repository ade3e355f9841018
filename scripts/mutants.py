"""Plant defects in copies of Hostler, and play the tests that have to notice them: `make mutants`.

Prints each defect with what became of it. The exit status is 1 where one survives that `tests/mutants/equivalent.py`
does not list, and 2 where one does not fit the code or tests fail without it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.mutants.campaign import Campaign, Unfit  # noqa: E402 - found by the path above
from tests.mutants.drawing import GROUPS  # noqa: E402 - the same


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drawn", type=int, default=200, help="how many are drawn (default: 200)")
    parser.add_argument("--seed", type=int, default=29, help="what they are drawn by (default: 29)")
    parser.add_argument("--jobs", type=int, default=2, help="how many are played side by side (default: 2)")
    parser.add_argument("--only", default="", help="those whose names contain this")
    parser.add_argument("--group", default="", choices=["", *GROUPS], help="drawn ones of this group")
    parser.add_argument("--list", action="store_true", help="print them, and play none")
    parser.add_argument("--again", action="store_true", help="those that survived the last run")
    asked = parser.parse_args(arguments)
    campaign = Campaign(ROOT, drawn=asked.drawn, seed=asked.seed, only=asked.only, group=asked.group, again=asked.again)
    try:
        if asked.list:
            campaign.show()
            return 0
        return 1 if campaign.play(asked.jobs) else 0
    except Unfit as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
