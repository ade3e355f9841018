"""Memory that processes of one machine share: fragments on their way to the learner, and the newest policy.

A worker writes a fragment where the learner reads it: nothing is packed, a message of some bytes says which place is
full, and once it was copied from there it is free again. The policy lies there twice: one copy is whole while the other
is rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import prod
from multiprocessing.shared_memory import SharedMemory
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.gameboy.fragments import Fragment
from hostler.workloads.gameboy.game import Screen

Array: TypeAlias = npt.NDArray[Any]
Shapes: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]
"""By name: the shape and type of an array."""

ALIGNED = 64
COPIES = 2
"""Of the policy."""


@dataclass(frozen=True, slots=True)
class Block:
    """Arrays in shared memory: what it is called, and what lies there. Travels to other processes."""

    name: str
    shapes: Shapes
    copies: int

    @property
    def bytes(self) -> int:
        """Of one copy."""
        return sum(_aligned(prod(shape) * np.dtype(kind).itemsize) for shape, kind in self.shapes.values())


class Opened:
    """A block that this process sees."""

    def __init__(self, block: Block, memory: SharedMemory) -> None:
        self.block = block
        self._memory = memory
        self.copies = [_arrays(block, memory, copy) for copy in range(block.copies)]

    def close(self) -> None:
        """See it no more; nobody may hold an array of it."""
        self.copies = []
        self._memory.close()

    def destroy(self) -> None:
        """The same, and nobody else will."""
        self.close()
        self._memory.unlink()


def made(shapes: Shapes, copies: int) -> Opened:
    """A new block, of zeros."""
    draft = Block("", shapes, copies)
    memory = SharedMemory(create=True, size=max(draft.bytes * copies, 1))
    return Opened(Block(memory.name, shapes, copies), memory)


def opened(block: Block) -> Opened:
    """One that another process has made."""
    return Opened(block, SharedMemory(block.name))


def fragment_shapes(steps: int, machines: int, features: int, screen: Screen | None) -> Shapes:
    """What a fragment is made of."""
    shape = (steps, machines)
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        "features": ((*shape, features), "f4"),
        "actions": (shape, "i1"),
        "chances": (shape, "f4"),
        "worths": (shape, "f4"),
        "rewards": (shape, "f4"),
        "over": (shape, "?"),
        "ahead": (shape, "f4"),
    }
    if screen is not None:
        shapes["screens"] = ((*shape, screen.height, screen.width), "u1")
    return shapes


def fragment_in(arrays: Mapping[str, Array], version: int = 0) -> Fragment:
    """A fragment whose arrays are these."""
    return Fragment(
        features=arrays["features"],
        screens=arrays.get("screens"),
        actions=arrays["actions"],
        chances=arrays["chances"],
        worths=arrays["worths"],
        rewards=arrays["rewards"],
        over=arrays["over"],
        ahead=arrays["ahead"],
        version=version,
    )


def copied(fragment: Fragment) -> Fragment:
    """The same, in memory of one's own."""
    values = {each.name: getattr(fragment, each.name) for each in fields(Fragment)}
    changes: dict[str, Any] = {name: each.copy() for name, each in values.items() if isinstance(each, np.ndarray)}
    return replace(fragment, **changes)


def weight_shapes(weights: Mapping[str, Array]) -> Shapes:
    """What a policy is made of, and its version."""
    return {"version": ((1,), "i8"), **{name: (each.shape, each.dtype.str) for name, each in weights.items()}}


def publish(policy: Opened, weights: Mapping[str, Array], version: int) -> None:
    """Write a policy over the older one. Versions only grow."""
    write(policy.copies[version % COPIES], weights, version)


def write(copy: Mapping[str, Array], weights: Mapping[str, Array], version: int) -> None:
    """Write a policy over one that nobody needs."""
    copy["version"][0] = -1
    for name, each in weights.items():
        copy[name][...] = each
    copy["version"][0] = version


def newest(policy: Opened) -> tuple[dict[str, Array], int]:
    """The newest policy that is whole, and its version."""
    while True:
        copy = max(policy.copies, key=lambda each: int(each["version"][0]))
        version = int(copy["version"][0])
        weights = {name: each.copy() for name, each in copy.items() if name != "version"}
        if int(copy["version"][0]) == version:  # else it was rewritten meanwhile, so there is a newer one
            return weights, version


def _arrays(block: Block, memory: SharedMemory, copy: int) -> dict[str, Array]:
    at, found = copy * block.bytes, {}
    for name, (shape, kind) in block.shapes.items():
        found[name] = np.ndarray(shape, np.dtype(kind), memory.buf, at)
        at += _aligned(found[name].nbytes)
    return found


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
