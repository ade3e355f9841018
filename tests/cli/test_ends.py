"""Ends of the program by its user, or by the reader of its output: quiet, and with a status of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from hostler.model.inputs import Submit
from tests.cli.test_main import PROGRAM, program
from tests.core.builders import script
from tests.web.core_desk import Window

COUNTED = """
import atexit, os, signal, sys

left = int(sys.argv.pop(1))
seen = 0

def count(*_):
    global seen, left
    seen += 1
    if seen == left:
        left = -1
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(lambda: print("seen", seen, file=sys.stderr))
from hostler.cli.entry import leave_at_interrupt, main
leave_at_interrupt()  # the first act of `main`
sys.addaudithook(count)
main()
"""
"""The program, which interrupts itself at an audit event of the interpreter: an import, a file, a connection."""
MOMENTS = 12


def interrupted_at(event: int, *words: str) -> subprocess.CompletedProcess[str]:
    return program(str(event), *words, command=[sys.executable, "-c", COUNTED])


@pytest.mark.parametrize("words", [["jobs"], ["bogus"], ["submit", "--own-dir", "--device", "cpu", "--", "true"]])
def test_interrupt_at_any_moment_is_status_130_without_a_traceback(words: Sequence[str], served: Window) -> None:
    events = int(interrupted_at(0, *words).stderr.split()[-1])
    assert events > 10 * MOMENTS
    for event in range(1, events, events // MOMENTS):
        done = interrupted_at(event, *words)
        assert done.returncode == 130, (event, done)
        assert "Traceback" not in done.stderr, (event, done)


def test_ignored_interrupt_stays_ignored(served: Window) -> None:
    code = COUNTED.replace("signal.default_int_handler", "signal.SIG_IGN")
    assert program("100", "status", command=[sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("words", [["jobs", "--json"], ["events", "--after", "0"], ["--help"]])
def test_reader_that_leaves_early_ends_the_command_silently_with_141(words: Sequence[str], served: Window) -> None:
    served.tell(Submit(specs=tuple(script(f"n{n}") for n in range(500))))
    line = 'trap "" PIPE; { "$@"; echo "status $?" >&2; } | true; wait'
    done = program("-c", line, "sh", "sh", "-c", 'sleep 0.2; exec "$@"', "sh", *PROGRAM, *words, command=["sh"])
    assert done.stderr == "status 141\n"
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], ["j1"]),
        (["--json"], ['{"ids": ["j1"]}']),
        (["--array", "0-1"], ["g1"]),
        (["--array", "0-1", "--json"], ['{"group": ']),
    ],
)
def test_submit_prints_ids_first_and_alone_on_standard_output(
    options: Sequence[str], ids: Sequence[str], served: Window
) -> None:
    words = ["submit", "--own-dir", "--device", "cpu", *options, "--", "no-such-program-here", "{index}"]
    apart = program(*words)
    assert len(apart.stdout.splitlines()) == 1
    assert apart.stdout.startswith(ids[0])
    assert "note: there is no program 'no-such-program-here'" in apart.stderr
    together = program("-c", 'exec "$@" 2>&1', "sh", *PROGRAM, *words, command=["sh"]).stdout.splitlines()

    assert any("note: " in line for line in together[1:])
    assert "note: " not in together[0]
