from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from hostler.agent.journal import Journal
from hostler.agent.protocol import encode

ENTRIES = st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3), max_size=8)


@settings(max_examples=50)
@given(entries=ENTRIES, torn=st.binary(max_size=40), cut=st.integers(0, 30))
def test_replay_gives_what_was_written_whatever_is_torn_off(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, object]], torn: bytes, cut: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    journal = Journal(str(path))
    for entry in entries:
        journal.append(encode(entry))
    assert journal.flush()
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: max(0, len(whole) - cut)] if cut else whole + torn.replace(b"\n", b""))
    again = Journal(str(path))
    replayed = list(again.replay())
    assert replayed == entries[: len(replayed)]
    lost = whole[max(0, len(whole) - cut) :].count(b"\n") if cut else 0
    assert len(replayed) == len(entries) - lost
    again.append(encode({"after": 1}))
    assert again.flush()
    assert list(again.replay()) == [*replayed, {"after": 1}]
    again.close()


def test_append_writes_nothing_before_flush(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.append('{"a":1}')
    assert list(journal.replay()) == []
    assert not journal.is_clean
    assert journal.flush()
    assert journal.is_clean
    assert journal.size == 8
    journal.close()


def test_rewrite_replaces_everything_and_goes_on(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    for number in range(100):
        journal.append(encode({"n": number}))
    journal.flush()
    journal.rewrite([{"all": 100}])
    journal.append('{"n":101}')
    journal.flush()
    assert list(journal.replay()) == [{"all": 100}, {"n": 101}]
    assert journal.size == (tmp_path / "journal").stat().st_size
    journal.close()


def test_full_disk_keeps_everything_in_memory_and_says_so() -> None:
    journal = Journal("/dev/full")
    journal.append('{"a":1}')
    assert not journal.flush()
    assert journal.error is not None
    assert "No space left" in journal.error
    assert not journal.is_clean
    journal.close()
