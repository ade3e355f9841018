"""Ask a (made-up) calibration service that never answers the first time. Hostler tries again after a short rest."""

import os
import sys

from exchange import leave


def main() -> None:
    # Attempts are called JOB.1, JOB.2, ...; by hand there is no attempt, and the service answers.
    attempt = os.environ.get("HOSTLER_ATTEMPT", "by-hand.2")
    if attempt.endswith(".1"):
        sys.exit("the calibration service did not answer; a second attempt may have more luck")
    print("the sensor reads 0.25 degrees too high")
    leave({"offset": 0.25})


if __name__ == "__main__":
    main()
