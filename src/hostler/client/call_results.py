"""What a function call returned or raised, from the hit that its node sent. Nodes are not trusted: without `trust` no
byte of theirs is unpickled, and what is malformed is an error of that call."""

from __future__ import annotations

import base64
import binascii
import builtins
import json
import pickle
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hostler.client.call_errors import CallFailed, RemoteError, ResultError, WorkerDied

KINDS = "biufcmMSU"
"""Of the dtypes of arrays; others hold objects, or bytes without a meaning of their own."""
DTYPE_LENGTH = 32
REMEDY = "Install it there, or make the Executor with `cwd`, the folder that has it"


class Outcome(NamedTuple):
    """Of a call: its value, or the exception."""

    value: Any
    error: BaseException | None


class RemoteTraceback(Exception):
    """The traceback of the node, as the cause of an exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def outcome(hit: Mapping[str, Any], *, trust: bool) -> Outcome:
    """What became of a call. It never raises."""
    try:
        return Outcome(_value(hit, trust), None)
    except CallFailed as error:
        return Outcome(None, error)
    except _Raised as raised:
        return Outcome(None, raised.error)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
        return Outcome(None, ResultError(f"the result cannot be read: {_shown(error)}. Look at the node's worker"))


class _Raised(Exception):
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _value(hit: Mapping[str, Any], trust: bool) -> Any:
    if "value" in hit:
        return decode(json.loads(hit["value"]))
    if "pickle" in hit:
        if not trust:
            raise ResultError("the node sent a pickle, which is not read without trust=True")
        return _unpickled(hit["pickle"])
    if "error" in hit:
        raise _Raised(_error(hit["error"], trust))
    if "died" in hit:
        raise WorkerDied(f"the call has no result: {printable(hit['died'])}. Its log is on the node")
    if "unfit" in hit:
        raise ResultError(f"the result cannot be sent: {printable(hit['unfit'])}")
    if "unloadable" in hit:
        error = RemoteError(f"the call cannot be loaded on the node: {printable(hit['unloadable'])}. {REMEDY}")
        error.__cause__ = RemoteTraceback(printable(hit.get("traceback", "")))
        raise error
    raise ResultError("the result has none of the known forms")


def _unpickled(text: str) -> Any:
    try:
        return pickle.loads(base64.b64decode(text, validate=True))  # noqa: S301 - its owner trusts the nodes
    except BaseException as error:  # what ends an interpreter would end the thread that reads
        raise ResultError(f"the result cannot be unpickled here: {_shown(error)}") from error


def _shown(error: BaseException) -> str:
    """An exception for a message, whatever its class does where it is shown."""
    try:
        return printable(f"{error!r:.200}")
    except Exception:  # noqa: BLE001 - the code of any class
        return type(error).__qualname__


def _error(told: Mapping[str, Any], trust: bool) -> BaseException:
    found: Any = None
    unread: ResultError | None = None
    if trust and "pickle" in told:
        try:
            found = _unpickled(told["pickle"])
        except ResultError as caught:
            unread = caught
    # What ends an interpreter ended only the call.
    is_fit = isinstance(found, Exception) and not isinstance(found, StopIteration)
    error: BaseException | None = found if is_fit else _built_in(told)
    if error is None:
        error = RemoteError(f"{printable(told['type'])}: {printable(told['text'])}")
    error.__cause__ = RemoteTraceback(printable(told["traceback"]))
    if unread is not None:
        error.add_note(f"This stands for the exception itself: {unread}")
    return error


def _built_in(told: Mapping[str, Any]) -> BaseException | None:
    """The exception of that name, if it is one of Python's own and takes the arguments."""
    shape = getattr(builtins, str(told["type"]), None)
    if not isinstance(shape, type) or not issubclass(shape, Exception):
        return None
    if issubclass(shape, StopIteration | StopAsyncIteration):  # no future can hold the first, and no coroutine either
        return None
    arguments = [told["text"]] if told["args"] is None else decode(json.loads(told["args"]))
    try:
        made: Exception = shape(*arguments)
    except Exception:  # noqa: BLE001 - the constructor of any built-in exception
        return None
    return made


def printable(text: object) -> str:
    """The text without control characters, which a terminal would obey."""
    return "".join(item if item.isprintable() or item in "\n\t" else "?" for item in str(text))


# --- values ----------------------------------------------------------------------------------------------------------


def decode(value: Any) -> Any:
    """The value that the worker's `encode` was given. Raises `ResultError`, and `ValueError` for what is malformed."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: decode(item) for key, item in value.items()}
    name, *rest = value["$"]
    return DECODERS[name](*rest)


def _dict(items: list[Any]) -> Any:
    return {decode(key): decode(item) for key, item in items}


def _tuple(items: list[Any]) -> Any:
    return tuple(decode(item) for item in items)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _complex(parts: list[float]) -> complex:
    return complex(*parts)


def _array(dtype: str, shape: list[int], text: str) -> Any:
    try:
        import numpy
    except ImportError as error:
        raise ResultError("the result has an array, and numpy is not installed here. Install numpy") from error
    if type(dtype) is not str or len(dtype) > DTYPE_LENGTH:
        raise ValueError("not a dtype")
    kind, data = numpy.dtype(dtype), _bytes(text)
    if kind.kind not in KINDS or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("not an array of numbers, times or text")
    items = 1
    for size in shape:
        items *= size
    if items * kind.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes are not {items} items of {kind}")
    return numpy.ndarray(tuple(shape), kind, data).copy()


def _scalar(dtype: str, shape: list[int], text: str) -> Any:
    return _array(dtype, shape, text)[()]


DECODERS: Mapping[str, Callable[..., Any]] = {
    "dict": _dict,
    "tuple": _tuple,
    "bytes": _bytes,
    "complex": _complex,
    "array": _array,
    "scalar": _scalar,
}
