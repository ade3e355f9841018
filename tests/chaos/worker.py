"""A sweep worker that takes its time: some items a second, with checkpoints, and a hit at every planted item.

Once the file `params["gate"]` exists it takes no time any more: so a sweep lasts as long as a test needs it.
"""

import hashlib
import json
import os
import sys
import time


def say(message: dict) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    request = json.loads(sys.stdin.readline())
    params = request["params"]
    text = json.dumps(params, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    say({"type": "opened", "digest": digest})
    for line in sys.stdin:
        search(json.loads(line), params, digest)


def search(chunk: dict, params: dict, digest: str) -> None:
    position, hits = chunk["start"], []
    while position < chunk["stop"]:
        if os.path.exists(params["gate"]):
            step = chunk["stop"]
        else:
            step = min(chunk["stop"], position + max(1, int(params["per_s"] / 50)))
            time.sleep((step - position) / params["per_s"])
        hits += [{"at": at} for at in params["planted"] if position <= at < step]
        position = step
        say({"type": "checkpoint", "id": chunk["id"], "position": position, "hits": hits})
    say(
        {
            "type": "done",
            "id": chunk["id"],
            "digest": digest,
            "start": chunk["start"],
            "stop": chunk["stop"],
            "hits": hits,
        }
    )


main()
