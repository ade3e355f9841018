"""A descriptor that was closed is not used again: its number may be that of another file by then."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from hostler.agent.journal import Journal
from hostler.agent.loop import Loop
from hostler.agent.protocol import encode


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(str(tmp_path / "journal"))
    made.append(encode({"n": 1}))
    assert made.flush()
    return made


def stranger_at(descriptor: int, path: Path) -> int:
    """A file of somebody else that has this number, if that is free."""
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fstat(descriptor)
    except OSError:
        os.dup2(opened, descriptor, inheritable=False)
        os.close(opened)
        return descriptor
    return opened


def test_journal_that_could_not_open_its_rewritten_file_writes_into_no_other_file(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, open_ = journal._fd, os.open

    def failing(path: str, flags: int, mode: int = 0o777) -> int:
        raise OSError(23, "Too many open files in system")

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(OSError, match="Too many open files"):
        journal.rewrite([{"all": 1}])
    monkeypatch.setattr(os, "open", open_)
    stranger = stranger_at(before, tmp_path / "stranger")
    journal.append(encode({"n": 2}))
    assert journal.flush()
    assert os.pread(stranger, 100, 0) == b""
    assert list(journal.replay()) == [{"n": 1}, {"n": 2}]
    assert journal.size == (tmp_path / "journal").stat().st_size
    os.close(stranger)
    journal.close()


def test_journal_whose_rewritten_file_cannot_be_renamed_stays_as_it_is(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(source: str, target: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(OSError, match="Input/output"):
        journal.rewrite([{"all": 1}])
    journal.append(encode({"n": 2}))
    assert journal.flush()
    assert list(journal.replay()) == [{"n": 1}, {"n": 2}]
    assert not (tmp_path / "journal.new").exists()
    journal.close()


def test_closed_journal_writes_into_no_other_file_and_closes_none(journal: Journal, tmp_path: Path) -> None:
    before = journal._fd
    journal.close()
    stranger = stranger_at(before, tmp_path / "stranger")
    assert stranger == before
    journal.append(encode({"n": 2}))
    assert not journal.flush()
    journal.close()
    assert os.pread(stranger, 100, 0) == b""
    os.close(stranger)
    assert list(journal.replay()) == [{"n": 1}]


def test_loop_gives_the_event_of_a_closed_descriptor_to_none_that_has_its_number_now() -> None:
    """As when a controller's new connection closes the old one, and a query's pipe gets its number: the read of a pipe
    in which there is nothing yet would stop the agent."""
    loop, called = Loop(), list[str]()
    (first, _), (second, _) = pipes = [full_pipe(), full_pipe()]
    reader, writer = os.pipe()

    def replace(other: int) -> None:
        called.append("old")
        for each in (first, second):
            loop.unwatch(each)
        os.dup2(reader, other, inheritable=False)
        loop.watch(other, lambda _events: called.append("new"))

    loop.watch(first, lambda _events: replace(second))
    loop.watch(second, lambda _events: replace(first))
    loop.turn(0.0)
    assert called == ["old"]
    loop.turn(0.0)
    assert called == ["old"]
    os.write(writer, b".")
    loop.turn(0.0)
    assert called == ["old", "new"]
    for each in (*pipes[0], *pipes[1], reader, writer):
        os.close(each)


def test_loop_calls_one_that_changed_what_it_waits_for_in_the_same_turn() -> None:
    loop, called = Loop(), list[str]()
    pipes = [full_pipe(), full_pipe()]
    readers = [reader for reader, _ in pipes]

    def on_ready(this: int, _events: int) -> None:
        called.append("ready")
        for each in readers:
            if each != this:
                loop.watch(each, partial(on_ready, each))

    for each in readers:
        loop.watch(each, partial(on_ready, each))
    loop.turn(0.0)
    assert called == ["ready", "ready"]
    for each in (*pipes[0], *pipes[1]):
        os.close(each)


def full_pipe() -> tuple[int, int]:
    """One that can be read from."""
    reader, writer = os.pipe()
    os.write(writer, b".")
    return reader, writer
