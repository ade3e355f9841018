"""Memory that processes share: a policy is read whole, in whatever order what is written of it comes to be seen."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

import numpy as np
import pytest

from hostler.workloads.gameboy import shared
from hostler.workloads.gameboy.shared import WHOLE, Array, Opened, newest, publish, write

WEIGHTS = {"body": (64, 32), "choice": (7,)}
ROUNDS = 1000


def weights(version: int) -> dict[str, Array]:
    """Those of a version: each of them tells it."""
    return {name: np.full(shape, version, np.float32) for name, shape in WEIGHTS.items()}


@pytest.fixture
def policy() -> Iterator[Opened]:
    made = shared.made(shared.weight_shapes(weights(0)), shared.COPIES)
    for each in made.copies:
        write(each, weights(4), 4)
    yield made
    made.close()


def test_the_newest_is_read(policy: Opened) -> None:
    for version in (5, 6, 9):
        publish(policy, weights(version), version)
        found, told = newest(policy)
        assert told == version
        assert all((each == version).all() for each in found.values())


@pytest.mark.parametrize("seen", ["version", "weights", "some", "sum"])
def test_what_is_seen_of_one_in_part_is_not_taken(policy: Opened, seen: str) -> None:
    """Its version before its weights, its weights before its version, some of each: the one before is taken."""
    publish(policy, weights(5), 5)
    copy = policy.copies[6 % shared.COPIES]
    if seen == "version":
        copy[WHOLE][0] = 6
    elif seen == "weights":
        copy["body"][...] = 6
    elif seen == "some":
        copy[WHOLE][0] = 6
        copy["choice"][:3] = 6
    else:
        write(copy, weights(6), 6)
        copy["body"][17, 5] = 4
    found, told = newest(policy)
    assert told == 5
    assert all((each == 5).all() for each in found.values())


@pytest.mark.long
def test_who_reads_while_others_write_never_sees_two_in_one(policy: Opened) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    reader = context.Process(target=_read, args=(policy.block, theirs), daemon=True)
    reader.start()
    assert ours.recv() == "reading"
    for version in range(5, 5 + ROUNDS):
        publish(policy, weights(version), version)
    ours.send("enough")
    torn, backwards, last = ours.recv()
    reader.join()
    assert (torn, backwards) == (0, 0)
    assert last == 4 + ROUNDS


def _read(block: shared.Block, pipe: Connection) -> None:
    policy, torn, backwards, last = shared.opened(block), 0, 0, 0
    pipe.send("reading")
    is_over = False
    while not is_over:
        is_over = pipe.poll()
        found, told = newest(policy)
        torn += any((each != told).any() for each in found.values())
        backwards += told < last - 1
        last = told
    pipe.send((torn, backwards, last))
    policy.close()
