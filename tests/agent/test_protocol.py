from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings, strategies as st

from hostler.agent.protocol import (
    LineBuffer,
    LineTooLong,
    RequestError,
    attempt_spec,
    chunk_specs,
    decode,
    encode,
    ends,
    id_list,
    is_id,
    loads,
    worker_spec,
)


@given(
    lines=st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"\n", b""))), cuts=st.lists(st.integers(1, 9))
)
def test_lines_are_whole_however_the_stream_is_cut(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    buffer, found = LineBuffer(20), []
    for cut in cuts:
        found += buffer.feed(stream[:cut])
        stream = stream[cut:]
    found += buffer.feed(stream)
    assert found == lines


@pytest.mark.parametrize("data", [b"x" * 11, b"ok\n" + b"x" * 11, b"x" * 11 + b"\n"])
def test_line_that_is_too_long_is_refused(data: bytes) -> None:
    with pytest.raises(LineTooLong, match="10 bytes"):
        LineBuffer(10).feed(data)


@given(st.text())
def test_an_id_is_a_safe_file_name(text: str) -> None:
    if is_id(text):
        assert text not in (".", "..")
        assert not set("/\0\n ") & set(text)
        assert text.isascii()


@settings(max_examples=50)
@given(st.recursive(st.none() | st.floats(allow_nan=False) | st.text() | st.integers(), st.lists, max_leaves=20))
def test_what_was_read_can_be_written(value: object) -> None:
    with contextlib.suppress(RequestError):
        assert json.loads(encode(loads(json.dumps(value).encode()))) == value


@pytest.mark.parametrize(
    "text", ["1e999", "-1e999", "[NaN]", "Infinity", "[" * 65 + "]" * 65, '{"x":' * 65 + "1" + "}" * 65, "[" * 10**5]
)
def test_what_could_not_be_written_is_not_read(text: str) -> None:
    with pytest.raises(RequestError, match="no JSON"):
        loads(text.encode())


def nested(levels: int) -> list[object]:
    return [] if levels == 1 else [nested(levels - 1)]


def test_a_result_may_have_64_levels_and_a_request_200() -> None:
    assert loads(encode(nested(64)).encode()) == nested(64)
    launch = {"type": "launch", "attempts": [{"id": "j1.1", "queue": "q", "argv": ["true"], "inputs": nested(197)}]}
    assert attempt_spec(decode(encode(launch).encode(), deepest=200)["attempts"][0]).inputs == nested(197)
    with pytest.raises(RequestError, match=r"'inputs' must be .* 197 levels"):
        attempt_spec({**launch["attempts"][0], "inputs": nested(198)})  # type: ignore[dict-item]
    with pytest.raises(RequestError, match=r"'open' must be .* 197 levels"):
        worker_spec({"id": "w", "queue": "q", "argv": ["w"], "open": {"digest": "", "params": nested(197)}})


@given(st.binary(max_size=60))
def test_bytes_are_an_object_or_a_request_error(data: bytes) -> None:
    with contextlib.suppress(RequestError):
        assert isinstance(decode(data), dict)


@given(
    st.dictionaries(
        st.sampled_from(["id", "queue", "argv", "env", "cwd", "grace_s", "memory_bytes"]),
        st.none() | st.booleans() | st.floats() | st.text() | st.lists(st.text()),
    )
)
def test_any_attempt_is_a_spec_or_a_request_error(raw: dict[str, object]) -> None:
    with contextlib.suppress(RequestError):
        spec = attempt_spec(raw)
        assert (spec.id, spec.argv) == (raw["id"], raw["argv"])


def test_good_chunks_are_taken_beside_bad_ones_which_are_named() -> None:
    good, bad, error = chunk_specs([["c1", 0, 5], ["empty", 3, 3], ["reversed", 5, 4], ["c4", 0], ["c5", 0, "9"], "c6"])
    assert good == [("c1", 0, 5), ("empty", 3, 3)]
    assert bad == ["reversed", "c4", "c5"]
    assert "integers start <= stop" in str(error)


def test_good_ends_and_ids_are_taken_beside_bad_ones() -> None:
    assert ends([["c1", 5], ["c2", "5"], ["../c3", 1], ["c4", True]])[0] == [("c1", 5)]
    assert id_list(["j1.1", "..", 5, "j2.1"], "attempts")[0] == ["j1.1", "j2.1"]


@pytest.mark.parametrize("raw", [None, {}, "c1", 5])
def test_list_that_is_none_has_no_good_item(raw: object) -> None:
    good, bad, error = chunk_specs(raw)
    assert (good, bad) == ([], [])
    assert error is not None
    assert ends(raw)[0] == []
    assert ends(raw)[1] is not None
    assert id_list(raw, "attempts")[1] is not None


def test_lists_without_a_bad_item_are_no_error() -> None:
    assert chunk_specs([["c1", -(2**70), 2**70]]) == ([("c1", -(2**70), 2**70)], [], None)
    assert ends([["c1", 0]]) == ([("c1", 0)], None)
    assert id_list([], "attempts") == ([], None)
