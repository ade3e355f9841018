"""A script that notes on its host that it runs, and until when; it may leave files that anybody can compute.

Usage: task.py NAME SECONDS FILES. The note is a file of the attempt, as large at first as it will ever be, and written
over in place: a full disk keeps it from beginning, and never from telling. Times are those of the monotonic clock,
which all hosts share.
"""

import hashlib
import json
import os
import sys
import time

NOTES = "~/notes"
NOTE_BYTES = 512
BEAT_S = 0.1
BLOCK = 32


def main(name: str, seconds: str, files: str) -> None:
    note = opened(os.environ["HOSTLER_ATTEMPT"])
    began = time.monotonic()
    end = began + float(seconds)
    while time.monotonic() < end:
        tell(note, name, began, ended=False)
        time.sleep(BEAT_S)
    for at in range(int(files)):
        os.makedirs("out", exist_ok=True)
        with open(os.path.join("out", f"{at}.bin"), "wb") as file:
            file.write(content(name, at))
    with open(os.environ["HOSTLER_RESULT"], "w") as file:
        json.dump(name, file)
    tell(note, name, began, ended=True)


def opened(attempt: str) -> int:
    """A new note; one of the same attempt is another file."""
    folder = os.path.expanduser(NOTES)
    os.makedirs(folder, exist_ok=True)
    note = os.open(os.path.join(folder, f"{attempt}.{os.getpid()}"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.pwrite(note, b" " * NOTE_BYTES, 0)
    os.fsync(note)
    return note


def tell(note: int, name: str, began: float, *, ended: bool) -> None:
    said = {"job": name, "attempt": os.environ["HOSTLER_ATTEMPT"], "began": began, "alive": time.monotonic()}
    os.pwrite(note, json.dumps({**said, "ended": ended}).encode().ljust(NOTE_BYTES), 0)


def content(name: str, at: int) -> bytes:
    """What a script of this name leaves in its file `at`: up to some hundred kilobytes."""
    seed = hashlib.sha256(f"{name} {at}".encode()).digest()
    blocks = 1 + int.from_bytes(seed[:2], "big") % 4096
    return b"".join(hashlib.sha256(seed + number.to_bytes(4, "big")).digest() for number in range(blocks))


if __name__ == "__main__":
    main(*sys.argv[1:])
