"""Compare the report with what was put into the readings; exit 1 if the analyses did not find it."""

import sys

from exchange import leave, result_of
from readings import FAULTS, SLOPE


def main() -> None:
    report = result_of("report")
    checks = {
        "slope": abs(report["slope"] - SLOPE) < 0.1 * SLOPE,
        "period": report["period"] == 24,
        "faults": report["faults"] == sorted(FAULTS),
    }
    for name, found in checks.items():
        print(f"{name}: {'found' if found else 'MISSED'}")
    if not all(checks.values()):
        sys.exit("the report does not say what was put into the readings")
    leave(checks)


if __name__ == "__main__":
    main()
