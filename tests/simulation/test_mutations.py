"""The campaign proves itself: bugs are planted one by one, and worlds played until one of them fails.

By default only those that a few worlds find; `make mutations` hunts all, each in a thousand worlds at most
(`MUTATION_SEEDS`), and prints how soon each was found, and by which invariant.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.again import main
from tests.simulation.hunting import hunt
from tests.simulation.mutations import MUTATIONS

MOST = int(os.environ.get("MUTATION_SEEDS", "0"))
QUICK = 10
"""As many worlds find these, at most."""
CHEAP = (
    "epoch-not-counted-up",
    "fsync-removed",
    "retry-after-a-lost-answer-writes-twice",
    "lost-answer-taken-for-success",
    "standby-does-not-wait",
    "retry-after-a-fence-goes-on",
    "commands-before-commit",
    "snapshot-newer-than-the-journal",
    "agent-accepts-a-launch-twice",
    "acknowledged-before-it-is-written",
    "facts-dropped-when-reordered",
    "hash-not-compared",
    "told-before-it-is-verified",
    "cleared-before-it-was-fetched",
    "ledger-counts-twice",
    "replay-skips-a-kind-of-event",
    "replay-forgets-refusals",
)


@pytest.mark.parametrize("mutation", MUTATIONS if MOST else CHEAP)
def test_a_planted_bug_is_found(mutation: str) -> None:
    found = hunt(mutation, MOST or QUICK)
    assert found is not None, f"{mutation} survives {MOST or QUICK} worlds"
    print(f"{mutation:44} | {found.seeds:5} | {found.cpu_s:7.1f} CPU-s | {found.what}")


def test_there_are_enough_of_them() -> None:
    assert len(MUTATIONS) >= 20
    assert set(CHEAP) <= MUTATIONS.keys()
    assert all(plant.__doc__ for plant in MUTATIONS.values())


def test_a_failing_world_is_played_again_by_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["0", "--quiet"]) == 0
    assert "seed 0: all invariants hold" in capsys.readouterr().out
    assert main(["0", "--mutation", "commands-before-commit"]) == 1
    told = capsys.readouterr().out
    assert "what is done is in the journal before" in told
    assert "begins epoch 1" in told
