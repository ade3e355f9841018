"""Tails of distributions, in plain Python: chi-square, normal, Fisher's largest share, linear complexity.

All are probabilities of at least (or at most) what was seen, right in relative terms where they are tiny; what is
smaller than a float can be is the smallest positive one, never 0.
"""

import math
import sys

SMALLEST = sys.float_info.min
_PRECISE = 1e-15
_TINY = 1e-300


def chi_square_tail(statistic: float, freedom: float) -> float:
    """P[X >= statistic] for X chi-square with ``freedom`` degrees: the regularised upper incomplete gamma function.

    A series below the bulk, Legendre's continued fraction above it (M. Abramowitz, I. A. Stegun, Handbook of
    Mathematical Functions, 6.5.29 and 6.5.31; evaluated as W. J. Lentz, Applied Optics 15, 1976, does it).
    """
    a, x = freedom / 2, statistic / 2
    if x <= 0:
        return 1.0
    front = math.exp(max(a * math.log(x) - x - math.lgamma(a), -745.0))
    tail = 1 - front * _series(a, x) if x < a + 1 else front * _fraction(a, x)
    return min(max(tail, SMALLEST), 1.0)


def normal_two_sided(z: float) -> float:
    """P[|Z| >= |z|] for Z standard normal."""
    return max(math.erfc(abs(z) / math.sqrt(2)), SMALLEST)


def fisher_tail(share: float, ordinates: int) -> float:
    """P[the largest of so many exponential variables makes up at least ``share`` of their sum].

    R. A. Fisher, "Tests of significance in harmonic analysis", Proceedings of the Royal Society A 125, 1929. Where the
    alternating sum loses its digits the probability is near 1, and independent exponentials serve.
    """
    expected = ordinates * math.exp((ordinates - 1) * math.log1p(-min(share, 1 - _PRECISE)))
    if expected > 8:
        return -math.expm1(-expected)
    total = math.fsum(_fisher_terms(share, ordinates))
    return min(max(total, SMALLEST), 1.0)


def complexity_tails(complexity: int, bits: int) -> tuple[float, float]:
    """P[L <= complexity] and P[L >= complexity] of the linear complexity L of so many random bits.

    Exact: ``2^min(2 bits - 2 L, 2 L - 1)`` of the ``2^bits`` sequences have complexity L > 0, one has 0 (R. A. Rueppel,
    Analysis and Design of Stream Ciphers, 1986, section 4).
    """
    near = range(max(0, bits // 2 - 600), min(bits, bits // 2 + 600) + 1)
    lower = math.fsum(_of_complexity(each, bits) for each in near if each <= complexity)
    upper = math.fsum(_of_complexity(each, bits) for each in near if each >= complexity)
    return max(min(lower, 1.0), SMALLEST), max(min(upper, 1.0), SMALLEST)


def _series(a: float, x: float) -> float:
    """The lower incomplete gamma function over ``x^a e^-x / Gamma(a)``."""
    term = total = 1 / a
    n = a
    while abs(term) > abs(total) * _PRECISE:
        n += 1
        term *= x / n
        total += term
    return total


def _fraction(a: float, x: float) -> float:
    """The upper incomplete gamma function over ``x^a e^-x / Gamma(a)``."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    value, i, change = d, 0, 0.0
    while abs(change - 1) > _PRECISE * 4 and i < 100_000:
        i += 1
        factor = -i * (i - a)
        b += 2
        d = 1 / (_away(factor * d + b))
        c = _away(b + factor / c)
        change = d * c
        value *= change
    return value


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _fisher_terms(share: float, ordinates: int) -> list[float]:
    terms = []
    for j in range(1, ordinates + 1):
        rest = 1 - j * share
        if rest <= 0:
            break
        ways = math.lgamma(ordinates + 1) - math.lgamma(j + 1) - math.lgamma(ordinates - j + 1)
        term = math.exp(max(ways + (ordinates - 1) * math.log(rest), -745.0))
        terms.append(term if j % 2 else -term)
        if term < _PRECISE * terms[0]:
            break
    return terms


def _of_complexity(complexity: int, bits: int) -> float:
    if complexity == 0:
        return 2.0**-bits if bits < 1000 else 0.0
    exponent = min(bits - 2 * complexity, 2 * complexity - 1 - bits)
    return 2.0**exponent if exponent > -1022 else 0.0
