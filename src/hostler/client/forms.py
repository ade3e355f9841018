"""The check of answers: whether a document has the form that the controller's interface gives it (`answer_forms`).

An answer comes from any server at an address: no controller, a broken one, or one of another version. What has another
form is an error here, once, and not wherever a value of it is used. Fields that are unknown here are left as they are.
An object that lacks some of its fields, as one of an earlier controller may, is an error where such a field is read;
one that has none of them is an error at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from hostler.client.answer_forms import ANSWERS, OBJECTS
from hostler.model.errors import AnswerError

Fits: TypeAlias = Callable[[Any], bool]
EVENT = "Event"
"""The form of an event of the journal, which its kind chooses."""
TIME_MOST = 253402300799
"""The last second of the year 9999: no calendar goes further."""
SHOWN = 40
REMEDY = (
    "Check the address ($HOSTLER_URL, --server); where it is right, this client and the controller are of versions "
    "that do not fit: `hostler --version` on both machines shows them"
)
WORDS = {
    "str": "a text",
    "int": "an integer",
    "float": "a finite number",
    "bool": "true or false",
    "null": "null",
    "time": "a time in seconds since 1970",
}


class Lacking(dict[str, Any]):
    """An object of an answer that lacks some of its fields."""

    def __init__(self, there: Mapping[str, Any], where: str) -> None:
        super().__init__(there)
        self._where = where

    def __missing__(self, name: str) -> Any:
        raise AnswerError(f"{self._where} lacks the field {name!r}. {REMEDY}")


def form_of(method: str, path: str) -> Any:
    """The form of the answer to a request for this path, as it is in `ANSWERS`; `any` where none is known."""
    parts = path.partition("?")[0].split("/")
    found = [form for request, form in ANSWERS.items() if _is_for(request, method, parts)]
    return found[0] if found else "any"


def checked(value: Any, form: Any, what: str) -> Any:
    """The value, which has this form. Raises `AnswerError`; `what` names the answer in its message."""
    if _fits(form)(value):
        return value
    return _examined(value, form, what)


def _is_for(request: str, method: str, parts: list[str]) -> bool:
    its_method, _, path = request.partition(" ")
    its_parts = path.split("/")
    return (
        its_method == method
        and len(its_parts) == len(parts)
        and all(mine == its or its.startswith("{") for mine, its in zip(parts, its_parts, strict=True))
    )


# --- whether ---------------------------------------------------------------------------------------------------------

_known: dict[str, Fits] = {}


def _fits(form: Any) -> Fits:
    """Whether a value has a form, as fast as may be: lists have thousands of rows."""
    if isinstance(form, str):
        return KINDS[form] if form in KINDS else _named(form)
    if isinstance(form, tuple):
        some = tuple(map(_fits, form))
        return lambda value: any(fits(value) for fits in some)
    if isinstance(form, list):
        return _list(form)
    ((field, inner),) = form.items()
    if field:
        return lambda value: type(value) is dict and _fits(_chosen(inner, value.get(field)))(value)
    each = _fits(inner)
    return lambda value: type(value) is dict and all(map(each, value.values()))


def _named(name: str) -> Fits:
    """Whether a value is an object of this name; its fields are looked up once, and at the first such value."""

    def fits(value: Any) -> bool:
        if name not in _known:
            _known[name] = _fits(_events()) if name == EVENT else _object(_fields_of(name))
        return _known[name](value)

    return fits


def _object(fields: Mapping[str, Any]) -> Fits:
    needed = tuple((field, _fits(_timed(field, form))) for field, form in fields.items() if field[-1] != "?")
    others = tuple((field[:-1], _fits(form)) for field, form in fields.items() if field[-1] == "?")

    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for field, is_fit in needed:
            if field not in value or not is_fit(value[field]):
                return False
        return all(field not in value or is_fit(value[field]) for field, is_fit in others)

    return fits


def _list(forms: list[Any]) -> Fits:
    some = tuple(map(_fits, forms))
    if len(some) == 1:
        (each,) = some
        return lambda value: type(value) is list and all(map(each, value))
    return lambda value: (
        type(value) is list
        and len(value) == len(some)
        and all(fits(item) for fits, item in zip(some, value, strict=True))
    )


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value - value == 0)


KINDS: Mapping[str, Fits] = {
    "str": lambda value: type(value) is str,
    "int": lambda value: type(value) is int,
    "float": _is_number,
    "bool": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    "time": lambda value: _is_number(value) and abs(value) <= TIME_MOST,
    "any": lambda _: True,
}


def _events() -> Any:
    from hostler.client.event_forms import EVENTS  # few commands show events

    return {"kind": EVENTS}


def _fields_of(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] | None = OBJECTS.get(name)
    if found is None:
        from hostler.client import event_forms

        found = cast(Mapping[str, Any], event_forms.OBJECTS[name])
    return found


def _timed(field: str, form: Any) -> Any:
    """A field that is a time by its name has a form of its own: a number that no calendar has cannot be shown."""
    if field != "at" and not field.endswith("_at"):
        return form
    return {"float": "time", ("float", "null"): ("time", "null")}.get(form, form)


def _chosen(inner: Mapping[str, str], kind: Any) -> str | Mapping[str, Any]:
    """The form of an object by its kind. One of a kind that is not known here may have any fields."""
    return inner.get(kind, {"": "any"}) if isinstance(kind, str) else "null"


# --- where not -------------------------------------------------------------------------------------------------------


def _examined(value: Any, form: Any, where: str) -> Any:
    """A value that does not have its form, with `Lacking` for objects that lack fields. Raises `AnswerError`."""
    if _fits(form)(value):
        return value
    if isinstance(form, list) and isinstance(value, list) and len(form) in (1, len(value)):
        forms = form * len(value) if len(form) == 1 else form
        return [_examined(item, each, f"{where}[{n}]") for n, (item, each) in enumerate(zip(value, forms, strict=True))]
    if isinstance(form, dict) and isinstance(value, dict):
        ((field, inner),) = form.items()
        if not field:
            return {name: _examined(item, inner, f"{where}.{name:.{SHOWN}}") for name, item in value.items()}
        if isinstance(value.get(field), str):
            return _examined(value, _chosen(inner, value[field]), where)
    if isinstance(form, tuple) and value is not None:
        composed = [each for each in form if each != "null"]
        if len(composed) == 1:
            return _examined(value, composed[0], where)
    if form == EVENT:
        return _examined(value, _events(), where)
    if isinstance(form, str) and form not in KINDS and isinstance(value, dict):
        return _examined_object(value, _fields_of(form), where)
    raise AnswerError(f"{where} is {_shown(value)}, not {_described(form)}. {REMEDY}")


def _examined_object(value: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> Any:
    forms = {field.rstrip("?"): _timed(field, form) for field, form in fields.items()}
    there = {
        name: _examined(item, forms[name], f"{where}.{name}") if name in forms else item for name, item in value.items()
    }
    needed = [field for field in fields if field[-1] != "?"]
    lacking = [field for field in needed if field not in value]
    if len(lacking) == len(needed) and needed:
        raise AnswerError(f"{where} is {_shown(value)}, which has none of the fields {', '.join(needed[:3])}. {REMEDY}")
    return Lacking(there, where) if lacking else there


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _described(form: Any) -> str:
    if isinstance(form, tuple):
        return " or ".join(map(_described, form))
    if isinstance(form, list):
        return "a list" if len(form) == 1 else f"a list of {len(form)}"
    return WORDS.get(form, "an object") if isinstance(form, str) else "an object"
