"""What is remembered: as much as there is room for, the latest used, and nothing that is too old."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hostler.workloads.gameboy.advice.answers import Advice
from hostler.workloads.gameboy.advice.memory import Memory

USES = st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.floats(0, 5)), max_size=60)


@given(USES, st.integers(1, 4), st.floats(1, 20))
def test_it_is_as_a_list_would_have_it(uses: list[tuple[bool, int, float]], entries: int, stale_s: float) -> None:
    memory, now = Memory(entries, stale_s), 0.0
    model: list[tuple[int, Advice, float]] = []
    for number, (is_put, state, gap) in enumerate(uses):
        now += gap
        found = next((each for each in model if each[0] == state), None)
        model = [each for each in model if each[0] != state]
        if is_put:
            advice = Advice(number, 0.5)
            memory.put(state, advice, now)
            model = [*model, (state, advice, now)][-entries:]
        elif found is not None and now - found[2] <= stale_s:
            assert memory.get(state, now) == found[1]
            model.append(found)
        else:
            assert memory.get(state, now) is None
    assert len(memory) == len(model)
