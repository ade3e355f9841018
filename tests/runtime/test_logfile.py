from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

from hostler.runtime.logfile import LogFile


def test_lines_are_added(tmp_path: Path) -> None:
    for text in ("one\n", "two \ud800\n"):
        with LogFile(tmp_path / "log") as log:
            log.write(text)
            log.flush()
    assert (tmp_path / "log").read_text() == "one\ntwo \\ud800\n"


def test_line_after_the_end_reaches_no_file_that_was_opened_since(tmp_path: Path) -> None:
    with LogFile(tmp_path / "log") as log:
        log.write("before\n")
    # The numbers of closed files are given out again, the lowest first.
    others = [os.open(tmp_path / f"other{at}", os.O_RDWR | os.O_CREAT) for at in range(8)]
    try:
        log.write("after\n")
        with log:
            pass  # closing once more closes no file of anybody else
        assert [os.fstat(other).st_size for other in others] == [0] * 8
    finally:
        for other in others:
            os.close(other)
    assert (tmp_path / "log").read_text() == "before\n"


def test_a_line_that_cannot_be_written_is_left_out_and_the_next_one_is_not(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with LogFile(tmp_path / "log") as log:
        log.write("before\n")
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (7, limits[1]))
            log.write("too much\n")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, ignored)
        log.write("after\n")
    assert (tmp_path / "log").read_text() == "before\nafter\n"
