"""What the controller takes of one node: how much at once, how fast, in how many steps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from hostler.backends.bounds import (
    BEHIND_S,
    CONTAINERS_MOST,
    FILES_LINE,
    SLICE,
    USUAL,
    Bounds,
    LimitBroken,
    NodeFault,
    Pace,
)
from hostler.backends.channel import LINE_MAX
from hostler.backends.facts import input_of, so_far_of
from hostler.model.codec import adapter
from hostler.model.errors import LinkError
from hostler.model.inputs import Ended, Returned, SoFar, Trouble
from hostler.settings.models import Limits
from tests.fuzz.controller_lines import DONE, ENDED, OPENING, STARTED, TELEMETRY, _Node
from tests.fuzz.samples import said

pytestmark = pytest.mark.anyio
SMALL = Bounds(facts_per_s=10.0, facts_burst=1000)


class TestPace:
    def test_burst_is_read_at_once_and_a_backlog_at_the_rate(self) -> None:
        pace = Pace(SMALL, 0.0)
        assert pace.wait_s(1000, 100, 0.0) == 0.0
        assert pace.wait_s(100, 100, 0.0) == pytest.approx(10.0)
        assert pace.wait_s(100, 100, 10.0) == pytest.approx(10.0)

    def test_bucket_fills_again_and_no_further_than_the_burst(self) -> None:
        pace = Pace(SMALL, 0.0)
        assert pace.wait_s(1000, 0, 0.0) == 0.0
        assert pace.wait_s(1000, 0, 1e6) == 0.0
        assert pace.wait_s(1, 0, 1e6) > 0.0

    def test_line_with_more_facts_than_the_burst_loses_the_link(self) -> None:
        with pytest.raises(LimitBroken, match="facts_burst"):
            Pace(SMALL, 0.0).wait_s(1001, 0, 0.0)

    def test_node_that_never_pauses_loses_the_link(self) -> None:
        pace = Pace(SMALL, 0.0)
        pace.wait_s(1000, 0, 0.0)
        for at in range(int(BEHIND_S)):
            pace.wait_s(100, 0, float(at))
        with pytest.raises(LimitBroken, match="facts_per_s"):
            pace.wait_s(100, 0, BEHIND_S + 1.0)

    def test_lines_without_facts_and_their_bytes_count_too(self) -> None:
        pace = Pace(SMALL, 0.0)
        assert sum(pace.wait_s(None, 1, 0.0) > 0 for _ in range(60)) == 10
        pace = Pace(SMALL, 0.0)
        assert sum(pace.wait_s(1, 1, 0.0) > 0 for _ in range(210)) == 10
        assert Pace(SMALL, 0.0).wait_s(1, 1 << 30, 0.0) > 0


async def heard(*messages: Any, tail: bytes = b"", bounds: Bounds | None = None) -> tuple[list[Any], LinkError, int]:
    """The reports on what a node says, what ended the link, and how often other work could go on meanwhile."""
    reader = asyncio.StreamReader(limit=LINE_MAX)
    reader.feed_data(said(*OPENING, *messages) + tail)
    reader.feed_eof()
    node, reports, turns = _Node(reader), list[Any](), 0
    if bounds is not None:
        node._bounds = bounds

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    try:
        async for report in node.observe(1):
            reports.append(report)
    except LinkError as error:
        return reports, error, turns
    finally:
        beside.cancel()
    raise AssertionError("the link did not end")


async def test_facts_of_one_line_are_taken_in_parts_with_other_work_between() -> None:
    facts = [{**STARTED, "seq": at} for at in range(1, 2001)]
    reports, _, turns = await heard({"type": "facts", "facts": facts})
    parts = [each for each in reports[1:] if each.inputs]
    assert max(len(each.inputs) for each in parts) <= SLICE
    assert sum(len(each.inputs) for each in parts) == 2000
    assert [each.receipt for each in parts] == [None] * (len(parts) - 1) + [2000]
    assert turns >= len(parts)


async def test_progress_of_many_chunks_is_taken_in_parts() -> None:
    chunks = {f"j2.{at}": [1, 1] for at in range(1000)}
    reports, _, _ = await heard({"type": "progress", "chunks": chunks})
    parts = [each.inputs[0].chunks for each in reports[1:]]
    assert max(map(len, parts)) <= SLICE
    assert {name for part in parts for name in part} == set(chunks)


async def test_other_work_goes_on_between_lines_that_have_come_already() -> None:
    _, _, turns = await heard(*({"type": "unknown"} for _ in range(500)))
    assert turns >= 500


LARGE = "x" * (USUAL.line_bytes + 1)
BROKEN: dict[str, Callable[[], Any]] = {
    "facts in one line": lambda: {"type": "facts", "facts": [{"fact": "?"}] * 10_001},
    "unknown facts, as in F6": lambda: {"type": "facts", "facts": [{"seq": 1, "fact": "x"}] * 30_000},
    "long telemetry": lambda: {**TELEMETRY, "note": LARGE},
    "long message of no kind": lambda: {"type": "?", "note": LARGE},
    "several facts in a long line": lambda: {"type": "facts", "facts": [{**ENDED, "result": LARGE}, ENDED]},
    "longer than any result": lambda: {"type": "facts", "facts": [{**ENDED, "result": "x" * USUAL.longest_line}]},
    "many lists": lambda: {"type": "so_far", "attempt": "j1.1", "result": [[]] * (CONTAINERS_MOST + 1)},
}


@pytest.mark.parametrize("what", BROKEN)
async def test_node_beyond_a_limit_loses_its_link_and_nothing_of_the_line_is_taken(what: str) -> None:
    reports, error, _ = await heard(BROKEN[what]())
    assert isinstance(error, LimitBroken)
    assert len(reports) == 1


async def test_line_that_never_ends_loses_the_link() -> None:
    _, error, _ = await heard(tail=b"x" * (LINE_MAX + 1))
    assert isinstance(error, LimitBroken)


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"type":"progress"}', b"nonsense", b'{"at":NaN}', b"[1]", b'"x"'])
async def test_line_that_cannot_be_understood_closes_the_link(line: bytes) -> None:
    _, error, _ = await heard(tail=line + b"\n")
    assert isinstance(error, NodeFault)


async def test_owner_sets_the_limits() -> None:
    bounds = Bounds(line_bytes=1 << 16, hits_bytes=1 << 16, result_bytes=1 << 10, facts_burst=1000)
    _, error, _ = await heard({"type": "facts", "facts": [{"fact": "?"}] * 1001}, bounds=bounds)
    assert "1000 are allowed" in str(error)
    _, error, _ = await heard({**TELEMETRY, "note": "x" * (1 << 16)}, bounds=bounds)
    assert isinstance(error, LimitBroken)


def test_bounds_without_settings_are_the_defaults_of_settings() -> None:
    limits = Limits()
    assert {name: getattr(limits, name) for name in adapter(Bounds).dump_python(USUAL)} == adapter(Bounds).dump_python(
        USUAL
    )


def test_lines_about_files_have_eight_mebibytes_whatever_the_other_limits() -> None:
    """As `docs/reference/agent-protocol.md` promises agents."""
    assert FILES_LINE == 8 * 1024 * 1024
    assert Bounds(line_bytes=1 << 16, hits_bytes=1 << 16, result_bytes=1 << 10).longest_read == FILES_LINE
    assert Bounds(hits_bytes=64 << 20).longest_read == (64 << 20) + (1 << 20)


# Single values.


def test_result_beyond_its_limit_is_not_taken_and_its_attempt_fails_with_the_reason() -> None:
    given = input_of("n", {**ENDED, "result": "x" * USUAL.result_bytes})
    assert isinstance(given, Ended)
    assert given.result is None
    assert "limits.result_bytes" in str(given.result_error)
    assert given.exit_code == 0
    whole = input_of("n", {**ENDED, "result": "ö" * (USUAL.result_bytes // 2 - 1)})
    assert isinstance(whole, Ended)
    assert whole.result_error is None


def test_result_so_far_beyond_its_limit_is_a_fault() -> None:
    message = {"type": "so_far", "attempt": "j1.1", "result": "x" * USUAL.result_bytes}
    assert isinstance(so_far_of("n", message), Trouble)
    assert isinstance(so_far_of("n", {**message, "result": {"a": 1}}), SoFar)


@pytest.mark.parametrize("text", ["x" * 100_000, "ö" * 100_000, "broken\0pipe", "half \ud800 pair"])
@pytest.mark.parametrize("field", ["error", "result_error", "evidence"])
def test_texts_are_cut_and_have_neither_nul_nor_halves_of_pairs(field: str, text: str) -> None:
    given = input_of("n", {**ENDED, field: text})
    assert isinstance(given, Ended)
    assert given.reason is None
    kept = getattr(given, field)
    assert 0 < len(kept.encode()) <= USUAL.error_bytes
    assert "\0" not in kept


@pytest.mark.parametrize("fact", [ENDED, DONE])
@pytest.mark.parametrize("name", ["", "j1.1\0", "../j1.1", "x" * 129, "j1 1", "\ud800", 5, None, ["j1.1"]])
def test_name_that_is_none_names_no_attempt_and_no_chunk(fact: dict[str, Any], name: object) -> None:
    part = "attempt" if fact is ENDED else "chunk"
    given = input_of("n", {**fact, part: name})
    assert isinstance(given, Trouble)
    assert len(given.what) < 1000


def test_deep_result_is_not_taken() -> None:
    deep: Any = 1
    for _ in range(USUAL.depth + 1):
        deep = [deep]
    given = input_of("n", {**ENDED, "result": deep})
    assert isinstance(given, Ended)
    assert given.result is None
    for _ in range(20):
        deep = [deep]
    assert isinstance(input_of("n", {**DONE, "hits": [{"at": 1, "x": deep}]}), Returned)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("exit_code", 2**40), ("signal", -(2**40)), ("cpu_s", 1e13), ("cpu_s", -1.0), ("max_rss_bytes", 2**63),
        ("max_rss_bytes", -1), ("started_at", 1e300), ("at", -5.0), ("at", 10**400), ("reason", "x" * 257),
        ("reason", "a\0b"),
    ],
)  # fmt: skip
def test_number_or_word_beyond_its_limits_makes_the_report_unreadable(field: str, value: object) -> None:
    given = input_of("n", {**ENDED, field: value})
    assert isinstance(given, Ended)
    assert given.reason == "lost"
    assert json.dumps(given.error)
