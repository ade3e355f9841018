"""A sweep worker that does nothing: it says of every chunk that it is done (docs/reference/worker-protocol.md)."""

import json
import sys


def main() -> None:
    """Answer until the input ends."""
    digest = json.loads(sys.stdin.readline())["digest"]
    _say({"type": "opened", "digest": digest})
    for line in sys.stdin:
        chunk = json.loads(line)
        interval = {"start": chunk["start"], "stop": chunk["stop"]}
        _say({"type": "done", "id": chunk["id"], "digest": digest, **interval, "hits": []})


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


main()
