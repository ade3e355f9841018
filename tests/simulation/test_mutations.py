"""The campaign proves itself: bugs are planted one by one, and worlds played until one of them fails.

`make test` hunts those that a few worlds find, `make test-long` the others; `make mutations` hunts all, each in a
thousand worlds at most (`MUTATION_SEEDS`), and prints how soon each was found, and by which invariant.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.again import main
from tests.simulation.hunting import hunt
from tests.simulation.mutations import MUTATIONS

MOST = int(os.environ.get("MUTATION_SEEDS", "0"))
QUICK, LONG = 10, 200
"""Worlds in which each of the cheap bugs has to be found, and each of the others."""
CHEAP = {
    "epoch-not-counted-up": 0,
    "fsync-removed": 1,
    "retry-after-a-lost-answer-writes-twice": 1,
    "lost-answer-taken-for-success": 1,
    "standby-does-not-wait": 0,
    "retry-after-a-fence-goes-on": 0,
    "commands-before-commit": 0,
    "snapshot-newer-than-the-journal": 0,
    "agent-accepts-a-launch-twice": 3,
    "acknowledged-before-it-is-written": 0,
    "facts-dropped-when-reordered": 1,
    "hash-not-compared": 4,
    "told-before-it-is-verified": 4,
    "cleared-before-it-was-fetched": 0,
    "ledger-counts-twice": 0,
    "folders-of-sweeps-go-when-a-chunk-is-done": 0,
    "replay-skips-a-kind-of-event": 0,
    "replay-forgets-refusals": 0,
    "late-ends-counted-from-the-first": 0,
}
"""From which world on each of them is hunted: those before do not find it."""


OTHERS = sorted(MUTATIONS.keys() - set(CHEAP))


@pytest.mark.parametrize("mutation", [*CHEAP, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_a_planted_bug_is_found(mutation: str) -> None:
    most = MOST or (QUICK if mutation in CHEAP else LONG)
    found = hunt(mutation, most, 0 if MOST else CHEAP.get(mutation, 0))
    assert found is not None, f"{mutation} survives {most} worlds"
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
