"""Which draws exclude a generator, whatever its seed: a certificate that can be checked without solving anything.

Words of a generator that is linear over GF(2) obey linear relations: some of their bits add up to 0 in every sequence.
Where the draws decide all bits of such a relation and they add up to 1, no state of the generator makes these draws.
"""

import secrets

from hostler.workloads.sieve.generators.base import stream
from hostler.workloads.sieve.methods import gf2, picks, twister
from hostler.workloads.sieve.methods.linear import linear
from hostler.workloads.sieve.methods.terms import Contradiction, Exclusion, terms_of_aim
from hostler.workloads.sieve.spec import Spec

STATES = 64


def exclude(spec: Spec) -> Exclusion | None:
    """Contradictions for all alignments of ``spec``.

    ``None`` where there are solutions, where the generator is not linear over GF(2), where not all draws have to fit,
    or where too few bits are decided to contradict each other.
    """
    found = gf2.contradictions(spec) if linear(spec.generator) else twister.contradictions(spec)
    if not found:
        return None
    return Exclusion(tuple(found), max(picks.redraws(spec, gap) for gap in spec.gap))


def holds(spec: Spec, contradiction: Contradiction) -> bool:
    """Check a contradiction with nothing but the generator's oracle and the draws.

    Its bits must be what the draws say, add up to 1, and to 0 in the words of a basis of all states; of MT19937, whose
    basis is too large for the oracle, in those of 64 random states, which a wrong relation passes once in 2^64 times.
    """
    known = linear(spec.generator)
    aims = picks.aims(spec, contradiction.gap)
    said = {term for aim in (known.aims(aims) if known else aims) for term in terms_of_aim(aim)}
    if not said.issuperset(contradiction.terms):
        return False
    if sum(term.value for term in contradiction.terms) % 2 == 0:
        return False
    if known is None:
        states = [twister.random_state(spec.generator, secrets.randbits) for _ in range(STATES)]
    else:
        states = [known.state(1 << i) for i in range(known.bits)]
    return not any(_total(spec, contradiction, state) for state in states)


def _total(spec: Spec, contradiction: Contradiction, state: object) -> int:
    """The sum of the contradiction's bits in the words of a state."""
    known = linear(spec.generator)
    words, position, total, word = stream(spec.generator.engine, state), -1, 0, 0
    words = map(known.undone, words) if known and known.undone else words
    for term in sorted(contradiction.terms, key=lambda term: term.at):
        while position < contradiction.phase + term.at:
            word, position = next(words), position + 1
        total ^= word >> term.bit & 1
    return total
