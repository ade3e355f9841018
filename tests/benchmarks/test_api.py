"""api.py: the speed of a sweep is read off its chunks, and each load is compared with the quiet times around it."""

import asyncio
from collections import Counter
from typing import Any

import pytest

import api
import api_load


def story(*ends: tuple[float, int]) -> list[dict[str, Any]]:
    """Chunks of these sizes, one after the other, by the time at which each ended."""
    told: list[dict[str, Any]] = []
    for number, (at, size) in enumerate(ends):
        lease = {"kind": "chunk.leased", "chunk": f"c{number}", "start": 10 * number, "stop": 10 * number + size}
        told += [{"at": 0.0, "event": lease}, {"at": at, "event": {"kind": "chunk.done", "chunk": f"c{number}"}}]
    return told


def phase(name: str) -> api.Phase:
    return api.Phase(name, 0.0, 1.0, {}, 0.0)


def test_what_was_searched_between_two_ends_is_in_proportion() -> None:
    covered = list(api._covered(story((1.0, 8), (3.0, 6), (4.0, 2))))
    assert covered == [(1.0, 8), (3.0, 14), (4.0, 16)]
    assert [api._at(covered, when) for when in (1.0, 2.0, 3.5)] == [8, 11, 15]
    with pytest.raises(SystemExit, match="does not tell"):
        api._at(covered, 0.5)


def test_a_load_is_compared_with_the_quiet_times_before_and_after_it() -> None:
    phases = [phase(name) for name in ("alone", "load", "alone", "load", "burst")]
    made = api.Beside(None, 1, "j1", phases, [100.0, 90.0, 80.0, 60.0, 40.0])  # type: ignore[arg-type]
    assert [(each.name, percent) for each, percent in made.slower()] == [
        ("load", pytest.approx(0.0)),
        ("load", pytest.approx(25.0)),
        ("burst", pytest.approx(50.0)),
    ]


def test_the_mix_is_whole_and_always_in_the_same_order() -> None:
    paths = list(api_load._mixed("j7"))
    assert Counter(paths) == {path.format(job="j7"): times for path, times in api_load.MIX.items()}
    assert len(paths) == 100
    assert list(api_load._mixed("j7")) == paths


def test_an_answer_in_pieces_counts_once_it_is_whole() -> None:
    freed: list[api_load.Call] = []
    statuses: list[int] = []
    call = api_load.Call(freed.append, lambda _: None)
    call.connection_made(asyncio.Transport.__new__(Silent))
    call.ask(b"GET / HTTP/1.1\r\n\r\n", statuses.append)
    for piece in (b"HTTP/1.1 200 OK\r\nContent-Len", b"gth: 5\r\n\r\nab", b"cd"):
        call.data_received(piece)
    assert (statuses, len(freed)) == ([], 1)
    call.data_received(b"e")
    assert (statuses, len(freed)) == ([200], 2)
    call.ask(b"GET / HTTP/1.1\r\n\r\n", statuses.append)
    call.connection_lost(None)
    assert statuses == [200, 0]


class Silent(asyncio.Transport):
    """Takes everything, and does nothing."""

    def write(self, data: Any) -> None:
        """Nothing."""
