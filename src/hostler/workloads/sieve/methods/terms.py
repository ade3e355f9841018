"""What draws say of single bits of words, and contradictions between such bits."""

from collections.abc import Iterator
from dataclasses import dataclass

from hostler.workloads.sieve.generators.rules import Residue, Want
from hostler.workloads.sieve.methods import picks
from hostler.workloads.sieve.methods.picks import Aim, Single
from hostler.workloads.sieve.spec import Spec


@dataclass(frozen=True, slots=True)
class Term:
    """One equation: bit ``bit`` of word ``at`` of the pattern is ``value``, says draw number ``draw``."""

    draw: int
    at: int
    bit: int
    value: int


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Bits whose sum is 0 in every sequence of words of the generator, and 1 in the draws.

    It holds for ``gap`` and for every skip whose words before the pattern are ``phase`` modulo the generator's period.
    """

    gap: int
    phase: int
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why no state of the generator makes the draws in any alignment: one contradiction for each kind of alignment.

    ``redraws`` is how often something was drawn again within the draws, to expect: only without that it is a proof.
    """

    contradictions: tuple[Contradiction, ...]
    redraws: float


def terms_of(spec: Spec, gap: int) -> list[Term]:
    """What the known draws say of single bits, in the order they are drawn."""
    return [term for aim in picks.aims(spec, gap) for term in terms_of_aim(aim)]


def terms_of_aim(aim: Aim) -> list[Term]:
    """What one pick says of single bits."""
    return [term for single in picks.singles(aim) for term in _bits(single)]


def _bits(single: Single) -> Iterator[Term]:
    for bit, value in _decided(single.want, single.part.bits):
        yield Term(single.draw, single.at, single.part.shift + bit, value)


def _decided(want: Want, bits: int) -> Iterator[tuple[int, int]]:
    """The bits of a number of ``bits`` bits that a want decides, with their values."""
    if isinstance(want, Residue):
        count = min((want.modulus & -want.modulus).bit_length() - 1, bits)
        yield from ((bit, want.target >> bit & 1) for bit in range(count))
    elif want.high < want.low:
        # No number gives this draw: a bit that is 0 and 1.
        yield from ((0, 0), (0, 1))
    else:
        open_bits = (want.low ^ want.high).bit_length()
        yield from ((bit, want.low >> bit & 1) for bit in range(bits - 1, open_bits - 1, -1))
