"""Takes the picture of `hostler up` for the README: a real run in a real terminal (tmux), drawn as SVG by rich.

python scripts/make_picture.py [SECONDS]     docs/pictures/up.svg, as the screen is after SECONDS (default 25)
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/pictures/up.svg"
COLUMNS, LINES = 80, 14
SHOWN = "hostler up --until-idle examples/laptop.yaml"


def main() -> None:
    """Run, wait, take the picture, end the run."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 25.0
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/tmux"
        command = [f"{ROOT}/.venv/bin/hostler", *SHOWN.split()[1:], "--state-dir", f"{folder}/state", "--port", "0"]
        _tmux(socket, "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), shlex.join(command))
        time.sleep(seconds)
        screen = _tmux(socket, "capture-pane", "-e", "-p")
        _tmux(socket, "send-keys", "C-c")
        time.sleep(1)
        _tmux(socket, "kill-server")
    console = Console(record=True, width=COLUMNS, file=sys.stderr)
    console.print(Text.from_ansi(f"$ {SHOWN}\n{screen.rstrip()}"))
    PICTURE.parent.mkdir(exist_ok=True)
    console.save_svg(str(PICTURE), title="hostler")


def _tmux(socket: str, *arguments: str) -> str:
    command = ["tmux", "-S", socket, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
