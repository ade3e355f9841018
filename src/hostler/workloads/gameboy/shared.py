"""Memory that processes of one machine share: fragments on their way to the learner, and the newest policy.

A worker writes a fragment where the learner reads it: nothing is packed, a message of some bytes says which place is
full, and once it was copied from there it is free again: what was written before a message was sent through the kernel
is seen by whoever has received it, on any processor. The policy lies there twice, one copy whole while the other is
rewritten, and nobody is told when: each copy has a sum of itself. Processors show each other what they write in an
order that is their own affair (ARM's more than x86's), and locks would be held by whoever was killed; what has another
sum than it tells is not whole yet, whatever came first.

The memory has no name: workers are handed it when they are begun, and it is gone with the last process that has it,
however that ends. It is also not counted among what `/dev/shm` may hold, which in containers is little.
"""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import prod
from mmap import mmap
from multiprocessing import reduction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.gameboy.fragments import Fragment
from hostler.workloads.gameboy.game import Screen

Array: TypeAlias = npt.NDArray[Any]
Shapes: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]
"""By name: the shape and type of an array."""

MEMORY = "hostler-fragments"
"""What it is called among the mappings of a process, for people."""
ALIGNED = 64
COPIES = 2
"""Of the policy."""


WHOLE = "whole"
"""Beside the weights of a policy: its version, and the sum of both."""
BETWEEN_S = 0.0005
"""Two looks at policies that are not whole yet."""


class Held:
    """Memory, by a descriptor of this process. Travels to a process that is being begun, and nowhere else.

    After `close` the descriptor is -1: no other file's number is used or closed by it.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Close the descriptor; a second call changes nothing."""
        if self.descriptor >= 0:
            closed, self.descriptor = self.descriptor, -1
            os.close(closed)

    def __reduce__(self) -> tuple[Any, ...]:
        return _handed, (reduction.DupFd(self.descriptor),)


@dataclass(frozen=True, slots=True)
class Block:
    """Arrays in shared memory: where it is, and what lies there. Travels as `Held` does."""

    held: Held
    shapes: Shapes
    copies: int

    @property
    def bytes(self) -> int:
        """Of one copy."""
        return sum(_aligned(prod(shape) * np.dtype(kind).itemsize) for shape, kind in self.shapes.values())


class Opened:
    """A block that this process sees."""

    def __init__(self, block: Block) -> None:
        if block.held.descriptor < 0:  # `mmap` takes -1 for memory that is shared with nobody
            raise ValueError("shared memory cannot be opened: it was closed")
        self.block = block
        self._memory = memory = mmap(block.held.descriptor, max(block.bytes * block.copies, 1))
        self.copies = [_arrays(block, memory, copy) for copy in range(block.copies)]

    def close(self) -> None:
        """See it no more; nobody may hold an array of it. A second call changes nothing."""
        self.copies = []
        self._memory.close()
        self.block.held.close()


def made(shapes: Shapes, copies: int) -> Opened:
    """A new block, of zeros."""
    block = Block(Held(_nameless()), shapes, copies)
    os.ftruncate(block.held.descriptor, max(block.bytes * copies, 1))
    return Opened(block)


def opened(block: Block) -> Opened:
    """One that another process has made."""
    return Opened(block)


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
    """What a policy is made of, its version, and their sum."""
    return {WHOLE: ((2,), "i8"), **{name: (each.shape, each.dtype.str) for name, each in weights.items()}}


def publish(policy: Opened, weights: Mapping[str, Array], version: int) -> None:
    """Write a policy over the older one. Versions only grow."""
    write(policy.copies[version % COPIES], weights, version)


def write(copy: Mapping[str, Array], weights: Mapping[str, Array], version: int) -> None:
    """Write a policy over one that nobody needs."""
    for name, each in weights.items():
        copy[name][...] = each
    copy[WHOLE][...] = version, _sum(weights, version)


def newest(policy: Opened) -> tuple[dict[str, Array], int]:
    """The newest policy that is whole, and its version."""
    while True:
        for copy in sorted(policy.copies, key=lambda each: int(each[WHOLE][0]), reverse=True):
            version, told = map(int, copy[WHOLE])
            weights = {name: each.copy() for name, each in copy.items() if name != WHOLE}
            if _sum(weights, version) == told:  # else it is being rewritten, and the other one is whole
                return weights, version
        time.sleep(BETWEEN_S)  # both were, one after the other, while we read


def _sum(weights: Mapping[str, Array], version: int) -> int:
    total = zlib.crc32(version.to_bytes(8, "little", signed=True))
    for name in sorted(weights):
        total = zlib.crc32(np.ascontiguousarray(weights[name]).data, total)
    return total


def _nameless() -> int:
    """A descriptor of nothing yet."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(MEMORY)
    with tempfile.TemporaryFile() as file:  # where there is no such memory, a file without a name
        return os.dup(file.fileno())


def _handed(descriptor: Any) -> Held:
    return Held(descriptor.detach())


def _arrays(block: Block, memory: mmap, copy: int) -> dict[str, Array]:
    at, found = copy * block.bytes, {}
    for name, (shape, kind) in block.shapes.items():
        found[name] = np.ndarray(shape, np.dtype(kind), memory, at)
        at += _aligned(found[name].nbytes)
    return found


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
