"""A script: notes on its host that it has run, waits until it may end, and leaves a copy of each file it was given."""

import os
import shutil
import sys
import time

GIVEN, LEFT = "given", "out"


POLL_S = 0.1


def main(name: str, until: str) -> None:
    with open(os.path.expanduser("~/ran"), "a") as file:
        file.write(name + "\n")
    while not os.path.exists(until):
        time.sleep(POLL_S)
    shutil.copytree(GIVEN, LEFT)
    with open(os.path.join(LEFT, "name"), "w") as file:
        file.write(name)
    with open(os.environ["HOSTLER_RESULT"], "w") as file:
        file.write(f'"{name}"')


if __name__ == "__main__":
    main(*sys.argv[1:])
