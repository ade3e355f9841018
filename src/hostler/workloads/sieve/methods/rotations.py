"""When ``y0 + factor * s`` modulo ``modulus`` falls into a window ``[0, size)``, as ``s`` counts up.

The numbers ``s`` that do are apart by one of three distances, of which the third is the sum of the others (the
three-gap theorem: V. T. Sós, 1958; S. Świerczkowski, 1958). Which of them is next is seen from the place within the
window.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gaps:
    """The next number after one at place ``y`` is ``up_steps`` further and ``up`` higher, if that is below ``size``;
    else ``down_steps`` further and ``down`` lower, if that is 0 or more; else both at once."""

    up: int
    up_steps: int
    down: int
    down_steps: int


def gaps(factor: int, modulus: int, size: int) -> Gaps:
    """The gaps of a window, 0 < ``size`` < ``modulus``; ``factor`` and ``modulus`` have no common divisor."""
    if size == 1:
        return Gaps(0, modulus, 1, 0)
    up, up_steps, down, down_steps = factor % modulus, 1, -factor % modulus, 1
    while up >= size or down >= size:
        if up >= down:
            times = min(-(-(up - size + 1) // down), up // down)
            up, up_steps = up - times * down, up_steps + times * down_steps
        else:
            times = min(-(-(down - size + 1) // up), down // up)
            down, down_steps = down - times * up, down_steps + times * up_steps
    return Gaps(up, up_steps, down, down_steps)


def first(factor: int, modulus: int, size: int, y: int) -> int:
    """The smallest ``s``, 0 or more, for which ``y + factor * s`` modulo ``modulus`` is below ``size``."""
    y %= modulus
    return 0 if y < size else _within(factor % modulus, modulus, modulus - y, modulus - y + size - 1)


def _within(factor: int, modulus: int, low: int, high: int) -> int:
    """The smallest ``s`` for which ``factor * s`` modulo ``modulus`` lies in ``low..high``, 0 < low, high < modulus."""
    turns = []
    while (steps := -(-low // factor)) * factor > high:
        # There is no multiple of the factor: as few turns of the modulus as possible must bring one there.
        turns.append((factor, modulus, low))
        factor, modulus, low, high = modulus % factor, factor, -high % factor, -low % factor
    for factor, modulus, low in reversed(turns):
        steps = -(-(low + modulus * steps) // factor)
    return steps
