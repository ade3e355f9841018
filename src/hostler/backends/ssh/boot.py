"""Runs on the node, once per connection: puts the agent there if it is missing, and starts it if it is asked to.

Sent through standard input, so that no shell takes it apart; talks in lines that begin with MARK, because a start-up
file of the shell may print anything before. Python 3.5 runs it, too, to be able to say that it is too old.
"""

import hashlib
import json
import os
import subprocess
import sys
from typing import Any, BinaryIO, Dict, List

MARK = "hostler-boot "
OLDEST = (3, 8)
START_S = 30


def main(stream: BinaryIO) -> None:
    """Facts out; if the agent is missing, its bytes in; then start it and tell where it listens."""
    asked = json.loads(stream.readline().decode("utf-8"))
    if sys.version_info < OLDEST:
        tell({"python": sys.version.split()[0], "executable": sys.executable, "too_old": True})
        return
    folder = os.path.abspath(os.path.expanduser(asked["dir"]))
    zipapp = os.path.join(folder, "agent-%s.pyz" % asked["sha256"][:16])
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        there = os.path.exists(zipapp) and digest_of(zipapp) == asked["sha256"]
        tag = sys.implementation.cache_tag
        tell({"executable": sys.executable, "tag": tag, "zipapp": zipapp, "dir": folder, "missing": not there})
        if not there:
            put(stream, zipapp, asked)
        tell(start(zipapp, folder, asked["setup"]) if asked["start"] else {"status": 0, "said": ""})
    except OSError as error:
        tell({"error": str(error)})


def put(stream: BinaryIO, path: str, asked: Dict[str, Any]) -> None:
    """The file, at once or not at all."""
    data = stream.read(asked["size"])
    if hashlib.sha256(data).hexdigest() != asked["sha256"]:
        raise OSError("the agent arrived damaged: %d of %d bytes, or changed on the way" % (len(data), asked["size"]))
    temporary = "%s.%d.new" % (path, os.getpid())
    try:
        with open(temporary, "wb") as output:
            output.write(data)
            output.flush()
            os.fsync(output.fileno())
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)  # on a full disk, what is left of it keeps others from writing
        raise


def digest_of(path: str) -> str:
    """Its SHA-256."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def start(zipapp: str, folder: str, setup: List[str]) -> Dict[str, Any]:
    """Start the agent, in the environment that the set-up leaves; one that runs already is left alone."""
    command = [sys.executable, zipapp, "run", "--dir", folder, "--detach"]
    if setup:
        command = ["/bin/sh", "-c", "\n".join([*setup, 'exec "$@"']), "sh", *command]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=START_S,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"status": None, "said": "it did not come up within %d s" % START_S}
    return {"status": done.returncode, "said": done.stdout.decode("utf-8", "replace")[-2000:]}


def tell(values: Dict[str, Any]) -> None:
    """One line."""
    sys.stdout.write(MARK + json.dumps(values) + "\n")
    sys.stdout.flush()


main(sys.stdin.buffer)
