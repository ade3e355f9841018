"""A sweep worker of which everything can be had: the faults of `params["fault"]`, as often as `params["times"]` says.

How often it has misbehaved is counted in the file `params["count"]`, because a bad worker is replaced.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path


def say(message: object) -> None:
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    sys.stdout.flush()


def main() -> None:
    params = json.loads(sys.stdin.readline())["params"]
    text = json.dumps(params, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    if params.get("fault") == "refuses":
        say({"type": "failed", "error": "these parameters suit nobody"})
        return
    say({"type": "opened", "digest": "0" * 64 if params.get("fault") == "opens with another digest" else digest})
    for line in sys.stdin:
        chunk = json.loads(line)
        if params.get("fault") and is_due(params):
            misbehave(params["fault"], chunk, digest)
        else:
            search(params, chunk, digest)


def is_due(params: dict) -> bool:
    """Whether to misbehave once more; each time leaves a byte."""
    count = Path(params["count"])
    with count.open("ab") as file:
        if file.tell() < params["times"]:
            file.write(b"x")
            return True
    return False


def search(params: dict, chunk: dict, digest: str) -> None:
    position, hits = chunk["start"], []
    while position < chunk["stop"]:
        step = min(chunk["stop"], position + max(1, (chunk["stop"] - chunk["start"]) // 4))
        time.sleep((step - position) * params.get("pause_s", 0))
        hits += [{"at": at, "note": f"item {at}"} for at in params["planted"] if position <= at < step]
        position = step
        say({"type": "checkpoint", "id": chunk["id"], "position": position, "hits": hits})
    say(done(chunk, digest, hits=hits))


def done(chunk: dict, digest: str, **other: object) -> dict:
    whole = {"type": "done", "id": chunk["id"], "digest": digest, "start": chunk["start"], "stop": chunk["stop"]}
    return {**whole, "hits": [], **other}


def misbehave(fault: str, chunk: dict, digest: str) -> None:
    start, stop = chunk["start"], chunk["stop"]
    answers = {
        "no JSON": "I found nothing, believe me",
        "cut off": '{"type":"done","id":',
        "no object": "[1, 2, 3]",
        "NaN": json.dumps(done(chunk, digest, hits=[float("nan")])),
        "too long": json.dumps(done(chunk, digest, pad="x" * (17 << 20))),
        "another digest": done(chunk, "0" * 64),
        "another interval": done(chunk, digest, stop=stop + 1),
        "another chunk": done({**chunk, "id": "j1.999"}, digest),
        "a hit outside": done(chunk, digest, hits=[{"at": stop}]),
        "a hit that is none": done(chunk, digest, hits=[7]),
        "a position outside": {"type": "checkpoint", "id": chunk["id"], "position": stop + 1, "hits": []},
        "an unknown type": {"type": "finished", "id": chunk["id"]},
        "failed": {"type": "failed", "id": chunk["id"], "error": "it could not be searched"},
    }
    if fault == "half a line":
        sys.stdout.write('{"type":"do')
        sys.stdout.flush()
        os._exit(0)
    if fault == "dies":
        os.kill(os.getpid(), 9)
    if fault == "hangs":
        time.sleep(900)
    say(answers[fault])
    assert start < stop


main()
