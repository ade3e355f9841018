"""A script: notes on its host that it has run, takes its time, and leaves a copy of each file it was given."""

import os
import shutil
import sys
import time

GIVEN, LEFT = "given", "out"


def main(name: str, seconds: str) -> None:
    with open(os.path.expanduser("~/ran"), "a") as file:
        file.write(name + "\n")
    time.sleep(float(seconds))
    shutil.copytree(GIVEN, LEFT)
    with open(os.path.join(LEFT, "name"), "w") as file:
        file.write(name)
    with open(os.environ["HOSTLER_RESULT"], "w") as file:
        file.write(f'"{name}"')


if __name__ == "__main__":
    main(*sys.argv[1:])
