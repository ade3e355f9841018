"""What `logs` prints: marked on a terminal, bytes in a pipe, and no line torn by the other stream."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest

from hostler.cli import logs
from hostler.cli.logs import Printer, Stream
from tests.cli.conftest import Hostler
from tests.cli.test_commands import busied
from tests.web.core_desk import Window


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A terminal with colours."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Screen()


def printer_on(screen: Screen, only: Stream | None = None) -> Printer:
    """A printer whose two streams are both this terminal."""
    with redirect_stdout(screen), redirect_stderr(screen):
        return Printer(only)


@pytest.fixture
def busy(served: Window) -> Window:
    return busied(served)


def test_lines_of_the_standard_error_are_coloured_on_a_terminal(screen: Screen) -> None:
    printer = printer_on(screen)
    printer.write("out", b"o1\n")
    printer.write("err", b"e1\ne2\n")
    printer.end()
    assert screen.getvalue() == "o1\n\x1b[33me1\x1b[0m\n\x1b[33me2\x1b[0m\n"


def test_without_colour_they_have_a_word_before_them(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    printer = printer_on(screen)
    printer.write("err", b"e1\ne2")
    printer.flush()
    printer.write("err", b" goes on\n")
    printer.end()
    assert screen.getvalue() == "err| e1\nerr| e2 goes on\n"


def test_a_line_is_not_torn_by_the_other_stream(screen: Screen) -> None:
    printer = printer_on(screen)
    printer.write("out", b"half of ")
    printer.write("err", b"e1\n")
    printer.write("out", b"a line\n")
    printer.end()
    assert screen.getvalue() == "\x1b[33me1\x1b[0m\nhalf of a line\n"


def test_a_line_that_was_shown_before_its_end_is_ended_before_another(screen: Screen) -> None:
    printer = printer_on(screen)
    printer.write("out", b"50 %")
    printer.flush()
    printer.say("j1 is running on here/cpu0")
    assert screen.getvalue() == "50 %\nj1 is running on here/cpu0\n"


def test_bytes_that_are_no_text_and_controls_are_made_visible(screen: Screen) -> None:
    printer = printer_on(screen)
    whole = "é".encode()
    printer.write("out", b"a\xff\x1b[2Jb" + whole[:1])
    printer.write("out", whole[1:] + b"\n" + whole[:1])
    printer.end()
    assert screen.getvalue() == "a�\\x1b[2Jbé\n�\n"


def test_one_stream_alone_is_printed_unmarked(screen: Screen) -> None:
    printer = printer_on(screen, "err")
    printer.write("out", b"o1\n")
    printer.write("err", b"e1\n")
    printer.end()
    assert screen.getvalue() == "e1\n"


def test_in_a_pipe_each_stream_has_its_own_bytes(busy: Window, hostler: Hostler) -> None:
    busy.desk.logs["j1.1", "out"] = b"o1\r\n\x1b[2J"
    busy.desk.logs["j1.1", "err"] = b"e1\n"
    busy.desk.ended.add("j1.1")
    said = hostler("logs", "j1.1")
    assert (said.status, said.out) == (0, "o1\r\n\x1b[2J")
    assert said.err == "e1\nj1.1 failed: exit 3\n"
    assert hostler("logs", "j1.1", "--stream", "err").out == "e1\n"


def test_output_that_is_not_kept_is_told(busy: Window, hostler: Hostler) -> None:
    said = hostler("logs", "j1.1")
    assert (said.status, said.err) == (0, "(the output of attempt 1 is not kept)\nj1.1 failed: exit 3\n")
    assert hostler("logs", "j1.77").status == 2


def test_bytes_that_were_dropped_are_counted(busy: Window, hostler: Hostler, monkeypatch: pytest.MonkeyPatch) -> None:
    piece = {"out": 10, "err": 0, "pieces": [], "out_size": 10, "err_size": 0, "ended": True, "seen_at": None}
    monkeypatch.setattr("hostler.client.Client.output", lambda *_: piece)
    assert "(10 bytes of the standard output before this were dropped)" in hostler("logs", "j1.1").err
    assert "dropped" not in hostler("logs", "j1.1", "--stream", "err").err


@pytest.mark.parametrize(
    ("end", "words", "status"),
    [
        ({"exit_code": 0, "signal": None, "reason": None, "error": None}, "ended: exit 0", 0),
        ({"exit_code": 3, "signal": None, "reason": None, "error": None}, "failed: exit 3", 3),
        ({"exit_code": None, "signal": 9, "reason": None, "error": None}, "failed: signal 9", 137),
        ({"exit_code": None, "signal": 15, "reason": "walltime", "error": "too long"}, "ended: too long", 143),
        ({"error": None}, "ended: nothing is known of its end", 1),
        (None, "is running on here/cpu0", 1),
    ],
)
def test_end_of_an_attempt_is_told_in_words_and_as_a_status(
    end: dict[str, object] | None, words: str, status: int
) -> None:
    attempt = logs.Attempt("j1.1", "here/cpu0")
    attempt.ended = end
    assert (logs._end_of(attempt), logs._status_of(attempt)) == (words, status)


def test_progress_bar_is_drawn_over_itself_and_ends_with_its_line(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tqdm writes: a carriage return, and the bar; the line ends with the last one."""
    printer = printer_on(screen)
    for piece in (b"\r 10%", b"\r 20%"):
        printer.write("err", piece)
        printer.flush()
    printer.write("out", b"loss 1\n")
    printer.write("err", b"\r 30%\n")
    printer.end()
    coloured = [f"\x1b[33m{each}\x1b[0m" for each in ("\r 10%", "\r 20%", "\r 30%")]
    assert screen.getvalue() == f"{coloured[0]}{coloured[1]}\nloss 1\n{coloured[2]}\n"
    monkeypatch.setenv("NO_COLOR", "1")
    marked = Screen()
    printer = printer_on(marked)
    for piece in (b" 10%", b"\r 20%\r 25%", b"\r 30%\n", b"done\r\n"):
        printer.write("err", piece)
        printer.flush()
    printer.end()
    assert marked.getvalue() == "err|  10%\rerr|  20%\rerr|  25%\rerr|  30%\nerr| done\r\n"


def test_colour_that_comes_in_two_pieces_is_a_colour(screen: Screen) -> None:
    printer = printer_on(screen)
    for piece in (b"a\x1b", b"[3", b"1mred\x1b[0m b\x1b["):
        printer.write("out", piece)
        printer.flush()
    assert screen.getvalue() == "a\x1b[31mred\x1b[0m b"
    printer.end()
    assert screen.getvalue() == "a\x1b[31mred\x1b[0m b\\x1b[\n"
