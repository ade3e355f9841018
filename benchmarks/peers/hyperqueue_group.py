"""What HyperQueue's Python API takes to submit one job of many tasks: one line of JSON. For groups.py.

    python benchmarks/peers/hyperqueue_group.py TASKS

Client and server share a process, which is that of its Python API; the package has no command line (`hq`). No worker
runs, so that the tasks wait. `cpu_s` is that of the whole process from its start on, imports included.
"""

import json
import sys
import tempfile
import time
from importlib.metadata import version


def main() -> None:
    """Start a server, submit, print."""
    tasks = int(sys.argv[1])
    started = time.monotonic()
    from hyperqueue import Job, LocalCluster  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory(prefix="hb-") as home, LocalCluster(home) as cluster:
        client = cluster.client()
        job = Job()
        for number in range(tasks):
            words = ["python", "train.py", "--lr", f"0.{number % 100}", "--seed", str(number // 100)]
            job.program(words, stdout=None, stderr=None)
        client.submit(job)
        line = {"version": version("hyperqueue"), "wall_s": time.monotonic() - started, "cpu_s": time.process_time()}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
