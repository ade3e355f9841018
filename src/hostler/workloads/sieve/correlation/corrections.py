"""Many tests at once: what remains of a p-value when it is one of so many."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: taking all below ``alpha`` makes any false claim with a probability of at most ``alpha``.

    Under any dependence of the tests (S. Holm, Scandinavian Journal of Statistics 6, 1979).
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(_ascending(p_values)):
        largest = max(largest, min(1.0, p_values[i] * (len(p_values) - rank)))
        adjusted[i] = largest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: of all below ``q``, a share of at most ``q`` is false on average.

    For tests that are independent or lean the same way (Y. Benjamini and Y. Hochberg, Journal of the Royal Statistical
    Society B 57, 1995).
    """
    adjusted, smallest = [0.0] * len(p_values), 1.0
    order = _ascending(p_values)
    for rank in range(len(order), 0, -1):
        i = order[rank - 1]
        smallest = min(smallest, p_values[i] * len(p_values) / rank)
        adjusted[i] = smallest
    return adjusted


def _ascending(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=lambda i: p_values[i])
