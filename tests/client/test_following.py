"""Lines of a job that is followed: none is lost when it ends while it is looked at, and what never ends is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hostler.client import jobs
from hostler.client.calls import Answer
from hostler.client.jobs import Job


class Story:
    """What a controller answers: pieces of output one by one, and the state of the job after each."""

    def __init__(self, *pieces: tuple[str, str, bool]) -> None:
        self.pieces = list(pieces)
        self.view: dict[str, Any] = {"id": "j1", "state": "running", "attempt": "j1.1"}

    def _do(self, steps: Answer[Any]) -> Any:
        try:
            while True:
                next(steps)  # a rest
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([("", "running", False), ("a\nb\n", "done", True)], ["a", "b"]),
        ([("", "done", False), ("a\n", "done", True)], ["a"]),  # it ended after it was read, before it was looked at
        ([("a\n", "running", False), ("", "done", False), ("b", "done", False), ("", "done", True)], ["a", "b"]),
        ([("a\n", "running", False), ("", "failed", False), ("", "failed", False)], ["a"]),  # lost with its node
        ([("", "done", True)], []),
    ],
)
def test_lines_of_a_job_that_ends_are_followed_to_the_last(
    monkeypatch: pytest.MonkeyPatch, pieces: list[tuple[str, str, bool]], lines: list[str]
) -> None:
    story = Story(*pieces)

    def read(reader: Any) -> Iterator[Any]:
        text, state, reader.is_whole = story.pieces.pop(0)
        story.view = {**story.view, "state": state}
        return text, False
        yield

    def look(job: Any) -> Iterator[Any]:
        job._view = story.view
        return
        yield

    def attempts(job: Any) -> Iterator[Any]:
        return ["j1.1"]
        yield

    monkeypatch.setattr(jobs._Reader, "read", read)
    monkeypatch.setattr(Job, "_look", look)
    monkeypatch.setattr(Job, "_attempts", attempts)
    assert list(Job(story, story.view).follow()) == lines  # type: ignore[arg-type]
    assert story.pieces == []
