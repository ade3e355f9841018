"""A sweep worker whose speed is that of its device: it rests as long as a search would take, and never computes.

`per_s` is a number of items, or one for each `$MODEL` of a host. A hit is at every planted item. Once the file that
`until` names is there it does not rest any more: so a sweep lasts as long as a test needs it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from typing import Any

TELLS_S = 0.5


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    params = json.loads(sys.stdin.readline())["params"]
    text = json.dumps(params, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    per_s = params["per_s"]
    if isinstance(per_s, dict):
        assert os.environ["CUDA_VISIBLE_DEVICES"].isdigit(), "bound to no device"
        per_s = per_s[os.environ["MODEL"]]
    say({"type": "opened", "digest": digest})
    for line in sys.stdin:
        search(json.loads(line), params["planted"], per_s, digest, params.get("until"))


def search(chunk: dict[str, Any], planted: list[int], per_s: float, digest: str, until: str | None) -> None:
    """Items pass by at their speed, however late this process wakes up."""
    start, stop = chunk["start"], chunk["stop"]
    began = time.monotonic()
    position, hits = start, []
    while position < stop:
        if until is not None and os.path.exists(until):
            step = stop
        else:
            step = min(stop, position + max(1, int(per_s * TELLS_S)))
            time.sleep(max(0.0, began + (step - start) / per_s - time.monotonic()))
        hits += [{"at": at} for at in planted if position <= at < step]
        position = step
        if position < stop:
            say({"type": "checkpoint", "id": chunk["id"], "position": position, "hits": hits})
    say({"type": "done", "id": chunk["id"], "digest": digest, "start": start, "stop": stop, "hits": hits})


if __name__ == "__main__":
    main()
