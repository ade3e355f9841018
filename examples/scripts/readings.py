"""Make hourly temperatures with a known trend, a known daily cycle and a few known faults of the sensor."""

import argparse
import math
import random

from exchange import leave

SLOPE = 0.002
AMPLITUDE = 3.0
FAULTS = {311: 14.0, 742: -12.0, 1190: 17.0, 1611: 13.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    noise = random.Random(options.seed)
    values = [round(_temperature(hour) + noise.gauss(0, 0.8), 3) for hour in range(options.hours)]
    print(f"{len(values)} hourly temperatures, from {min(values)} to {max(values)} degrees")
    leave({"hours": options.hours, "values": values})


def _temperature(hour: int) -> float:
    return 11.0 + SLOPE * hour + AMPLITUDE * math.sin(2 * math.pi * hour / 24) + FAULTS.get(hour, 0.0)


if __name__ == "__main__":
    main()
