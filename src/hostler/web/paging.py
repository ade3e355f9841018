"""Lists in pages, all in the same way: `limit` and `after` in the question, the next page in the answer's `Link`.

Bodies are lists. The header is as RFC 8288 has it, `Link: <?limit=100&after=...>; rel="next"`, and missing on the last
page. What stands in `after` is nobody's business but ours: the number of a row where rows have numbers, or else the
names of the last rows of a page, of which one should still be there when the next one is asked for.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

from fastapi import Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.errors import UsageError
from hostler.web.answers import Limit, answer

T = TypeVar("T")

CURSOR_MAX = 4096
ANCHORS = 4
"""Rows that a cursor remembers; where the last of them has gone meanwhile, the page begins behind the one before."""
NUMBER = re.compile(r"[0-9]{1,18}")


class Paging(NamedTuple):
    """Which page is asked for."""

    after: str | None
    limit: int

    def number(self) -> int:
        """The number that the page begins behind; 0 for the first one. Raises `UsageError`."""
        if self.after is None:
            return 0
        if not NUMBER.fullmatch(self.after):
            raise _no_cursor(self.after)
        return int(self.after)

    def anchors(self) -> Sequence[str]:
        """The names of rows, one of which the page begins behind; none for the first page. Raises `UsageError`."""
        if self.after is None:
            return ()
        try:
            padded = self.after + "=" * (-len(self.after) % 4)
            found = json.loads(base64.b64decode(padded, b"-_", validate=True))
        except (ValueError, binascii.Error, RecursionError):
            raise _no_cursor(self.after) from None
        if not isinstance(found, list) or not found or not all(isinstance(each, str) for each in found):
            raise _no_cursor(self.after)
        return found


# FastAPI sends a dependency without `async` through a thread, which costs more than most answers.
async def paging(
    after: Annotated[
        str | None, Query(max_length=CURSOR_MAX, description="from the `Link` of the page before; none: the first page")
    ] = None,
    limit: Limit = 100,
) -> Paging:
    """What a request says of pages."""
    return Paging(after, limit)


Paged = Annotated[Paging, Depends(paging)]


def split(found: Sequence[T], limit: int, number: Callable[[T], object]) -> tuple[Sequence[T], str | None]:
    """A page of rows that have numbers, and the cursor of the next one; one row more than `limit` was looked for."""
    page = found[:limit]
    return page, str(number(page[-1])) if len(found) > limit else None


def headed(found: Sequence[T], limit: int, name: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """The same of rows that have names: whoever looked for them has looked behind the anchors already."""
    page = found[:limit]
    return page, cursor([name(each) for each in page]) if len(found) > limit else None


def cut(rows: Sequence[T], asked: Paging, name: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """A page of rows that have names and are all at hand, and the cursor of the next one. Raises `UsageError`."""
    anchors, begin = asked.anchors(), 0
    names = list(_told_apart(map(name, rows)))
    if anchors:
        places = {each: place for place, each in enumerate(names)}
        found = next((places[each] for each in reversed(anchors) if each in places), None)
        if found is None:
            raise UsageError("`after` leads nowhere: what it stood at has gone, or is of another list; begin again")
        begin = found + 1
    end = begin + asked.limit
    return rows[begin:end], cursor(names[begin:end]) if end < len(rows) else None


def cursor(names: Sequence[str]) -> str:
    """Where the page behind the one of these rows begins."""
    return base64.urlsafe_b64encode(json.dumps(names[-ANCHORS:]).encode()).rstrip(b"=").decode()


def answer_page(request: Request, shape: Any, page: object, more: str | None) -> Response:
    """A page as JSON, with the way to the next one: `more` is its cursor, `None` on the last."""
    response = answer(shape, page)
    if more is not None:
        known = parse_qsl(request.scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
        query = [(key, value) for key, value in known if key != "after"]
        response.headers["Link"] = f'<?{urlencode([*query, ("after", more)])}>; rel="next"'
    return response


def _told_apart(names: Iterable[str]) -> Iterator[str]:
    """The same, those that are there several times with a number: no row may be lost between two of one name."""
    known: Counter[str] = Counter()
    for each in names:
        known[each] += 1
        yield each if known[each] == 1 else f"{each}\n{known[each]}"


def _no_cursor(text: str) -> UsageError:
    return UsageError(f"`after` is no cursor of this list: {text[:60]!r}; take it from the `Link` of the page before")
