"""Runs on the node for `hostler doctor`: tells what the node is like, and changes nothing.

Sent as `boot.py` is. Python 3.5 runs it, too, to be able to say that it is too old.
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

MARK = "hostler-boot "
TOOL_S = 15
SAID_MOST = 20000
TOOLS = {"0x10de": [["nvidia-smi", "-L"]], "0x1002": [["amd-smi", "list"], ["rocm-smi", "--showid"]]}
"""Programs that list the GPUs of a maker; the first one that is there is asked."""


def main() -> None:
    """One line."""
    begin = time.time()
    asked = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    folder = os.path.abspath(os.path.expanduser(asked["dir"]))
    there = nearest(folder)
    free = os.statvfs(there)
    found = {
        "now": begin,
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "dir": folder,
        "writable": os.access(there, os.W_OK | os.X_OK),
        "free_bytes": free.f_bavail * free.f_frsize,
        "gpus": gpus(),
        "rsync": shutil.which("rsync") is not None,
    }
    sys.stdout.write(MARK + json.dumps(found) + "\n")
    sys.stdout.flush()


def nearest(folder: str) -> str:
    """The folder, or what there is of the way to it."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def gpus() -> List[Dict[str, Any]]:
    """By maker: cards on the bus, the program that knows them, and what it says."""
    cards = {}  # type: Dict[str, int]
    for path in glob.glob("/sys/bus/pci/devices/*/class"):
        vendor = read(os.path.join(os.path.dirname(path), "vendor"))
        if read(path).startswith("0x03") and vendor in TOOLS:
            cards[vendor] = cards.get(vendor, 0) + 1
    makers = [vendor for vendor in TOOLS if vendor in cards or tool(vendor) is not None]
    return [dict(asked(tool(vendor)), vendor=vendor, cards=cards.get(vendor, 0)) for vendor in makers]


def tool(vendor: str) -> Optional[List[str]]:
    """The command that lists the GPUs of a maker, if it is installed."""
    return next((command for command in TOOLS[vendor] if shutil.which(command[0])), None)


def asked(command: Optional[List[str]]) -> Dict[str, Any]:
    """What it says, and how long that takes; a status of None: it hangs, or there is none."""
    if command is None:
        return {"tool": None, "status": None, "said": "", "seconds": 0.0}
    begin = time.time()
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TOOL_S
        )
        status, said = done.returncode, done.stdout.decode("utf-8", "replace")[:SAID_MOST]  # type: Optional[int], str
    except (OSError, subprocess.TimeoutExpired) as error:
        status, said = None, str(error)
    return {"tool": command[0], "status": status, "said": said, "seconds": time.time() - begin}


def read(path: str) -> str:
    """A short file; nothing where it cannot be read."""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


main()
