"""Whether an event can be read back from a journal as it is: checked before it is applied and written."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

from hostler.model.codec import adapter, explain
from hostler.model.texts import NUL_IN_JSON, nul_fault

NO_FORM = "JSON has no form for some of its values (half of a surrogate pair, an object, too many levels)"
OTHER_TYPE = "a value is of another type than its field"


def readback_fault(value: object) -> str | None:
    """Why a record would not come back from every journal equal to itself; `None` where it would.

    A value of another type than its field's, NaN, infinity, half of a surrogate pair, a number out of its bounds and a
    NUL character are such faults. Types are believed here as little as in any text: Python does not check them.
    """
    shape = adapter(type(value))
    try:
        text = shape.dump_json(value, warnings="error")
        back = shape.validate_json(text)
    except (ValidationError, PydanticSerializationError, ValueError, RecursionError):
        return _in_words(value)
    if back != value:
        return "it would be read back as another one (NaN, infinity, a tuple in a result)"
    return nul_fault(value) if NUL_IN_JSON in text else None


def _in_words(value: object) -> str:
    """What is wrong with a record, in the words of the model."""
    shape = adapter(type(value))
    try:
        text = shape.dump_json(value, warnings=False)
    except (PydanticSerializationError, ValueError, RecursionError):
        return NO_FORM
    try:
        shape.validate_json(text)
    except ValidationError as error:
        return explain(error, from_json(text))
    return OTHER_TYPE
