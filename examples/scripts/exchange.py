"""How the scripts of examples/jobs.yaml get and give results. Under Hostler two variables name files; by hand, neither.

`$HOSTLER_INPUTS` is a JSON file with the results of the jobs this one comes after, by key; `$HOSTLER_RESULT` is where a
job may leave its own result as JSON.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def result_of(job: str) -> Any:
    """The result of a job that this one comes after. By hand, it is read from `JOB.json` in the current folder."""
    inputs = os.environ.get("HOSTLER_INPUTS")
    if inputs is None:
        return json.loads(Path(f"{job}.json").read_text(encoding="utf-8"))
    return json.loads(Path(inputs).read_text(encoding="utf-8"))[job]


def leave(result: Any) -> None:
    """Leave a result; by hand it is printed."""
    path = os.environ.get("HOSTLER_RESULT")
    if path is None:
        json.dump(result, sys.stdout)
    else:
        Path(path).write_text(json.dumps(result), encoding="utf-8")
