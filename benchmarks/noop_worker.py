"""A sweep worker that does nothing: it says of every chunk that it is done (docs/reference/worker-protocol.md).

With `sleep_s` among the parameters it takes so many seconds for that.
"""

import json
import sys
import time


def main() -> None:
    """Answer until the input ends."""
    opening = json.loads(sys.stdin.readline())
    digest, sleep_s = opening["digest"], opening["params"].get("sleep_s", 0)
    _say({"type": "opened", "digest": digest})
    for line in sys.stdin:
        chunk = json.loads(line)
        if sleep_s:
            time.sleep(sleep_s)
        interval = {"start": chunk["start"], "stop": chunk["stop"]}
        _say({"type": "done", "id": chunk["id"], "digest": digest, **interval, "hits": []})


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


main()
