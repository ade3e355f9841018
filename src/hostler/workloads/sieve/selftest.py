"""Whether this machine finds a seed that is known to be there: asked before a worker is trusted with a search.

The question is asked of draws that the plain oracle makes of a planted item, in the same pattern and by the same
method, for items at both ends of the range and within. A processor, a compiler or a kernel that computes wrongly would
lose true seeds in silence; it ends the worker instead. (``opencl`` has a test of its own, of all that its device says.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hostler.workloads.sieve.errors import SieveError, TooManyHits
from hostler.workloads.sieve.generators.base import stream
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.choosing import offer_of
from hostler.workloads.sieve.spec import ENDS, SEEDS, Spec

AROUND = 300
"""So many items on each side of a planted one are searched: more than a block of any kernel has lanes, once in two."""
MOST_S = 0.5
"""CPU-seconds that one planted item may cost by the method's own account; dearer ones are not asked."""
MOST_OUTPUTS = 20_000
MOST_DRAWS = 256
ELSEWHERE = frozenset({"opencl"})


def check(spec: Spec, method: str) -> int:
    """Raise :class:`SieveError` unless ``method`` finds planted items; how many were asked.

    None where nothing can be planted: items that are ends, draws far from the item, methods that would take too long.
    """
    if method in ELSEWHERE or spec.items == ENDS or _outputs(spec) > MOST_OUTPUTS:
        return 0
    return sum(_is_found(spec, method, item) for item in sorted(set(_items(spec.size))))


def _items(size: int) -> Iterator[int]:
    """The first, the last, one within, and one beyond 32 bits where there is one."""
    yield from (0, size - 1, size * 5 // 8)
    if size > 1 << 33:
        yield (1 << 32) + 1


def _outputs(spec: Spec) -> int:
    """How many outputs the oracle has to make."""
    return spec.skip[0] * len(spec.calls) + min(len(spec.draws), _compared(spec)) * (spec.gap[0] + 1)


def _is_found(spec: Spec, method: str, item: int) -> bool:
    """Whether the item was asked for; it is found then, or this raises."""
    planted = _planted(spec, item)
    offer = offer_of(method, planted)
    start, stop = max(0, item - AROUND), min(spec.size, item + AROUND)
    # What made a method apply to the draws may not hold for these: a state of nothing but zeros decides no bits.
    if not isinstance(offer, Offer) or offer.cpu_s(stop - start) > MOST_S:
        return False
    try:
        found = offer.make().find(start, stop)
    except TooManyHits:
        return False
    if item not in found:
        raise SieveError(
            f"this machine computes wrongly: by {method}, {spec.generator.name} does not give seed {item} for the "
            "draws that the oracle made of it; its processor, or what compiled the search, is broken: search elsewhere"
        )
    return True


def _planted(spec: Spec, item: int) -> Spec:
    """The question about what the item makes in the first alignment, in the pattern of the known draws."""
    engine = spec.generator.engine
    words = spec.calls[0].feed(stream(engine, engine.seed(item) if spec.items == SEEDS else item))
    for _ in range(spec.skip[0]):
        for call in spec.calls:
            call.take(words)
    made: list[int | None] = []
    for i, draw in enumerate(spec.draws[: _compared(spec)]):
        for _ in range(spec.gap[0]):
            spec.calls[0].take(words)
        output = spec.call(i).take(words)
        made.append(None if draw is None else output)
    return replace(spec, draws=tuple(made))


def _compared(spec: Spec) -> int:
    """How many draws are planted: enough of them, one known draw at least."""
    first = next(i for i, draw in enumerate(spec.draws) if draw is not None)
    return max(MOST_DRAWS, first + 1)
