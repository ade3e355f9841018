"""Values of environment variables, hidden from readers: a token of scope read sees names only.

They are hidden in what was made as JSON, wherever it has an object called `env`: so nothing that shows jobs, nodes,
loops or entries of the journal can forget it.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

HIDDEN = "(hidden)"
_TEXT = rb'"(?:[^"\\]|\\.)*+"'
_ENV = re.compile(rb'"env": ?\{(?:' + _TEXT + rb": ?(?:" + _TEXT + rb"|null),? ?)++\}")
_MEMBER = re.compile(rb"(" + _TEXT + rb": ?)" + _TEXT)
_BEGIN = re.compile(rb'"env": ?\{"')
_is_reader: ContextVar[bool] = ContextVar("is_reader", default=False)


def answer_reader(reader: bool) -> None:
    """Have the answers of the request that is being served hide values, or not."""
    _is_reader.set(reader)


def shown(data: bytes) -> bytes:
    """JSON as it is shown to the sender of the request that is being served."""
    if not _is_reader.get() or _BEGIN.search(data) is None:
        return data
    return _ENV.sub(_hidden, data)


def _hidden(found: re.Match[bytes]) -> bytes:
    head, brace, members = found[0].partition(b"{")
    return head + brace + _MEMBER.sub(rb'\1"' + HIDDEN.encode() + b'"', members)
