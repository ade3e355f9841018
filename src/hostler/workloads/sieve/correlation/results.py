"""What a test says of a sample, and its words for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """One test of one sample.

    ``part`` says which part of the draws or which lag. ``p`` is the probability of a ``statistic`` as extreme where the
    draws are independent and equally likely; ``None`` where the test could not be made, and ``note`` says why. ``n``
    counts what the test looked at, as ``note`` says. ``holm`` and ``fdr`` are ``p`` adjusted for all tests made.
    """

    source: str
    test: str
    part: str
    statistic: float | None
    p: float | None
    n: int
    note: str
    holm: float | None = None
    fdr: float | None = None
    says: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


MEANINGS = {
    "frequency": "some values come more often than others",
    "neighbours": "a draw depends on the one before it",
    "lag": "draws this far apart are correlated",
    "runs": "draws stay above or below the middle for too long, or change sides too often",
    "spectrum": "the draws have a period",
    "poker": "values repeat within groups of five too often, or too rarely",
    "complexity": "these bits are made by a short shift register, or another machine that is linear over GF(2)",
    "profile": "the linear complexity of these bits does not grow as that of random ones",
}
"""What a small p-value means, by the name of the test."""


def words(result: Result, alpha: float) -> str:
    """One sentence for people."""
    if result.p is None or result.holm is None or result.fdr is None:
        return f"not tested: {result.note}"
    if result.holm < alpha:
        chances = f"chance gives this in {result.p:.2g} of samples, {result.holm:.2g} with all tests counted"
        return f"{MEANINGS[result.test]}: {chances}"
    if result.fdr < alpha:
        return f"perhaps {MEANINGS[result.test]}: among all tests it stands out, but one such may be chance"
    return "nothing unusual"
