"""A small worker of the worker protocol for the tests. Its bad habits come in its first argument.

``params`` may hold ``delay_s`` (time per chunk, spent after a checkpoint at half of it) and ``every`` (hits are the
multiples of it).
"""

import hashlib
import json
import os
import signal
import sys
import time


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main(habit):
    if habit == "exit":
        print("looking\n\tfor it\x1b\ncannot find my library", file=sys.stderr)
        sys.exit(7)
    opening = json.loads(sys.stdin.readline())
    params = opening["params"]
    digest = hashlib.sha256(json.dumps(params, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    if habit == "refuse":
        print("I do not like them", file=sys.stderr)
        say({"type": "failed", "error": "an unknown field: every"})
        sys.exit(1)
    if habit == "deaf":
        time.sleep(3600)
    opened = {"type": "opened", "digest": "0" * 64 if habit == "digest" else digest}
    say({**opened, "ahead": False} if habit == "alone" else opened)
    while habit == "alone":
        lines = os.read(0, 1 << 16).splitlines()
        if not lines:
            return
        chunk = json.loads(lines[0])
        time.sleep(0.002)
        found = [{"at": chunk["start"], "lines": len(lines)}]
        end = {"start": chunk["start"], "stop": chunk["stop"], "hits": found}
        say({"type": "done", "id": chunk["id"], "digest": digest, **end})
    for line in sys.stdin:
        search(habit, json.loads(line), params, digest)
    if habit == "stubborn":
        time.sleep(3600)


def search(habit, chunk, params, digest):
    start, stop, name, deep = chunk["start"], chunk["stop"], chunk["id"], "[" * 500 + "]" * 500
    middle = (start + stop) // 2
    if params.get("delay_s"):
        say({"type": "checkpoint", "id": chunk["id"], "position": middle, "hits": hits(start, middle, params)})
        time.sleep(params["delay_s"])
    if habit == "hang":
        signal.pause()
    if habit == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if habit == "garbage":
        print("Traceback: this is no JSON", flush=True)
    if habit == "long":
        print("x" * (17 << 20), flush=True)
    if habit == "infinite":
        print(f'{{"type":"checkpoint","id":"{name}","position":1e999,"hits":[]}}', flush=True)
    if habit == "deep":
        print(f'{{"type":"failed","id":"{name}","error":{deep}}}', flush=True)
    if habit == "stranger":
        chunk["id"] = "no.such"
    if habit == "fail":
        say({"type": "failed", "id": chunk["id"], "error": "the table is missing"})
        return
    found = hits(start, stop, params)
    if habit.startswith("part"):
        end = {"part": middle, "part-nothing": start, "part-all": stop}[habit]
        say({"type": "part", "id": chunk["id"], "position": end, "hits": hits(start, end, params)})
        return
    say({"type": "done", "id": chunk["id"], "digest": digest, "start": start, "stop": stop, "hits": found})


def hits(start, stop, params):
    every = params["every"]
    return [{"at": at, "by": os.getpid()} for at in range(-(-start // every) * every, stop, every)]


main(sys.argv[1] if len(sys.argv) > 1 else "")
