"""Results of function calls as they come from nodes that may be anybody's."""

from __future__ import annotations

import base64
import json
import math
import pickle
import sys
import traceback
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.client.call_errors import RemoteError, ResultError, WorkerDied
from hostler.client.call_results import outcome
from hostler.workloads.calls import worker

numpy = pytest.importorskip("numpy")

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.just("$") | st.binary(), inner)
    ),
    max_leaves=20,
)


def returned(value: Any) -> Any:
    found = outcome(json.loads(worker.returned(3, value, False, pickle.dumps)), trust=False)
    assert found.error is None
    return found.value


@settings(deadline=None)
@given(VALUES)
def test_values_come_back_as_they_were_with_their_types(value: Any) -> None:
    back = returned(value)
    assert (back, repr(back)) == (value, repr(value))


def test_what_is_not_a_number_comes_back() -> None:
    assert math.isnan(returned(math.nan))
    assert returned(-math.inf) == -math.inf


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(6).reshape(2, 3),
        numpy.arange(6).reshape(2, 3).T,
        numpy.zeros((0, 3), "f4"),
        numpy.array(7, ">u2"),
        numpy.array(["a", "bc"]),
        numpy.array(["2026-01-01"], "M8[D]"),
        numpy.array([True, False]),
        numpy.array([1j], "c8"),
    ],
)
def test_arrays_come_back_with_dtype_shape_and_values(array: Any) -> None:
    back = returned({"deep": [array]})["deep"][0]
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert (back == array).all()
    assert back.flags.writeable


def test_scalars_of_numpy_stay_scalars_of_numpy() -> None:
    back = returned(numpy.float32(1.5))
    assert (type(back), back) == (numpy.float32, 1.5)


class Trace:
    """Fails where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("it was unpickled",)


PICKLE = base64.b64encode(pickle.dumps(Trace())).decode()
ERROR = {"type": "ValueError", "text": "t", "args": None, "traceback": "…"}


def test_no_pickle_of_a_node_is_read_without_trust() -> None:
    assert isinstance(outcome({"pickle": PICKLE}, trust=False).error, ResultError)
    assert isinstance(outcome({"error": {**ERROR, "pickle": PICKLE}}, trust=False).error, ValueError)


@pytest.mark.parametrize(
    "hit",
    [
        {},
        {"value": 1},
        {"value": "{"},
        {"value": "[" * 100_000},
        {"value": "1" * 5000},
        {"value": '{"$":1}'},
        {"value": '{"$":[]}'},
        {"value": '{"$":["eval","1"]}'},
        {"value": '{"$":["dict",[[[],1]]]}'},
        {"value": '{"$":["dict",[[{"$":["dict",[]]},1]]]}'},
        {"value": '{"$":["bytes","é"]}'},
        {"value": '{"$":["bytes",null]}'},
        {"value": '{"$":["complex",[1,2,3]]}'},
        {"value": '{"$":["array","<i8",[2],"AAAA"]}'},
        {"value": '{"$":["array","<i8",[1000000000000],""]}'},
        {"value": '{"$":["array","<i8",[-1],""]}'},
        {"value": '{"$":["array","O",[0],""]}'},
        {"value": '{"$":["array","i8,i8",[0],""]}'},
        {"value": '{"$":["array","nonsense",[0],""]}'},
        {"value": '{"$":["array",[["a","<i8"]],[0],""]}'},
        {"error": None},
        {"error": {}},
        {"error": {**ERROR, "args": "{"}},
        {"error": {**ERROR, "args": "1"}},
        {"error": {**ERROR, "type": None}},
        {"died": None},
        {"unfit": 1},
        {"unloadable": []},
    ],
)
def test_a_malformed_result_is_an_error_of_its_call(hit: dict[str, Any]) -> None:
    assert outcome(hit, trust=False).error is not None


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["value", "error", "died", "unfit", "unloadable", "traceback"]),
        st.recursive(SCALARS | st.just('{"$":["array","<i8",[1],"AAAA"]}'), st.lists),
    )
)
def test_no_hit_breaks_the_reader(hit: dict[str, Any]) -> None:
    outcome(hit, trust=False)


def fail(error: BaseException) -> None:
    raise error


def error_of(error: BaseException, trust: bool = False) -> BaseException:
    try:
        fail(error)
    except BaseException as caught:  # noqa: BLE001 - as the worker does
        hit = json.loads(worker.raised(1, caught, trust, pickle.dumps))
    found = outcome(hit, trust=trust).error
    assert found is not None
    return found


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a", 1),
        KeyError("k"),
        FileNotFoundError(2, "gone", "file"),
        ZeroDivisionError(),
        UnicodeDecodeError("u", b"x", 0, 1, "bad"),
    ],
)
def test_built_in_exceptions_come_back_as_themselves_with_the_remote_traceback(error: Exception) -> None:
    back = error_of(error)
    assert (type(back), back.args, str(back)) == (type(error), error.args, str(error))
    shown = "".join(traceback.format_exception(back))
    assert shown.index("Traceback (most recent call last)") < shown.index("direct cause")
    assert str(error) in shown


class OwnError(Exception):
    """An exception of the caller's."""


@pytest.mark.parametrize(
    "error",
    [OwnError("own"), SystemExit(3), KeyboardInterrupt(), StopIteration(1), ExceptionGroup("g", [ValueError()])],
)
def test_other_exceptions_are_remote_errors_that_name_the_class(error: BaseException) -> None:
    back = error_of(error)
    assert type(back) is RemoteError
    assert type(error).__name__ in str(back)


def test_a_trusted_exception_is_the_very_object() -> None:
    back = error_of(OwnError({1, 2}), trust=True)
    assert (type(back), back.args) == (OwnError, ({1, 2},))
    assert type(error_of(SystemExit(3), trust=True)) is RemoteError


class TwoArguments(Exception):
    """An exception whose pickle cannot be read: its base was given one argument, its class takes two."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.second = second


class ExitsWhenRead(Exception):
    """An exception whose pickle ends the process that reads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (3,)


@pytest.mark.parametrize("error", [TwoArguments("the reason", "more"), ExitsWhenRead("the reason")])
def test_a_trusted_exception_that_cannot_be_unpickled_is_told_as_without_trust(error: Exception) -> None:
    back = error_of(error, trust=True)
    assert type(back) is RemoteError
    assert str(back).endswith(f"{type(error).__name__}: the reason")
    shown = "".join(traceback.format_exception(back))
    assert "raise error" in shown
    assert "cannot be unpickled here" in shown


def test_a_built_in_exception_that_cannot_be_unpickled_stays_built_in() -> None:
    told = {**ERROR, "pickle": base64.b64encode(b"no pickle").decode()}
    back = outcome({"error": told}, trust=True).error
    assert (type(back), str(back)) == (ValueError, "t")


def test_a_trusted_result_that_ends_who_reads_it_is_an_error_of_its_call() -> None:
    data = base64.b64encode(pickle.dumps(ExitsWhenRead())).decode()
    assert isinstance(outcome({"pickle": data}, trust=True).error, ResultError)


class RaisesColour:
    """Raises a `Colour` where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return raise_colour, ()


class Colour(Exception):
    """An exception that is shown with control characters."""

    def __repr__(self) -> str:
        return "\x1b[2J"


def raise_colour() -> None:
    raise Colour


def test_messages_on_pickles_have_no_control_characters() -> None:
    data = base64.b64encode(pickle.dumps(RaisesColour())).decode()
    error = outcome({"pickle": data}, trust=True).error
    assert isinstance(error, ResultError)
    assert "\x1b" not in str(error)
    noted = outcome({"error": {**ERROR, "pickle": data}}, trust=True).error
    assert "\x1b" not in "".join(traceback.format_exception(noted))


def test_a_result_that_is_too_large_has_the_advice_for_its_size_alone() -> None:
    for trust in (False, True):
        with pytest.raises(worker.Unfit) as caught:
            worker.returned(1, "x" * worker.RESULT_BYTES, trust, pickle.dumps)
        error = outcome({"unfit": str(caught.value)}, trust=trust).error
        assert str(error).endswith("Save it to a file or a store, and return its path")
    with pytest.raises(worker.Unfit) as caught:
        worker.returned(1, {1}, False, pickle.dumps)
    assert str(outcome({"unfit": str(caught.value)}, trust=False).error).endswith("trust=True")


def test_a_dead_worker_has_an_error_of_its_own_without_control_characters() -> None:
    error = outcome({"died": "signal 11\x1b[2J"}, trust=False).error
    assert isinstance(error, WorkerDied)
    assert "\x1b" not in str(error)
