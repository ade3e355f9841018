"""From what a node says to what the core hears; a node may say anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.backends.facts import input_of, progress_of
from hostler.model.inputs import Ended, Progress, Returned, Searched, Started, Trouble, WorkerRefused

ENDED = {
    "seq": 1,
    "fact": "ended",
    "attempt": "j1.1",
    "at": 5.0,
    "started_at": 4.0,
    "exit_code": 0,
    "signal": None,
    "reason": None,
    "error": None,
    "cpu_s": 0.1,
    "max_rss_bytes": 1024,
    "result": {"x": [1]},
    "result_error": None,
    "left": True,
}
DONE = {
    "seq": 2,
    "fact": "chunk_done",
    "chunk": "j1.2",
    "digest": "d",
    "start": 0,
    "stop": 2**70,
    "hits": [{"at": 2**69}],
    "at": 1.0,
    "elapsed_s": 0.5,
}


def test_every_kind_of_fact_is_understood() -> None:
    started = {"seq": 1, "fact": "started", "attempt": "j1.1", "pid": 7, "pid_start": 8, "at": 1.0}
    assert input_of("n", started) == Started(attempt="j1.1", pid=7, pid_start=8)
    ended = input_of("n", ENDED)
    assert isinstance(ended, Ended)
    assert (ended.attempt, ended.ended_at, ended.result, ended.left) == ("j1.1", 5.0, {"x": [1]}, True)
    searched = input_of("n", DONE)
    assert isinstance(searched, Searched)
    assert (searched.stop, searched.hits) == (2**70, ({"at": 2**69},))
    returned = {"seq": 3, "fact": "returned", "chunk": "j1.3", "position": 5, "digest": "d", "hits": [], "at": 1.0}
    assert input_of("n", {**returned, "reason": "worker_died", "error": None}) == Returned(
        chunk="j1.3", position=5, digest="d", reason="worker_died"
    )
    refused = {"seq": 4, "fact": "worker_refused", "worker": "w-j1-cpu0", "error": "no", "at": 1.0}
    assert input_of("n", refused) == WorkerRefused(worker="w-j1-cpu0", error="no")


@pytest.mark.parametrize(
    "broken",
    [
        {**DONE, "hits": "none"},
        {**DONE, "start": "zero"},
        {**DONE, "elapsed_s": None},
        {key: value for key, value in DONE.items() if key != "digest"},
        {**DONE, "surprise": 1},
    ],
)
def test_a_chunk_whose_report_cannot_be_read_goes_back(broken: dict[str, Any]) -> None:
    heard = input_of("n", broken)
    assert isinstance(heard, Returned)
    assert (heard.chunk, heard.position, heard.reason) == ("j1.2", None, "unreadable")


def test_an_attempt_whose_end_cannot_be_read_is_lost() -> None:
    heard = input_of("n", {**ENDED, "exit_code": "none"})
    assert isinstance(heard, Ended)
    assert (heard.attempt, heard.reason, heard.result) == ("j1.1", "lost", None)


def test_anything_else_that_cannot_be_read_is_recorded() -> None:
    assert isinstance(input_of("n", {"fact": "new kind", "seq": 1}), Trouble)
    assert isinstance(input_of("n", {**ENDED, "attempt": 7}), Trouble)
    assert isinstance(input_of("n", {"fact": "started", "seq": 1}), Trouble)


@given(st.dictionaries(st.sampled_from([*DONE, *ENDED]), st.none() | st.integers() | st.text() | st.lists(st.none())))
def test_no_fact_breaks_the_controller(fact: dict[str, Any]) -> None:
    assert input_of("n", fact) is not None


def test_progress_is_positions_and_numbers_of_hits() -> None:
    assert progress_of({"type": "progress", "chunks": {"j1.1": [5, 2]}}) == Progress(chunks={"j1.1": (5, 2)})
