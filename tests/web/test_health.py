"""The queue and the controller's parts in numbers: what comes to an end, not who is alive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.model import codec
from hostler.model.inputs import Submit
from hostler.model.readings import Gist, Part
from hostler.model.work import JobState
from hostler.web.health import Health, QueueStatus, health, queue_status
from tests.core.builders import ended, script, sweep
from tests.web.core_desk import Window
from tests.web.readings import GIST, NOW, WORK

NOTHING = dict.fromkeys(JobState, 0)


def test_the_seeds_paths_answer_as_those_of_the_api(served: Window) -> None:
    served.tell(Submit(specs=(script("a"), sweep("all"), script("b"), script("c"))))
    served.tell(ended("j1.1"))
    for path, shape in (("/queue/status", QueueStatus), ("/daemons/health", Health)):
        assert served.get(path).json == served.get(f"/api/v1{path}").json
        codec.adapter(shape).validate_json(served.get(path).body)
    found = served.get("/queue/status").json
    assert found["jobs"]["done"] == 1
    assert [kind["work"] for kind in found["kinds"]] == ["sweep", "script"]
    assert (found["devices"], found["nodes_up"]) == (2, 1)


def test_reading_them_changes_nothing(served: Window) -> None:
    before = served.get("/status").json["seq"]
    for path in ("/queue/status", "/daemons/health", "/metrics"):
        assert served.get(path).status == 200
        assert served.post(path).status == 405
    assert served.get("/status").json["seq"] == before


def test_the_queue_tells_who_has_waited_for_longest() -> None:
    found = queue_status(GIST)
    assert found.oldest_wait_s == 500.0
    (kind,) = found.kinds
    assert (kind.waiting, kind.held, kind.done) == (0, 1 + 2 + 3 + 4, 5)
    empty = queue_status(replace(GIST, works=(replace(WORK, jobs=NOTHING, oldest_at=None),)))
    assert (empty.oldest_wait_s, empty.kinds) == (None, ())


def slow(*, waiting: int, held: int, window_s: float | None, ends: float | None) -> Gist:
    """Readings of a fleet with so much to do, of which so much came to an end."""
    work = replace(WORK, jobs={**NOTHING, JobState.PENDING: waiting, JobState.RUNNING: held})
    pace = replace(GIST.pace, window_s=window_s, attempts_per_h=ends, chunks_per_h=ends, games_per_h=ends)
    return replace(GIST, works=(work,), pace=pace)


@pytest.mark.parametrize(
    ("waiting", "held", "window_s", "ends", "verdict"),
    [
        (3, 2, 3600.0, 5.0, "progressing"),
        (0, 0, 3600.0, 5.0, "progressing"),
        (0, 0, 3600.0, 0.0, "idle"),
        (0, 0, None, None, "idle"),
        (3, 2, None, None, "beginning"),
        (3, 2, 3600.0, 0.0, "stalled"),
        (3, 0, 3600.0, 0.0, "stalled"),
    ],
)
def test_health_is_what_comes_to_an_end(
    waiting: int, held: int, window_s: float | None, ends: float | None, verdict: str
) -> None:
    found = health(slow(waiting=waiting, held=held, window_s=window_s, ends=ends), ())
    assert found.verdict == verdict
    assert found.why


def test_parts_tell_their_age_and_what_keeps_them_from_work() -> None:
    parts = (
        Part(name="journal", does="writes", last_at=NOW - 4, times=9, fault="disk full"),
        Part(name="ratings", does="fits", last_at=None, times=0, fault=None),
    )
    found = health(GIST, parts)
    assert [(part.age_s, part.fault) for part in found.parts] == [(4.0, "disk full"), (None, None)]
    assert found.faults == 1
