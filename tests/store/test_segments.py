"""Segments hold what they were made of, exactly, and say so when they do not."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.errors import CorruptState
from hostler.store import Place, open_journal, segments
from hostler.store.segments import MEMBERS, Content, Row, Segment, _blocks, _number, pack, write
from tests.store.conftest import asked

TIMES = st.floats(allow_nan=False, allow_infinity=False)
JOBS = st.none() | st.from_regex(r"j[1-9][0-9]{0,6}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)))


@st.composite
def some_rows(draw: st.DrawFn) -> list[Row]:
    first = draw(st.integers(1, 2**40))
    many = draw(st.integers(1, 30))
    return [
        Row(first + place, draw(TIMES), draw(JOBS), draw(TEXTS), draw(st.none() | st.integers(1, 2**40)))
        for place in range(many)
    ]


def made(first: int = 1, many: int = 20) -> tuple[Segment, list[Row]]:
    rows = [Row(seq, seq / 3, f"j{seq // 3 + 1}", f'{{"n":{seq}}}', seq // 10) for seq in range(first, first + many)]
    return pack(rows), rows


@settings(max_examples=25)
@given(some_rows())
def test_what_goes_in_comes_out(rows: list[Row]) -> None:
    content = Content(pack(rows))
    assert content.rows() == rows
    assert content.last == rows[-1].seq
    assert content.rows(rows[0].seq) == rows[1:]
    assert content.rows(rows[0].seq - 1, 3) == rows[:3]
    for job in {row.job for row in rows if row.job is not None}:
        assert list(content.of_job(job)) == [row for row in rows if row.job == job]


def test_times_are_kept_to_the_last_bit() -> None:
    times = [0.0, -0.0, 1e-300, 0.1 + 0.2, 1_760_000_000.25, math.nextafter(1_760_000_000.25, 2e9), 1e300]
    rows = [Row(seq, at, None, "{}", None) for seq, at in enumerate(times, 1)]
    assert [row.at.hex() for row in Content(pack(rows)).rows()] == [at.hex() for at in times]


def test_what_would_not_come_back_is_refused() -> None:
    with pytest.raises(CorruptState, match="entries 1 to 1 would not come back"):
        pack([Row(1, 1.0, "", "{}", None)])
    with pytest.raises(CorruptState, match="segment of entries 1 to 2 holds other entries"):
        pack([Row(1, 1.0, None, "{\n}", None), Row(2, 1.0, None, "{}", None)])


def test_no_flipped_bit_passes() -> None:
    """But for those that fill the last byte before zlib's checksum, and mean nothing."""
    segment, rows = made()
    for place, bit in product(range(len(segment.data)), range(8)):
        flipped = bytearray(segment.data)
        flipped[place] ^= 1 << bit
        changed = replace(segment, data=bytes(flipped))
        if place == len(flipped) - 5 and is_the_same(changed, segment):
            assert Content(changed).rows() == rows
            continue
        with pytest.raises(CorruptState, match="the segment of entries 1 to 20 is damaged"):
            Content(changed)


def is_the_same(one: Segment, two: Segment) -> bool:
    """Whether zlib reads the same in both."""
    try:
        return zlib.decompress(one.data) == zlib.decompress(two.data)
    except zlib.error:
        return False


@pytest.mark.parametrize(
    "changed",
    [
        {"first": 2},
        {"last": 21},
        {"entries": 19},
        {"first_at": 0.0},
        {"last_epoch": 7},
        {"sha256": "0" * 64},
        {"data": made()[0].data + b"more"},
        {"data": b""},
        {"data": b"what is this"},
        {"content_bytes": 3},
    ],
    ids=str,
)
def test_columns_that_say_something_else_are_found(changed: dict[str, object]) -> None:
    segment, _ = made()
    with pytest.raises(CorruptState, match="the segment of entries"):
        Content(replace(segment, **changed))  # type: ignore[arg-type]


@given(st.sets(st.integers(1, 10**9), max_size=50))
def test_each_job_has_a_bit_of_its_own(numbers: set[int]) -> None:
    blocks = _blocks(Row(1, 1.0, f"j{number}", "", None) for number in numbers)
    found = {block * MEMBERS + place for block, bits in blocks.items() for place in range(64) if bits >> place & 1}
    assert found == numbers
    assert all(0 < bits < 2**63 for bits in blocks.values())


def test_jobs_that_are_called_otherwise_have_a_number_too() -> None:
    assert _number("j12") == 12
    assert _number("j" + "9" * 30) < 2**32
    assert _number("a") == _number("a") < 2**32


def test_only_segments_that_have_a_job_are_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    open_journal(place).close()
    with asked(place) as connection:
        for first in (1, 21, 41):
            write(connection, *made(first))
        read: list[int] = []
        inner = segments._beginning
        monkeypatch.setattr(
            segments, "_beginning", lambda connection, first: (read.append(first), inner(connection, first))[1]
        )
        assert [row.seq for row in segments.of_job(connection, "j8")] == [21, 22, 23]
        assert read == [21]
        assert [row.seq for row in segments.of_job(connection, "j7")] == [18, 19, 20]
        assert list(segments.of_job(connection, "j99")) == []
        assert read == [21, 1]
        assert sorted(segments.at(connection, [5, 45, 99, 20, 21])) == [5, 20, 21, 45]
        assert segments.last_seq(connection) == 60
        assert (segments.sums(connection).segments, segments.sums(connection).entries) == (3, 60)
        assert list(segments.faults(connection)) == []


def test_an_index_that_says_something_else_is_found(place: Place) -> None:
    open_journal(place).close()
    with asked(place) as connection:
        write(connection, *made())
        connection.exec_driver_sql("update segment_jobs set members = 1")
        connection.exec_driver_sql("insert into segment_jobs (block, first, members) values (1, 99, 1)")
        assert list(segments.faults(connection)) == [
            "the jobs in the segment that begins with entry 1 are others than segment_jobs says",
            "1 rows of segment_jobs name segments that there are not",
        ]
