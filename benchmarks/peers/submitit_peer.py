"""submitit: so many calls of a trivial function, as one array or one submission after the other; prints what it took.

Arguments: folder on the shared file system, partition, slots, cores of each, calls, and `array` or `single`. Everything
else is as submitit has it by default; the slots are what `slurm_array_parallelism` is for.
"""

import json
import os
import sys
import time

import submitit


def zero(_: int) -> int:
    """An item: nothing to do, well done."""
    return 0


def main(folder: str, partition: str, slots: int, cpus: int, count: int, way: str) -> None:
    """From the first submission to the last result."""
    executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
    executor.update_parameters(slurm_partition=partition, cpus_per_task=cpus, slurm_array_parallelism=slots)
    began, cpu = time.perf_counter(), sum(os.times()[:4])
    if way == "array":
        jobs = executor.map_array(zero, range(count))
    else:
        jobs = [executor.submit(zero, at) for at in range(count)]
    ok = sum(job.result() == 0 for job in jobs)
    print(json.dumps({"ok": ok, "wall_s": time.perf_counter() - began, "cpu_s": sum(os.times()[:4]) - cpu}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), sys.argv[6])
