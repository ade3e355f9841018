"""The ledger against a model that knows of every item what became of it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from hostler.core.ledger import Ledger, coverage_fault, new_ledger
from hostler.model.errors import BrokenInvariant, IllegalTransition

ITEMS = 60
FAR = st.sampled_from([0, -ITEMS // 2, 2**63 - 7, 2**64, -(2**130), 10**40])


class LedgerMachine(RuleBasedStateMachine):
    """Items are coloured free, leased (with the chunk's name) or done; a ledger must tell the same."""

    chunks = Bundle("chunks")

    def __init__(self) -> None:
        super().__init__()
        self.base = 0
        self.ledger = new_ledger(0, 0)
        self.colour: dict[int, str] = {}
        self.count = 0

    @precondition(lambda self: not self.colour)
    @rule(base=FAR)
    def begin(self, base: int) -> None:
        self.base = base
        self.ledger = new_ledger(base, base + ITEMS)
        self.colour = dict.fromkeys(range(ITEMS), "free")

    @precondition(lambda self: self.colour and self.ledger.free)
    @rule(target=chunks, length=st.integers(1, ITEMS))
    def lease_lowest(self, length: int) -> str:
        start, stop = self.ledger.next_free(length)
        assert self._run(start)
        assert start == self.base + min(self._of("free"))
        return self._lease(start, stop)

    @precondition(lambda self: self.colour)
    @rule(target=chunks, start=st.integers(-2, ITEMS + 1), length=st.integers(-1, 8))
    def lease_anywhere(self, start: int, length: int) -> str:
        wanted = range(start, start + length)
        if wanted and all(self.colour.get(item) == "free" for item in wanted):
            return self._lease(self.base + start, self.base + start + length)
        with pytest.raises(IllegalTransition):
            self.ledger.lease("bad", self.base + start, self.base + start + length)
        return "bad"

    @precondition(lambda self: self.colour)
    @rule(chunk=chunks, step=st.integers(-1, ITEMS))
    def shorten(self, chunk: str, step: int) -> None:
        mine = self._of(chunk)
        stop = self.base + (min(mine) if mine else 0) + step
        if not mine or not 0 < step < len(mine):
            with pytest.raises(IllegalTransition):
                self.ledger.shorten(chunk, stop)
            return
        self.ledger.shorten(chunk, stop)
        self.colour.update(dict.fromkeys(mine[step:], "free"))

    @precondition(lambda self: self.colour)
    @rule(chunk=consumes(chunks), step=st.integers(-1, ITEMS))
    def settle(self, chunk: str, step: int) -> None:
        mine = self._of(chunk)
        if not mine or not 0 <= step <= len(mine):
            with pytest.raises(IllegalTransition):
                self.ledger.settle(chunk, self.base + min(mine, default=0) + step)
            return
        self.ledger.settle(chunk, self.base + mine[0] + step)
        for nth, item in enumerate(mine):
            self.colour[item] = "done" if nth < step else "free"

    @invariant()
    def same_as_the_model(self) -> None:
        self.ledger.validate()
        assert [item + self.base for item in self._of("done")] == self._items(self.ledger.done)
        assert [item + self.base for item in self._of("free")] == self._items(self.ledger.free)
        assert self.ledger.done_items == len(self._of("done"))
        assert self.ledger.complete == (len(self._of("done")) == len(self.colour))

    @invariant()
    def intervals_are_sorted_and_merged(self) -> None:
        for intervals in (self.ledger.done, self.ledger.free):
            assert all(left[1] < right[0] for left, right in itertools.pairwise(intervals))

    def _lease(self, start: int, stop: int) -> str:
        self.count += 1
        chunk = f"j1.{self.count}"
        self.ledger.lease(chunk, start, stop)
        for item in range(start - self.base, stop - self.base):
            self.colour[item] = chunk
        return chunk

    def _of(self, colour: str) -> list[int]:
        return [item for item, own in self.colour.items() if own == colour]

    def _run(self, start: int) -> bool:
        return self.colour.get(start - self.base) == "free"

    @staticmethod
    def _items(intervals: list[tuple[int, int]]) -> list[int]:
        return [item for start, stop in intervals for item in range(start, stop)]


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=20, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow])


def test_a_ledger_that_contradicts_itself_is_found() -> None:
    whole = Ledger(start=0, stop=10, done=[(0, 4)], free=[(5, 10)], done_items=4, free_items=5)
    with pytest.raises(BrokenInvariant, match=r"\[4, 5\) is missing"):
        whole.validate()
    whole.free = [(3, 10)]
    with pytest.raises(BrokenInvariant, match=r"\[3, 4\) is there twice"):
        whole.validate()
    whole.free, whole.done_items = [(4, 10)], 3
    with pytest.raises(BrokenInvariant, match="sums"):
        whole.validate()


def test_one_chunk_has_one_lease() -> None:
    ledger = new_ledger(0, 10)
    ledger.lease("a", 0, 1)
    with pytest.raises(IllegalTransition):
        ledger.lease("a", 1, 2)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=8, unique=True).map(sorted))
def test_a_partition_has_no_fault_and_any_change_of_it_has(edges: list[int]) -> None:
    parts = list(itertools.pairwise(edges))
    whole = edges[0], edges[-1]
    assert coverage_fault(whole, reversed(parts)) is None
    assert coverage_fault(whole, parts[1:]) is not None
    assert coverage_fault(whole, [*parts, parts[-1]]) is not None
    assert coverage_fault((whole[0], whole[1] + 1), parts) is not None


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 11), (9, 11), (10, 11), (5, 5), (6, 5), (3, 5), (-5, 20)])
def test_lease_of_what_is_not_free_is_refused(start: int, stop: int) -> None:
    ledger = new_ledger(0, 10)
    ledger.lease("a", 2, 4)
    with pytest.raises(IllegalTransition, match="not free"):
        ledger.lease("b", start, stop)
    assert (ledger.free, ledger.free_items, ledger.leased) == ([(0, 2), (4, 10)], 8, {"a": (2, 4)})


@pytest.mark.parametrize("stop", [1999, 2000, 3000, 3001, -1])
def test_lease_is_shortened_within_itself_only(stop: int) -> None:
    ledger = new_ledger(0, 5000)
    ledger.lease("a", 2000, 3000)
    with pytest.raises(IllegalTransition, match="cannot be made to end"):
        ledger.shorten("a", stop)
    assert ledger.leased == {"a": (2000, 3000)}


@pytest.mark.parametrize("position", [1999, 3001, -1])
def test_lease_is_settled_within_itself_only(position: int) -> None:
    ledger = new_ledger(0, 5000)
    ledger.lease("a", 2000, 3000)
    with pytest.raises(IllegalTransition, match="lies outside"):
        ledger.settle("a", position)
    assert (ledger.done, ledger.leased) == ([], {"a": (2000, 3000)})


@settings(max_examples=20)
@given(st.permutations(range(14)))
def test_chunks_that_end_in_any_order_are_merged(order: list[int]) -> None:
    ledger, done = new_ledger(0, 140), set[int]()
    for number in range(14):
        ledger.lease(f"c{number}", 10 * number, 10 * number + 10)
    for number in order:
        ledger.settle(f"c{number}", 10 * number + 10)
        done.update(range(10 * number, 10 * number + 10))
        edges = [at for at in range(141) if (at in done) != (at - 1 in done)]
        assert ledger.done == list(zip(edges[::2], edges[1::2], strict=True))
        ledger.validate()
    assert ledger.complete


def test_ledger_of_nothing_has_nothing_free() -> None:
    ledger = new_ledger(5, 5)
    assert (ledger.free, ledger.free_items, ledger.total, ledger.complete) == ([], 0, 0, True)


@pytest.mark.parametrize("parts", [[(0, 11)], [(0, 5), (5, 11)], [(0, 9)], [(-1, 10)], [], [(0, 4), (4, 4), (3, 10)]])
def test_parts_that_are_not_the_whole_have_a_fault(parts: list[tuple[int, int]]) -> None:
    assert coverage_fault((0, 10), parts) is not None
