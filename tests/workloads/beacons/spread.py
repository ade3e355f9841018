"""The rule by which beacons were chosen, as a search through all symmetric sets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .oracle import neighbours

Orbit = list[int]
FAR = 99


def chosen(name: str, symmetries: NDArray[np.int32], count: int) -> set[int]:
    """The beacons by the rule: greatest least distance, then least greatest way to one, least sum of ways, first."""
    steps = distances(name)
    orbits = [
        sorted(orbit) for orbit in dict.fromkeys(frozenset(symmetries[:, cell].tolist()) for cell in range(len(steps)))
    ]
    ways = [steps[orbit].min(axis=0) for orbit in orbits]
    for least in range(int(steps.max()), 0, -1):
        fitting = list(_sets(orbits, steps, count, least))
        if fitting:
            best = min(fitting, key=lambda numbers: (*_cover([ways[at] for at in numbers]), numbers))
            return {cell for at in best for cell in orbits[at]}
    raise AssertionError(f"no set of {count} on {name}")


def distances(name: str) -> NDArray[np.int64]:
    """Steps between all cells, by breadth-first search."""
    near = neighbours(name)
    steps = np.full((len(near), len(near)), FAR)
    for start in range(len(near)):
        reached, front, step = {start}, {start}, 0
        while front:
            steps[start, list(front)] = step
            front = {cell for at in front for cell in near[at]} - reached
            reached |= front
            step += 1
    return steps


def _cover(ways: list[NDArray[np.int64]]) -> tuple[int, int]:
    nearest = np.minimum.reduce(ways)
    return int(nearest.max()), int(nearest.sum())


def _sets(orbits: list[Orbit], steps: NDArray[np.int64], count: int, least: int) -> Iterator[tuple[int, ...]]:
    """All sets of orbits with `count` cells of which no two are nearer than `least`, in lexicographic order."""
    apart = [[steps[np.ix_(one, other)] for other in orbits] for one in orbits]
    fits = [[bool((part[part > 0] >= least).all() and (i == j or part.min() > 0)) for j, part in enumerate(row)]
            for i, row in enumerate(apart)]  # fmt: skip

    def extend(taken: tuple[int, ...], first: int, left: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield taken
        for at in range(first, len(orbits)):
            if len(orbits[at]) <= left and fits[at][at] and all(fits[at][other] for other in taken):
                yield from extend((*taken, at), at + 1, left - len(orbits[at]))

    return extend((), 0, count)
