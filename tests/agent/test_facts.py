from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostler.agent.facts import Facts
from hostler.agent.journal import Journal
from hostler.agent.state import State


@given(st.lists(st.integers(0, 12), max_size=12))
def test_exactly_the_unacknowledged_facts_are_kept(tmp_path_factory: pytest.TempPathFactory, steps: list[int]) -> None:
    journal = Journal(str(tmp_path_factory.mktemp("facts") / "journal"))
    facts, acked = Facts(journal, State()), 0
    for step in steps:
        if step < 8:
            facts.add({"fact": "ended", "attempt": f"j{facts.seq + 1}"})
        else:
            new = min(facts.seq, acked + step - 8)
            assert facts.acknowledge(acked + step - 8) is (new > acked)
            acked = new
        assert [fact.seq for fact in facts.after(0, 1 << 20)] == list(range(acked + 1, facts.seq + 1))
        assert facts.attempts == {f"j{seq}" for seq in range(acked + 1, facts.seq + 1)}
    journal.flush()
    assert State(journal.replay()).seq == facts.seq
    journal.close()


def test_batches_are_bounded_and_never_empty(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    facts = Facts(journal, State())
    for number in range(5):
        facts.add({"fact": "chunk_done", "chunk": f"c.{number}", "hits": ["x" * 100]})
    assert [fact.seq for fact in facts.after(1, 1)] == [2]
    assert [fact.seq for fact in facts.after(1, 400)] == [2, 3]
    assert facts.after(5, 400) == []
    assert facts.chunks == {f"c.{number}" for number in range(5)}
    journal.close()


def test_the_oldest_is_known_by_its_time(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    facts = Facts(journal, State())
    assert facts.oldest_at is None
    for at in (5.0, 6.0):
        facts.add({"fact": "ended", "attempt": f"j{at:g}", "at": at})
    assert facts.oldest_at == 5.0
    facts.acknowledge(1)
    assert facts.oldest_at == 6.0
    journal.flush()
    assert Facts(journal, State(journal.replay())).oldest_at == 5.0
    journal.close()
