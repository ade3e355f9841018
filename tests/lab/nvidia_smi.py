"""Answers as nvidia-smi does, of GPUs that a file describes: one a line, `index|name|MiB|uuid`."""

import os
import sys


def main() -> int:
    asked = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
    with open(os.environ["LAB_GPUS"], encoding="utf-8") as file:
        gpus = [line.rstrip("\n").split("|") for line in file]
    for index, name, memory, uuid in gpus:
        known = {"index": index, "name": name, "memory.total": memory, "uuid": uuid}
        known.update(
            {"utilization.gpu": "50", "memory.used": "100", "temperature.gpu": "60", "driver_version": "550.1"}
        )
        if "query-gpu" in asked:
            print(", ".join(known.get(field, "[N/A]") for field in asked["query-gpu"].split(",")))
    return 0


sys.exit(main())
