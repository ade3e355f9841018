"""Find one thing in the readings: `trend`, `season` or `outliers`. Only the standard library, so each takes a while."""

import cmath
import random
import sys
from statistics import fmean, median, quantiles

from exchange import leave, result_of

DAY = 24


def trend(values: list[float]) -> dict[str, object]:
    """Slope per hour: the median of all slopes between hours that lie whole days apart, and a bootstrap interval."""
    slopes = [
        (values[later] - values[hour]) / (later - hour)
        for hour in range(len(values))
        for later in range(hour + DAY, len(values), DAY)
    ]
    draw = random.Random(1)
    medians = [median(draw.choices(slopes, k=2000)) for _ in range(2000)]
    cuts = quantiles(medians, n=40)
    return {"slope": median(slopes), "low": cuts[0], "high": cuts[-1]}


def season(values: list[float]) -> dict[str, object]:
    """Period (hours) and amplitude of the strongest cycle between 6 hours and 30 days, by a plain Fourier sum."""
    mean = fmean(values)
    strengths = {
        period: abs(sum((value - mean) * cmath.exp(-2j * cmath.pi * i / period) for i, value in enumerate(values)))
        for period in range(6, 721)
    }
    best = max(strengths, key=strengths.__getitem__)
    return {"period": best, "amplitude": 2 * strengths[best] / len(values)}


def outliers(values: list[float]) -> dict[str, object]:
    """Hours whose value lies far from that of the same hour on neighbouring days, measured by the median deviation."""
    residuals = [value - median(_neighbours(values, hour)) for hour, value in enumerate(values)]
    scale = median(map(abs, residuals))
    return {"hours": [hour for hour, residual in enumerate(residuals) if abs(residual) > 9 * scale], "scale": scale}


def _neighbours(values: list[float], hour: int) -> list[float]:
    return values[max(hour % DAY, hour - 21 * DAY) : hour + 21 * DAY + 1 : DAY]


def main() -> None:
    found = {"trend": trend, "season": season, "outliers": outliers}[sys.argv[1]](result_of("readings")["values"])
    print(f"{sys.argv[1]}: {found}")
    leave(found)


if __name__ == "__main__":
    main()
