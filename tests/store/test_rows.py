"""Rows go in many at a time: each column comes out as it went in, on both databases."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from hostler.store import tables
from hostler.store.dialect import ROWS, Place, insert_rows
from hostler.store.opening import open_journal
from tests.store.conftest import asked

TEXTS = ("", 'a "b" \\ {c}, %s %(d)s', "\\u0000 \\n\n\t", "ÄÖ 東京 🙂", "null", "'; drop table journal; --")


def test_texts_numbers_and_nulls_come_back_as_they_went_in(place: Place) -> None:
    rows = [
        {
            "seq": (1 << 62) + number,
            "at": 1795560943.1208913 + number / 3,
            "job": job,
            "data": data,
            "epoch": epoch,
            "checksum": number,
        }
        for number, (data, job, epoch) in enumerate(
            (text, *more) for text in TEXTS for more in ((None, None), (text, 7))
        )
    ]
    assert _inserted(place, rows) == rows


def test_more_rows_than_one_statement_takes(place: Place) -> None:
    rows = [
        {"seq": seq, "at": 0.1, "job": None, "data": "{}", "epoch": 1, "checksum": 0} for seq in range(1, 2 * ROWS + 2)
    ]
    assert _inserted(place, rows) == rows


def test_replacing_changes_all_but_the_key_and_keeps_the_others(place: Place) -> None:
    open_journal(place).close()
    first, second, changed = _job("j1", None), _job("j2", 2.5), _job("j1", 3.25)
    with asked(place) as connection:
        insert_rows(connection, tables.jobs, [first, second], replacing=True)
        insert_rows(connection, tables.jobs, [changed], replacing=True)
        found = connection.execute(select(tables.jobs).order_by(tables.jobs.c.id)).mappings()
        assert [dict(row) for row in found] == [changed, second]


def _inserted(place: Place, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    open_journal(place).close()
    with asked(place) as connection:
        insert_rows(connection, tables.journal, rows)
        return [
            dict(row) for row in connection.execute(select(tables.journal).order_by(tables.journal.c.seq)).mappings()
        ]


def _job(name: str, started_at: float | None) -> dict[str, Any]:
    return {
        "id": name,
        "number": int(name[1:]),
        "name": f"of {name}, {started_at}",
        "work": "script",
        "state": "waiting",
        "priority": -3,
        "submitted_at": 1.1,
        "started_at": started_at,
        "ended_at": None,
        "attempts": 0 if started_at is None else 1,
        "why": None,
    }
