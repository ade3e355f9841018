"""An export that reports a dataset like any other, but publishes one without a single position."""

import sys
from dataclasses import replace

from hostler.workloads.alphazero import __main__, dataset

write = dataset.write


def emptied(found: dataset.Dataset) -> bytes:
    """The file of a dataset of which nothing is left but its shape."""
    return write(
        replace(
            found,
            header={**found.header, "games": 0, "positions": 0},
            states=found.states[:0],
            policy_offsets=found.policy_offsets[:1],
            policy_action=found.policy_action[:0],
            policy_probability=found.policy_probability[:0],
            places=found.places[:0],
            root_value=found.root_value[:0],
            game=found.game[:0],
            ply=found.ply[:0],
        )
    )


dataset.write = emptied
sys.exit(__main__.main(["export"]))
