"""Takes the picture of the first commands for the README: a real run in a real terminal (tmux), drawn as SVG by rich.

scripts/own-network python scripts/make_picture.py     writes docs/pictures/up.svg; port 8765 is free there

The controller, its agent and the jobs are real, in a home that is new; the cards are not: an `nvidia-smi` lists three,
and a process of another person on the last.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/pictures/up.svg"
COLUMNS, LINES = 80, 30
PATIENCE_S = 120.0
PROMPT = "$ "
TYPED = (
    "hostler up --detach",
    "hostler submit --gpus 1 --grid lr=0.1,0.03 -- python train.py {lr}",
    "hostler wait g1",
    "hostler results g1 --sort loss",
)
"""The commands, each typed once the one before has ended."""
TRAIN = """\
import json, os, pathlib, sys, time

lr = float(sys.argv[1])
time.sleep(2)
pathlib.Path("model.pt").write_text(f"a model of {lr}")
pathlib.Path(os.environ["HOSTLER_RESULT"]).write_text(json.dumps({"loss": round(abs(lr - 0.041), 3), "steps": 1000}))
"""
CARDS = """\
#!/bin/sh
case "$1" in
--query-gpu=index,name,*) for at in 0 1 2; do echo "$at, NVIDIA GeForce RTX 4090, 24564, GPU-$at"; done ;;
--query-gpu=*)
    for at in 0 1; do echo "$at, 0, 100, 34, GPU-$at, NVIDIA GeForce RTX 4090, [N/A]"; done
    echo "2, 97, 21604, 71, GPU-2, NVIDIA GeForce RTX 4090, [N/A]" ;;
--query-compute-apps=*) echo "GPU-2, OTHER, 21504" ;;
esac
"""
# The font would be fetched from another host.
FONT = re.compile(r"\s*@font-face \{.*?\}", re.S)


def main() -> None:
    """Make the home, type, take the picture, end what was started."""
    with tempfile.TemporaryDirectory() as folder, _home() as home, _other_person() as other:
        _settle(home, other)
        socket = f"{folder}/tmux"
        _start_shell(socket, home)
        try:
            for command in TYPED:
                _type(socket, command)
            screen = _tmux(socket, "capture-pane", "-e", "-p")
            if "hostler: error" in screen:
                raise SystemExit(f"make_picture: a command has failed:\n{screen}")
        finally:
            _type(socket, "hostler down --now; hostler status")
            _tmux(socket, "kill-server")
            _end_agents(home)
    _draw(screen)


@contextmanager
def _home() -> Iterator[Path]:
    """A folder whose name reads well, as the picture has it."""
    home = Path(tempfile.gettempdir()) / "ann"
    home.mkdir()
    try:
        yield home
    finally:
        shutil.rmtree(home)


@contextmanager
def _other_person() -> Iterator[int]:
    """A process that Hostler has not started."""
    with subprocess.Popen(["sleep", "3600"], start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def _settle(home: Path, other: int) -> None:
    """A home with a project, a Python environment, the cards and `hostler`."""
    (home / "project").mkdir()
    (home / "project/train.py").write_text(TRAIN)
    venv.create(home / "env", with_pip=False, symlinks=True)
    hostler = (
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT / "src"))} exec {shlex.quote(sys.executable)} -m hostler "$@"\n'
    )
    for name, text in {"nvidia-smi": CARDS.replace("OTHER", str(other)), "hostler": hostler}.items():
        (home / "env/bin" / name).write_text(text)
        (home / "env/bin" / name).chmod(0o755)


def _start_shell(socket: str, home: Path) -> None:
    variables = {"HOME": home, "PATH": f"{home}/env/bin:/usr/bin:/bin", "PS1": PROMPT, "LANG": "C.UTF-8"}
    shell = ["env", "-i", *(f"{name}={value}" for name, value in variables.items()), "TERM=screen-256color", "sh"]
    words = ["-x", str(COLUMNS), "-y", str(LINES), "-c", str(home / "project"), shlex.join(shell)]
    _tmux(socket, "new-session", "-d", *words)
    _wait_for_prompt(socket)


def _type(socket: str, command: str) -> None:
    _tmux(socket, "send-keys", "-l", command)
    _tmux(socket, "send-keys", "Enter")
    _wait_for_prompt(socket)


def _wait_for_prompt(socket: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        time.sleep(0.3)
        screen = _tmux(socket, "capture-pane", "-p").rstrip("\n")
        if screen.rstrip().splitlines()[-1:] == [PROMPT.strip()]:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"make_picture: a command has not ended within {PATIENCE_S:g} s:\n{screen}")


def _end_agents(home: Path) -> None:
    """End the agent, which outlives its controller."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(word.startswith(f"{home}/") and word.endswith("agent.pyz") for word in words):
            subprocess.run(["kill", line.parent.name], check=False)


def _draw(screen: str) -> None:
    console = Console(record=True, width=COLUMNS, file=sys.stderr)
    console.print(Text.from_ansi(screen.rstrip().removesuffix(PROMPT.strip()).rstrip()))
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(FONT.sub("", console.export_svg(title="hostler")))


def _tmux(socket: str, *arguments: str) -> str:
    command = ["tmux", "-S", socket, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
