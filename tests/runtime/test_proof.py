from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from hostler.model.events import ChunkDone, ChunkLeased, ChunkReturned, Entry, Event
from hostler.runtime.proof import proof_of

BIG = 2**80


def story(*events: Event) -> list[Entry]:
    return [Entry(seq=seq, at=0.0, event=event) for seq, event in enumerate(events, start=1)]


def leased(chunk: str, start: int, stop: int) -> ChunkLeased:
    return ChunkLeased(job="j1", chunk=chunk, device="d", start=start, stop=stop, expected_s=None)


def done(chunk: str, *hits: int) -> ChunkDone:
    return ChunkDone(chunk=chunk, hits=tuple({"at": hit} for hit in hits), elapsed_s=1.0)


def returned(chunk: str, position: int) -> ChunkReturned:
    return ChunkReturned(chunk=chunk, position=position, hits=(), reason="x", error=None, blame=False)


def test_a_complete_sweep_is_proved() -> None:
    entries = story(
        leased("a", 0, 5), leased("b", 5, BIG), done("b", 7), returned("a", 2), leased("c", 2, 5), done("c")
    )
    proof = proof_of("j1", (0, BIG), entries)
    assert (proof.complete, proof.fault, proof.done, proof.intervals, proof.hits) == (True, None, BIG, 3, 1)


def test_a_hole_is_not_complete_and_a_doublet_is_a_fault() -> None:
    hole = proof_of("j1", (0, 10), story(leased("a", 0, 4), done("a"), leased("b", 6, 10), done("b")))
    assert (hole.complete, hole.fault, hole.done) == (False, None, 8)
    twice = proof_of("j1", (0, 10), story(leased("a", 0, 6), done("a"), leased("b", 4, 10), done("b")))
    assert (twice.complete, twice.fault) == (False, "[4, 6) is there twice")
    beyond = proof_of("j1", (0, 10), story(leased("a", 0, 11), done("a")))
    assert (beyond.complete, beyond.fault) == (False, "it ends at 11, not at 10")


def test_what_is_only_leased_is_not_done() -> None:
    proof = proof_of("j1", (0, 10), story(leased("a", 0, 10)))
    assert (proof.complete, proof.done) == (False, 0)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.randoms())
def test_any_cutting_in_any_order_is_proved(lengths: list[int], random: object) -> None:
    edges = [0]
    for length in lengths:
        edges.append(edges[-1] + length)
    parts = list(pairwise(edges))
    random.shuffle(parts)  # type: ignore[attr-defined]
    events = [event for at, part in enumerate(parts) for event in (leased(f"c{at}", *part), done(f"c{at}"))]
    assert proof_of("j1", (0, edges[-1]), story(*events)).complete
    assert proof_of("j1", (0, edges[-1]), story(*events[:-1])).complete is False
