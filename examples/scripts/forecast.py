"""The temperatures of the next day, from the trend and the season that two other jobs found, with a simulated band."""

import math
import random
from statistics import quantiles

from exchange import leave, result_of

RUNS = 100_000


def main() -> None:
    readings, trend, season = result_of("readings"), result_of("trend"), result_of("season")
    values = readings["values"]
    level = sum(values[-240:]) / 240 + 120 * trend["slope"]
    noise = random.Random(2)
    hours = []
    for ahead in range(1, 25):
        hour = readings["hours"] + ahead
        expected = level + trend["slope"] * ahead
        expected += season["amplitude"] * math.sin(2 * math.pi * hour / season["period"])
        cuts = quantiles([expected + noise.gauss(0, 0.8) for _ in range(RUNS)], n=20)
        hours.append(
            {"hour": hour, "expected": round(expected, 2), "low": round(cuts[0], 2), "high": round(cuts[-1], 2)}
        )
    print(f"tomorrow: {min(h['expected'] for h in hours)} to {max(h['expected'] for h in hours)} degrees")
    leave({"hours": hours})


if __name__ == "__main__":
    main()
