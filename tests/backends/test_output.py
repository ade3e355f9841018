"""Both streams as nodes tell them: checked where they come in, and in no order where a node knows none."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.backends.output import output_of, read_output
from hostler.model.codec import adapter
from hostler.model.errors import LinkLost, NotFound
from hostler.model.views import LogChunk, Output

GOOD: dict[str, Any] = {"offset": [2, 0], "pieces": [["out", "YWI="], ["err", "Yw=="]], "size": [4, 9]}
NUMBER = st.one_of(st.integers(), st.booleans(), st.floats(), st.none(), st.text(max_size=3))
PIECE = st.one_of(
    st.lists(st.one_of(st.sampled_from(["out", "err", "YWI=", "YW", "€", ""]), st.none()), max_size=3), NUMBER
)
ANSWER = st.fixed_dictionaries(
    {},
    optional={
        "offset": st.one_of(st.lists(NUMBER, max_size=3), NUMBER),
        "pieces": st.one_of(st.lists(PIECE, max_size=3), NUMBER),
        "size": st.one_of(st.lists(NUMBER, max_size=3), NUMBER),
    },
)


@given(told=ANSWER, good=st.sets(st.sampled_from(sorted(GOOD))))
def test_whatever_a_node_tells_is_an_output_or_costs_it_the_link(told: dict[str, Any], good: set[str]) -> None:
    try:
        made = output_of("n", "j1.1", 100, {**told, **{name: GOOD[name] for name in good}}, ended=False)
    except LinkLost:
        return
    assert adapter(Output).validate_json(adapter(Output).dump_json(made)) == made
    assert (made.out, made.err) <= made.ends


@pytest.mark.parametrize(
    "wrong",
    [
        {"offset": [-1, 0]},
        {"offset": [3, 0]},
        {"size": [1 << 63, 0]},
        {"pieces": [["out", base64.b64encode(b"x" * 101).decode()]], "size": [1000, 0]},
        {"pieces": [["out", ""]]},
        {"pieces": [["in", "YQ=="]]},
        {"pieces": [["out", "Y"]]},
        {"pieces": [["out", "YQ=="]] * 5000, "size": [9000, 0]},
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(LinkLost, match="cannot be understood"):
        output_of("n", "j1.1", 100, {**GOOD, **wrong}, ended=False)


def test_ends_are_counted_by_the_bytes() -> None:
    made = output_of("n", "j1.1", 100, GOOD, ended=True)
    assert (made.ends, made.is_whole, made.ended) == ((4, 1), False, True)


class Old:
    """A node of before: it reads one stream at a time."""

    def __init__(self, **streams: bytes) -> None:
        self.streams = streams

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        if stream not in self.streams:
            raise NotFound(stream)
        whole = self.streams[stream]
        data = whole[offset : offset + limit]
        return LogChunk(attempt=attempt, stream=stream, offset=offset, data=data, size=len(whole), ended=True)


@pytest.mark.anyio
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_a_node_without_an_order_is_read_out_and_then_err(limit: int) -> None:
    node, at, found = Old(out=b"ooooo", err=b"eee"), (0, 0), b""
    while True:
        piece = await read_output(node, "j1.1", *at, limit)
        found += b"".join(base64.b64decode(each.data) for each in piece.pieces)
        at = piece.ends
        if piece.is_whole:
            break
        assert piece.pieces
    assert found == b"oooooeee"


@pytest.mark.anyio
async def test_one_stream_alone_is_an_output() -> None:
    assert (await read_output(Old(err=b"e"), "j1.1", 0, 0, 10)).ends == (0, 1)
    with pytest.raises(NotFound):
        await read_output(Old(), "j1.1", 0, 0, 10)
